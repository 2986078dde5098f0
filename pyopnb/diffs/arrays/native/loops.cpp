#include "loops.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <portable.h>

namespace pyopnb::loops {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two's complement from sign and magnitude: rises with the float.
inline int32_t order(uint32_t bits) {
  int32_t value = static_cast<int32_t>(bits);
  return value ^ ((value >> 31) & std::numeric_limits<int32_t>::max());
}
inline int64_t order(uint64_t bits) {
  int64_t value = static_cast<int64_t>(bits);
  return value ^ ((value >> 63) & std::numeric_limits<int64_t>::max());
}

// 0.0 and -0.0 are one step apart, and no difference.
template <class Bits>
inline Bits step(Bits x, Bits y) {
  auto p = order(x), q = order(y);
  Bits steps = p > q ? static_cast<Bits>(p) - static_cast<Bits>(q) : static_cast<Bits>(q) - static_cast<Bits>(p);
  return steps & static_cast<Bits>(-static_cast<Bits>(static_cast<Bits>((x | y) << 1) != 0));
}

}  // namespace

PYOPNB_VERSIONS void widen(const uint32_t* bits, double* values, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float value;
    std::memcpy(&value, bits + i, sizeof value);
    values[i] = value;
  }
}

template <class Integer>
PYOPNB_VERSIONS void to_float64(const Integer* integers, double* values, size_t n) {
  for (size_t i = 0; i < n; i++) values[i] = static_cast<double>(integers[i]);
}
template void to_float64(const int8_t*, double*, size_t);
template void to_float64(const int16_t*, double*, size_t);
template void to_float64(const int32_t*, double*, size_t);
template void to_float64(const int64_t*, double*, size_t);
template void to_float64(const uint8_t*, double*, size_t);
template void to_float64(const uint16_t*, double*, size_t);
template void to_float64(const uint32_t*, double*, size_t);
template void to_float64(const uint64_t*, double*, size_t);

PYOPNB_VERSIONS Apart measure_apart(const int64_t* x, const int64_t* y, uint64_t* sizes, size_t n) {
  uint64_t above_low = 0, above_high = 0, below_low = 0, below_high = 0, largest = 0, unequal = 0;
#pragma omp simd reduction(+ : above_low, above_high, below_low, below_high, unequal) reduction(max : largest)
  for (size_t i = 0; i < n; i++) {
    // Of numbers at the two ends the difference needs the sign's bit: as an unsigned number it is exact.
    uint64_t up = static_cast<uint64_t>(x[i]) - static_cast<uint64_t>(y[i]);
    uint64_t above = x[i] > y[i] ? up : 0, below = x[i] > y[i] ? 0 : 0 - up, size = above | below;
    sizes[i] = size;
    above_low += above & 0xffffffff, above_high += above >> 32;
    below_low += below & 0xffffffff, below_high += below >> 32;
    unequal += size != 0;
    largest = size > largest ? size : largest;
  }
  return {above_low, above_high, below_low, below_high, largest, unequal};
}

PYOPNB_VERSIONS Sums sum(const double* a, double* b, double* d, size_t n, Range* away, Range* reference, double* least) {
  double total = 0, bias = 0, squares = 0, left = 0, right = 0, product = 0;
  double nearest = kInfinity, farthest = 0, low = kInfinity, least_a = kInfinity, top = 0;
#pragma omp simd reduction(+ : total, bias, squares) reduction(max : farthest) reduction(min : nearest)
  for (size_t i = 0; i < n; i++) {
    double difference = a[i] - b[i], size = std::fabs(difference);
    d[i] = size;
    bias += difference, total += size, squares += size * size;
    farthest = size > farthest ? size : farthest;
    nearest = size < nearest ? size : nearest;
  }
#pragma omp simd reduction(+ : left, right, product) reduction(max : top) reduction(min : low, least_a)
  for (size_t i = 0; i < n; i++) {
    double p = a[i], q = b[i], s = std::fabs(p), t = std::fabs(q);
    b[i] = t;
    left += p * p, right += q * q, product += p * q;
    top = t > top ? t : top;
    low = t < low ? t : low;
    least_a = s < least_a ? s : least_a;
  }
  *away = {nearest, farthest}, *reference = {low, top}, *least = least_a < low ? least_a : low;
  return {total, bias, squares, left, right, product};
}

