// Sums that 64 bits are too few for.
#pragma once

#include <cstdint>

namespace pyopnb {

// A sum of unsigned integers, exactly, modulo 2^128.
struct WideSum {
  uint64_t high = 0, low = 0;

  void add(uint64_t value) {
    low += value;
    high += low < value;
  }
  // The low and the high halves of integers, summed apart.
  void add_halves(uint64_t lower, uint64_t upper) {
    add(lower);
    add(upper << 32);
    high += upper >> 32;
  }
  void add(const WideSum& more) {
    add(more.low);
    high += more.high;
  }
};

}  // namespace pyopnb
