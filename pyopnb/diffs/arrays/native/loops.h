// The loops over a block of elements, plain ones of which compilers make vector instructions. Where
// the loader can choose, there are also versions for newer processors.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include <portable.h>

namespace pyopnb {

constexpr size_t kBlock = 1024;
// By which a bound may be missed, so that no answer depends on how it was rounded.
constexpr double kSlack = 1 + 0x1p-40;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Pairs that are not two finite numbers, then what is counted beside differences, then what is
// counted over all pairs. stats.py has their names in this order.
enum Count {
  kNanBoth,
  kNanA,
  kNanB,
  kSameInfinity,
  kOppositeInfinities,
  kInfiniteA,
  kInfiniteB,
  kTooFar,
  kNanBits,
  kSubnormalA,
  kSubnormalB,
  kFromZero,
  kZeroSigns,
  kBits,
  kDiffering,
  kOver,
  kFinite,
  kOdd,
  kCounts
};

struct Sums {
  double total = 0, bias = 0, squares = 0, left = 0, right = 0, product = 0;

  void add(const Sums& more) {
    total += more.total, bias += more.bias, squares += more.squares;
    left += more.left, right += more.right, product += more.product;
  }
};

// Of a block: the largest |a-b|, the largest |b|, and the least |a| or |b|.
struct Extent {
  double away = 0, reference = 0, least = kInfinity;
};

struct Line {
  double base, slope;
};

// A line for each bin of t, by its leading bits; the first is also for all that is less, the last
// for all that is more.
struct LineTable {
  std::vector<Line> lines{{0, 0}};
  int64_t first = 0;  // the leading bits of the first bin
  int shift = 40;     // how many bits are not looked at
};

inline uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double from_bits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

namespace loops {

template <class Item, class Bits>
PYOPNB_VERSIONS void widen(const Bits* bits, double* values, size_t n) {
  for (size_t i = 0; i < n; i++) {
    Item value;
    std::memcpy(&value, bits + i, sizeof value);
    values[i] = static_cast<double>(value);
  }
}

// The count of a block fits into the smallest type of bits.
template <class Bits>
PYOPNB_VERSIONS int64_t count_unequal(const Bits* x, const Bits* y, size_t n) {
  Bits count = 0;
  for (size_t i = 0; i < n; i++) count = static_cast<Bits>(count + (x[i] != y[i]));
  return static_cast<int64_t>(count);
}

// The steps between two floats, from their bits: these rise with the float, but for the sign. -0.0
// is 0.0.
template <class Bits>
inline Bits step(Bits x, Bits y) {
  constexpr int sign = 8 * sizeof(Bits) - 1;
  using Signed = std::make_signed_t<Bits>;
  Signed p = static_cast<Signed>(x ^ (static_cast<Bits>(static_cast<Signed>(x) >> sign) >> 1));
  Signed q = static_cast<Signed>(y ^ (static_cast<Bits>(static_cast<Signed>(y) >> sign) >> 1));
  Bits steps = p > q ? static_cast<Bits>(p) - static_cast<Bits>(q)
                     : static_cast<Bits>(q) - static_cast<Bits>(p);
  return steps & static_cast<Bits>(-static_cast<Bits>(static_cast<Bits>((x | y) << 1) != 0));
}

template <class Bits>
PYOPNB_VERSIONS uint64_t count_steps(const Bits* x, const Bits* y, uint64_t* steps, size_t n) {
  Bits most = 0;
  for (size_t i = 0; i < n; i++) {
    Bits count = step(x[i], y[i]);
    steps[i] = count;
    most = count > most ? count : most;
  }
  return most;
}

// The sizes of differences of integers, which need the sign's bit: as unsigned numbers they are
// exact.
template <class Integer>
PYOPNB_VERSIONS void measure_whole(const Integer* x, const Integer* y, uint64_t* sizes,
                                   uint64_t* below, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t up = static_cast<uint64_t>(x[i]) - static_cast<uint64_t>(y[i]), less = x[i] < y[i];
    sizes[i] = (up ^ (0 - less)) + less;
    below[i] = less;
  }
}

PYOPNB_VERSIONS Sums sum_whole(const double* d, const uint64_t* below, size_t n) {
  double total = 0, bias = 0, squares = 0;
#pragma omp simd reduction(+ : total, bias, squares)
  for (size_t i = 0; i < n; i++) {
    total += d[i], squares += d[i] * d[i];
    bias += below[i] ? -d[i] : d[i];
  }
  return {total, bias, squares};
}

// d becomes |a-b|.
PYOPNB_VERSIONS Sums subtract(const double* a, const double* b, double* d, size_t n,
                              Extent* extent) {
  double total = 0, bias = 0, squares = 0, farthest = 0;
#pragma omp simd reduction(+ : total, bias, squares) reduction(max : farthest)
  for (size_t i = 0; i < n; i++) {
    double difference = a[i] - b[i], size = std::fabs(difference);
    d[i] = size, bias += difference, total += size, squares += size * size;
    farthest = size > farthest ? size : farthest;
  }
  extent->away = farthest;
  return {total, bias, squares};
}

// Adds the sums of products of a and b, which becomes its modulus.
PYOPNB_VERSIONS void multiply(const double* a, double* b, size_t n, Sums* sums, Extent* extent) {
  double left = 0, right = 0, product = 0, top = 0, least = kInfinity;
#pragma omp simd reduction(+ : left, right, product) reduction(max : top) reduction(min : least)
  for (size_t i = 0; i < n; i++) {
    double p = a[i], q = b[i], s = std::fabs(p), t = std::fabs(q), smaller = s < t ? s : t;
    b[i] = t;
    left += p * p, right += q * q, product += p * q;
    top = t > top ? t : top;
    least = smaller < least ? smaller : least;
  }
  extent->reference = top, extent->least = least;
  sums->left += left, sums->right += right, sums->product += product;
}

// Marks pairs that are not two finite numbers, or too far apart for one, with those that no
// tolerance covers, and sets them to 0. Adds how many there are of each class, and gives how many
// are marked. All by masks: a branch on randomly mixed data costs ten times as much.
PYOPNB_VERSIONS std::tuple<int64_t, int64_t> clear(double* a, double* b, uint64_t* special,
                                                   uint64_t* odd, int64_t* classes, size_t n) {
  int64_t all = 0, nan_both = 0, nan_a = 0, nan_b = 0, same = 0, opposite = 0, infinite_a = 0,
          infinite_b = 0;
#pragma omp simd reduction(+ : all, nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b)
  for (size_t i = 0; i < n; i++) {
    double p = a[i], q = b[i];
    int64_t is_special = !(std::fabs(p - q) < kInfinity), p_nan = p != p, q_nan = q != q,
            both = p_nan & q_nan;
    int64_t p_infinite = std::fabs(p) == kInfinity, q_infinite = std::fabs(q) == kInfinity,
            alike = p_infinite & (p == q);
    all += is_special, nan_both += both, nan_a += p_nan & ~q_nan, nan_b += q_nan & ~p_nan;
    same += alike, opposite += p_infinite & q_infinite & ~alike;
    infinite_a += p_infinite & ~(q_infinite | q_nan),
        infinite_b += q_infinite & ~(p_infinite | p_nan);
    special[i] = static_cast<uint64_t>(is_special),
    odd[i] = static_cast<uint64_t>(is_special & ~(both | alike));
    a[i] = is_special ? 0 : p, b[i] = is_special ? 0 : q;
  }
  int64_t counts[] = {nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b, all};
  for (size_t i = 0; i < kTooFar; i++) counts[kTooFar] -= counts[i];
  for (size_t i = 0; i <= kTooFar; i++) classes[i] += counts[i];
  return {all, all - nan_both - same};
}

// Sets the bits of special pairs to 0; of those that are not odd, how many differed.
template <class Bits>
PYOPNB_VERSIONS int64_t clear_bits(Bits* x, Bits* y, const uint64_t* special, const uint64_t* odd,
                                   size_t n) {
  int64_t unequal = 0;
  for (size_t i = 0; i < n; i++) {
    unequal += (special[i] & ~odd[i] & 1) != 0 && x[i] != y[i];
    Bits kept = static_cast<Bits>(special[i] - 1);
    x[i] &= kept, y[i] &= kept;
  }
  return unequal;
}

// What no tolerance covers is a mismatch, by an infinite difference.
PYOPNB_VERSIONS void add_odd(const uint64_t* odd, double* d, uint64_t* hits, size_t n) {
  for (size_t i = 0; i < n; i++) {
    d[i] = odd[i] ? kInfinity : d[i];
    hits[i] |= odd[i];
  }
}

PYOPNB_VERSIONS int64_t count_between_zero_and(double limit, const double* values, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++)
    count += (std::fabs(values[i]) < limit) & (std::fabs(values[i]) > 0);
  return count;
}

