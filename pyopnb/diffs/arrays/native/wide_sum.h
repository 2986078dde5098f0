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
  void add(const WideSum& more) {
    add(more.low);
    high += more.high;
  }
};

}  // namespace pyopnb