PYOPNB_VERSIONS double sum_squares(const double* values, size_t n, Range* sizes) {
  double squares = 0, low = kInfinity, high = 0;
#pragma omp simd reduction(+ : squares) reduction(max : high) reduction(min : low)
  for (size_t i = 0; i < n; i++) {
    double size = std::fabs(values[i]);
    squares += size * size;
    high = size > high ? size : high;
    low = size < low ? size : low;
  }
  *sizes = {low, high};
  return squares;
}

PYOPNB_VERSIONS Specials clear_specials(double* a, double* b, uint32_t* special, uint32_t* odd, size_t n) {
  int64_t nan_both = 0, nan_a = 0, nan_b = 0, same = 0, opposite = 0, infinite_a = 0, infinite_b = 0, too_far = 0;
  for (size_t i = 0; i < n; i++) {
    double p = a[i], q = b[i];
    int64_t na = p != p, nb = q != q, ia = std::fabs(p) == kInfinity, ib = std::fabs(q) == kInfinity, equal = p == q;
    int64_t finite = (na | nb | ia | ib) ^ 1, beyond = finite & (std::fabs(p - q) == kInfinity);
    nan_both += na & nb, nan_a += na & (nb ^ 1), nan_b += nb & (na ^ 1);
    same += ia & ib & equal, opposite += ia & ib & (equal ^ 1);
    infinite_a += ia & ((ib | nb) ^ 1), infinite_b += ib & ((ia | na) ^ 1);
    too_far += beyond;
    int64_t here = (finite ^ 1) | beyond;
    special[i] = static_cast<uint32_t>(here);
    odd[i] = static_cast<uint32_t>(here & ((na & nb) ^ 1) & ((ia & ib & equal) ^ 1));
    a[i] = here ? 0 : p;
    b[i] = here ? 0 : q;
  }
  return {nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b, too_far};
}

PYOPNB_VERSIONS Specials clear_specials(uint32_t* x, uint32_t* y, uint32_t* special, uint32_t* odd, size_t n) {
  constexpr int32_t infinity = 0x7f800000;
  uint32_t nan_both = 0, nan_a = 0, nan_b = 0, same = 0, opposite = 0, infinite_a = 0, infinite_b = 0;
#pragma omp simd reduction(+ : nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b)
  for (size_t i = 0; i < n; i++) {
    int32_t p = static_cast<int32_t>(x[i] & 0x7fffffff), q = static_cast<int32_t>(y[i] & 0x7fffffff);
    uint32_t na = p > infinity, nb = q > infinity, ia = p == infinity, ib = q == infinity, equal = x[i] == y[i];
    uint32_t here = na | nb | ia | ib, both = na & nb, alike = ia & ib & equal;
    nan_both += both, nan_a += na & (nb ^ 1), nan_b += nb & (na ^ 1);
    same += alike, opposite += ia & ib & (equal ^ 1);
    infinite_a += ia & ((ib | nb) ^ 1), infinite_b += ib & ((ia | na) ^ 1);
    special[i] = here;
    odd[i] = here & ((both | alike) ^ 1);
    x[i] &= here - 1, y[i] &= here - 1;
  }
  return {nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b, 0};
}

PYOPNB_VERSIONS int64_t count_unequal(const uint32_t* x, const uint32_t* y, size_t n) {
  uint32_t count = 0;
  for (size_t i = 0; i < n; i++) count += x[i] != y[i];
  return count;
}

PYOPNB_VERSIONS int64_t count_between_zero_and(double limit, const double* values, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    double size = std::fabs(values[i]);
    count += (size < limit) & (size > 0);
  }
  return count;
}