PYOPNB_VERSIONS int64_t mark_over(const double* d, const double* t, double rtol, double atol,
                                  uint64_t* hits, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t over = d[i] > (atol + rtol * t[i]) * kSlack;
    hits[i] = static_cast<uint64_t>(over);
    count += over;
  }
  return count;
}

PYOPNB_VERSIONS int64_t mark_larger(const uint64_t* sizes, uint64_t allowed, uint64_t* hits,
                                    size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i++) count += hits[i] = sizes[i] > allowed;
  return static_cast<int64_t>(count);
}

// How many d there are where t is 0, and in `most` the largest.
PYOPNB_VERSIONS int64_t count_from_zero(const double* d, const double* t, double* most, size_t n) {
  int64_t count = 0;
  double largest = *most;
#pragma omp simd reduction(+ : count) reduction(max : largest)
  for (size_t i = 0; i < n; i++) {
    double away = d[i];  // read in any case, so that there is no branch
    away = t[i] == 0 ? away : 0;
    count += away > 0;
    largest = away > largest ? away : largest;
  }
  *most = largest;
  return count;
}

template <class Number>
PYOPNB_VERSIONS Number largest(const Number* values, size_t n) {
  Number most = 0;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < n; i++) most = values[i] > most ? values[i] : most;
  return most;
}

// By how much each point (t, d) is above the lines of a table and below a level; 0 at t == 0. Gives
// how many are above.
PYOPNB_VERSIONS size_t measure_excess(const double* t, const double* d, const LineTable& table,
                                      double level, double* excess, size_t n) {
  const Line* lines = table.lines.data();
  const int64_t first = table.first, last = static_cast<int64_t>(table.lines.size()) - 1,
                shift = table.shift;
  size_t count = 0;
#pragma omp simd reduction(+ : count)
  for (size_t i = 0; i < n; i++) {
    int64_t bin;
    std::memcpy(&bin, t + i, sizeof bin);
    bin = (bin >> shift) - first;
    bin = bin < 0 ? 0 : bin;
    bin = bin > last ? last : bin;
    double height = lines[bin].base + lines[bin].slope * t[i];
    height = level < height ? level : height;
    double above = d[i] - height;
    above = t[i] > 0 ? above : 0;
    excess[i] = above;
    count += above > 0;
  }
  return count;
}

// Sets the excess of points to the right of one, and not above it, to 0.
PYOPNB_VERSIONS void cover(const double* t, const double* d, double right, double height,
                           double* excess, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool is_covered = (t[i] >= right) & (d[i] <= height);
    excess[i] = is_covered ? 0 : excess[i];
  }
}

}  // namespace loops

}  // namespace pyopnb