PYOPNB_VERSIONS uint32_t count_steps(const uint32_t* x, const uint32_t* y, uint32_t* steps, size_t n) {
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++) {
    steps[i] = step(x[i], y[i]);
    most = steps[i] > most ? steps[i] : most;
  }
  return most;
}

PYOPNB_VERSIONS uint64_t count_steps(const uint64_t* x, const uint64_t* y, uint64_t* steps, size_t n) {
  uint64_t most = 0;
  for (size_t i = 0; i < n; i++) {
    steps[i] = step(x[i], y[i]);
    most = steps[i] > most ? steps[i] : most;
  }
  return most;
}

PYOPNB_VERSIONS int64_t mark_over(const double* d, const double* t, double rtol, double atol, double slack, uint64_t* hits,
                                  size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t over = d[i] > (atol + rtol * t[i]) * slack;
    hits[i] = static_cast<uint64_t>(over);
    count += over;
  }
  return count;
}

PYOPNB_VERSIONS void spoil(const uint32_t* odd, double* d, uint64_t* hits, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; i++) {
    hits[i] |= odd[i];
    d[i] = odd[i] ? kInfinity : d[i];
  }
}

PYOPNB_VERSIONS int64_t count_from_zero(const double* d, const double* t, double* most, size_t n) {
  int64_t count = 0;
  double largest = *most;
#pragma omp simd reduction(+ : count) reduction(max : largest)
  for (size_t i = 0; i < n; i++) {
    double away = d[i];
    away = t[i] == 0 ? away : 0;
    count += away > 0;
    largest = away > largest ? away : largest;
  }
  *most = largest;
  return count;
}

PYOPNB_VERSIONS Range range(const double* values, size_t n) {
  double low = kInfinity, high = 0;
#pragma omp simd reduction(max : high) reduction(min : low)
  for (size_t i = 0; i < n; i++) {
    high = values[i] > high ? values[i] : high;
    low = values[i] < low ? values[i] : low;
  }
  return {low, high};
}

PYOPNB_VERSIONS uint64_t largest(const uint64_t* values, size_t n) {
  uint64_t most = 0;
  for (size_t i = 0; i < n; i++) most = values[i] > most ? values[i] : most;
  return most;
}

PYOPNB_VERSIONS void raise(double* line, const double* values, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; i++) line[i] = values[i] > line[i] ? values[i] : line[i];
}

PYOPNB_VERSIONS void add(uint64_t* line, const uint64_t* values, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; i++) line[i] += values[i];
}

PYOPNB_VERSIONS size_t measure_excess(const double* t, const double* d, const Line lines[4], double level, double* excess,
                                      double* most, size_t n) {
  const Line p = lines[0], q = lines[1], r = lines[2], s = lines[3];
  double largest = 0;
  size_t count = 0;
#pragma omp simd reduction(+ : count) reduction(max : largest)
  for (size_t i = 0; i < n; i++) {
    double one = p.base + p.slope * t[i], two = q.base + q.slope * t[i], three = r.base + r.slope * t[i],
           four = s.base + s.slope * t[i];
    one = two < one ? two : one;
    three = four < three ? four : three;
    one = three < one ? three : one;
    one = level < one ? level : one;
    double above = d[i] - one;
    above = t[i] > 0 ? above : 0;
    excess[i] = above;
    count += above > 0;
    largest = above > largest ? above : largest;
  }
  *most = largest;
  return count;
}

PYOPNB_VERSIONS size_t measure_excess(const double* t, const double* d, const LineTable& table, double level, double* excess,
                                      size_t n) {
  const LineTable lines = table;
  size_t count = 0;
#pragma omp simd reduction(+ : count)
  for (size_t i = 0; i < n; i++) {
    double above = lines.excess(t[i], d[i], level);
    above = t[i] > 0 ? above : 0;
    excess[i] = above;
    count += above > 0;
  }
  return count;
}

}  // namespace pyopnb::loops
