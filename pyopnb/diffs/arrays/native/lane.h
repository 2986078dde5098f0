// What two arrays differ in, counted block by block by one thread: nothing here grows with the arrays.
//
// A block is so small that all that is calculated of it stays in a core's first cache, in plain loops of which compilers make
// vector instructions. Each family of dtypes has a function that reads a block into float64 and counts what is its own; pairs
// that are no two finite numbers are counted there, and stand as 0 and 0 in all that follows. The rest is the same for all
// families.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "hull.h"
#include "loops.h"
#include "marginals.h"
#include "wide_sum.h"

namespace pyopnb {

constexpr size_t kBlock = 1024;
constexpr size_t kWorst = 5;
static_assert(kBlock <= HullBuilder::kBatch);
constexpr double kSlack = 1 + 0x1p-40;  // by which a bound may be missed, so that no answer depends on how it was rounded
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What is counted beside differences, in the order in which it is told.
enum Class : uint8_t {
  kNanBoth,
  kNanA,
  kNanB,
  kSameInfinity,
  kOppositeInfinities,
  kInfiniteA,
  kInfiniteB,
  kInfinitiesDiffer,
  kTooFar,
  kNanBits,
  kSubnormalA,
  kSubnormalB,
  kFromZero,
  kZeroSigns,
  kClasses
};
constexpr const char* kClassNames[kClasses] = {"NaN in both",
                                               "NaN in a",
                                               "NaN in b",
                                               "the same infinity",
                                               "opposite infinities",
                                               "infinite in a",
                                               "infinite in b",
                                               "infinities that differ",
                                               "farther apart than float64 reaches",
                                               "NaN of other bits",
                                               "subnormal in a",
                                               "subnormal in b",
                                               "differs from 0",
                                               "0.0 against -0.0"};

// What all lanes are told.
struct Task {
  std::vector<int64_t> shape;
  int64_t rows, columns;  // the array as a matrix: the last axis is across
  double rtol, atol;
  bool exact;              // integers and bools: only whole differences are tolerated, and no frontier is wanted
  uint64_t allowed;        // of 64-bit integers: the largest difference that is tolerated
  int64_t stride;          // every so many-th element is in the histograms; a power of 2. 0: only the totals are wanted
  double smallest_normal;  // of the float dtype
  // Of floats of one and two bytes: each pattern's value, and an integer that rises by one from each value to the next.
  const float* values;
  const int32_t* order;
};

struct Worst {
  uint64_t key;  // rises with |a-b|: of 64-bit integers it is the difference, of other dtypes its bits as float64
  int64_t at;
  uint64_t ulp;

  bool operator<(const Worst& other) const { return key != other.key ? key > other.key : at < other.at; }
};

template <class Bits>
int64_t count_unequal_bits(const Bits* x, const Bits* y, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) count += x[i] != y[i];
  return count;
}

// Widens n pairs of floats, and makes both numbers of a pair 0, in all four arrays, if they are not two finite numbers.
template <class Format>
Specials clear_by_values(const Format& format, typename Format::Bits* x, typename Format::Bits* y, double* a, double* b,
                         uint32_t* special, uint32_t* odd, size_t n) {
  using Bits = typename Format::Bits;
  format.widen(x, a, n);
  format.widen(y, b, n);
  Specials found = loops::clear_specials(a, b, special, odd, n);
  for (size_t i = 0; i < n; i++) {
    Bits kept = static_cast<Bits>(Bits(special[i]) - 1);
    x[i] &= kept, y[i] &= kept;
  }
  return found;
}

// How the floats of a dtype are read: as float64, and as integers that rise by one from each value to the next.
struct Float32 {
  using Bits = uint32_t;
  using Steps = uint32_t;

  explicit Float32(const Task&) {}
  void widen(const Bits* bits, double* values, size_t n) const { loops::widen(bits, values, n); }
  Specials clear(Bits* x, Bits* y, double* a, double* b, uint32_t* special, uint32_t* odd, size_t n) const {
    Specials found = loops::clear_specials(x, y, special, odd, n);
    widen(x, a, n);
    widen(y, b, n);
    return found;
  }
  int64_t count_unequal(const Bits* x, const Bits* y, size_t n) const { return loops::count_unequal(x, y, n); }
  Steps count_steps(const Bits* x, const Bits* y, Steps* steps, size_t n) const { return loops::count_steps(x, y, steps, n); }
};

struct Float64 {
  using Bits = uint64_t;
  using Steps = uint64_t;

  explicit Float64(const Task&) {}
  void widen(const Bits* bits, double* values, size_t n) const { std::memcpy(values, bits, n * sizeof(double)); }
  Specials clear(Bits* x, Bits* y, double* a, double* b, uint32_t* special, uint32_t* odd, size_t n) const {
    return clear_by_values(*this, x, y, a, b, special, odd, n);
  }
  int64_t count_unequal(const Bits* x, const Bits* y, size_t n) const { return count_unequal_bits(x, y, n); }
  Steps count_steps(const Bits* x, const Bits* y, Steps* steps, size_t n) const { return loops::count_steps(x, y, steps, n); }
};

// Floats of one and two bytes: by the task's tables, whatever their format.
template <class BitsOf>
struct Tabulated {
  using Bits = BitsOf;
  using Steps = uint32_t;

  explicit Tabulated(const Task& task) : values_(task.values), order_(task.order) {}
  void widen(const Bits* bits, double* values, size_t n) const {
    for (size_t i = 0; i < n; i++) values[i] = values_[bits[i]];
  }
  Specials clear(Bits* x, Bits* y, double* a, double* b, uint32_t* special, uint32_t* odd, size_t n) const {
    return clear_by_values(*this, x, y, a, b, special, odd, n);
  }
  int64_t count_unequal(const Bits* x, const Bits* y, size_t n) const { return count_unequal_bits(x, y, n); }
  Steps count_steps(const Bits* x, const Bits* y, Steps* steps, size_t n) const {
    Steps most = 0;
    for (size_t i = 0; i < n; i++) {
      int32_t p = order_[x[i]], q = order_[y[i]];
      // 0.0 and -0.0 are one step apart, and no difference.
      steps[i] = values_[x[i]] == values_[y[i]] ? 0 : static_cast<Steps>(p > q ? p - q : q - p);
      most = std::max(most, steps[i]);
    }
    return most;
  }

 private:
  const float* values_;
  const int32_t* order_;
};

class Lane {
 public:
  // Counts a block of at most kBlock elements, which begins at a position of the whole. One of the functions below.
  using Count = void (Lane::*)(const uint8_t*, const uint8_t*, size_t, int64_t);

  explicit Lane(const Task& task) : heatmap(task.rows, task.columns), axes(task.shape), task_(task) {}

  template <class Format>
  void count_floats(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    using Bits = typename Format::Bits;
    using Steps = typename Format::Steps;
    const Format format(task_);
    alignas(64) Bits x[kBlock], y[kBlock];
    std::memcpy(x, left, n * sizeof(Bits));
    std::memcpy(y, right, n * sizeof(Bits));
    int64_t unequal = format.count_unequal(x, y, n);
    bits += unequal;
    odd_in_block_ = 0;
    bool special = special_before_;  // what one block has, the next has as well, nearly always
    Sums block;
    if (!special) {
      format.widen(y, t_, n);
      if (!unequal && count_same(n, at)) return;
      format.widen(x, a_, n);
      block = sum(n);
      special = !std::isfinite(block.left + block.right);  // something is not finite, or has a square that is not
    }
    if (special) {
      special = count_specials(format.clear(x, y, a_, t_, special_, odd_, n)) > 0;
      int64_t of_finite = format.count_unequal(x, y, n);
      classes[kNanBits] += unequal - of_finite - odd_in_block_;
      unequal = of_finite;
      block = sum(n);
    }
    special_before_ = special;
    sums.add(block);
    peak = std::max(peak, reference_.most);
    if (least_ < task_.smallest_normal) {
      classes[kSubnormalA] += loops::count_between_zero_and(task_.smallest_normal, a_, n);
      classes[kSubnormalB] += loops::count_between_zero_and(task_.smallest_normal, t_, n);
    }
    Steps steps[kBlock];
    if (!only_totals()) {
      if (away_.most > 0) {
        ulp = std::max<uint64_t>(ulp, format.count_steps(x, y, steps, n));
      } else {
        std::fill_n(steps, n, Steps(0));
      }
      for (size_t i = first_sampled(at); i < n; i += static_cast<size_t>(task_.stride)) {
        if (!special || !special_[i]) ulps[digits(steps[i])]++;
      }
    }
    int64_t other_values = measure(n, at, special, [&steps](size_t i) { return static_cast<uint64_t>(steps[i]); });
    classes[kZeroSigns] += unequal - other_values;
  }

  // The size of a difference of complex numbers is its modulus.
  template <class Part>
  void count_complex(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    Part x[2 * kBlock], y[2 * kBlock];
    std::memcpy(x, left, n * sizeof(Part) * 2);
    std::memcpy(y, right, n * sizeof(Part) * 2);
    bool special = false;
    Sums block;
    reference_ = {kInfinity, 0}, away_ = {kInfinity, 0}, odd_in_block_ = 0;
    for (size_t i = 0; i < n; i++) {
      double ar = x[2 * i], ai = x[2 * i + 1], br = y[2 * i], bi = y[2 * i + 1];
      bool unequal = std::memcmp(x + 2 * i, y + 2 * i, 2 * sizeof(Part)) != 0;
      double real = ar - br, imaginary = ai - bi, d = modulus<Part>(real, imaginary);
      bits += unequal;
      d_[i] = t_[i] = 0;
      special_[i] = !(std::isfinite(d) && std::isfinite(ar) && std::isfinite(ai)), odd_[i] = 0;
      if (special_[i]) {
        special = true;
        away_.least = reference_.least = 0;  // what d_ and t_ have of it
        odd_[i] = count_special(ar, ai, br, bi);
        continue;
      }
      d_[i] = d;
      t_[i] = std::min(modulus<Part>(br, bi), std::numeric_limits<double>::max());
      classes[kZeroSigns] += unequal && d == 0;
      real_parts = std::max(real_parts, std::fabs(real)), imaginary_parts = std::max(imaginary_parts, std::fabs(imaginary));
      block.total += d, block.squares += d * d;
      block.left += ar * ar + ai * ai, block.right += br * br + bi * bi, block.product += ar * br + ai * bi;
      away_ = {std::min(away_.least, d), std::max(away_.most, d)};
      reference_ = {std::min(reference_.least, t_[i]), std::max(reference_.most, t_[i])};
    }
    sums.add(block);
    peak = std::max(peak, reference_.most);
    measure(n, at, special, [](size_t) { return uint64_t(0); });
  }

  // Bools and integers of at most 32 bits: their differences, and a block's sums of them, are exact in float64.
  template <class Integer>
  void count_integers(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    if (read_integers<Integer>(left, right, n, at)) return;
    Sums block = sum(n);
    sums.add(block);
    peak = std::max(peak, reference_.most);
    whole_above.add(static_cast<uint64_t>((block.total + block.bias) / 2));
    whole_below.add(static_cast<uint64_t>((block.total - block.bias) / 2));
    whole_largest = std::max(whole_largest, static_cast<uint64_t>(away_.most));
    bits += measure(n, at, false, [](size_t) { return uint64_t(0); });
  }

  // Integers of 64 bits: exact as well.
  template <class Integer>
  void count_long_integers(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    if (read_integers<Integer>(left, right, n, at)) return;
    sums.add(sum(n));
    peak = std::max(peak, reference_.most);
    alignas(64) int64_t x[kBlock], y[kBlock];
    std::memcpy(x, left, n * sizeof(int64_t));
    std::memcpy(y, right, n * sizeof(int64_t));
    // Unsigned integers become signed ones in the same order, as far apart.
    for (size_t i = 0; std::is_unsigned_v<Integer> && i < n; i++) x[i] ^= kSign, y[i] ^= kSign;
    Apart apart = loops::measure_apart(x, y, keys_, n);
    loops::to_float64(keys_, d_, n);
    int64_t unequal = static_cast<int64_t>(apart.unequal);
    bits += unequal, differing += unequal, finite += static_cast<int64_t>(n);
    whole_above.add_halves(apart.above_low, apart.above_high);
    whole_below.add_halves(apart.below_low, apart.below_high);
    whole_largest = std::max(whole_largest, apart.largest);
    int64_t hits = 0;
    for (size_t i = 0; i < n; i++) {
      hits_[i] = keys_[i] > task_.allowed;
      hits += static_cast<int64_t>(hits_[i]);
    }
    over += hits;
    if (only_totals()) return;
    count_sizes(n, at, false);
    if (!unequal) return;
    place(n, at, hits);
    if (is_among_worst(apart.largest)) keep_worst(n, at, [](size_t) { return uint64_t(0); });
  }

  void merge(Lane& other) {
    bits += other.bits, differing += other.differing, over += other.over, finite += other.finite, odd_count += other.odd_count;
    for (size_t i = 0; i < kClasses; i++) classes[i] += other.classes[i];
    sums.add(other.sums);
    whole_above.add(other.whole_above), whole_below.add(other.whole_below);
    whole_largest = std::max(whole_largest, other.whole_largest);
    largest = std::max(largest, other.largest), peak = std::max(peak, other.peak), at_zero = std::max(at_zero, other.at_zero);
    real_parts = std::max(real_parts, other.real_parts), imaginary_parts = std::max(imaginary_parts, other.imaginary_parts);
    ulp = std::max(ulp, other.ulp);
    worst.insert(worst.end(), other.worst.begin(), other.worst.end());
    std::sort(worst.begin(), worst.end());
    worst.resize(std::min(worst.size(), kWorst));
    odd.insert(odd.end(), other.odd.begin(), other.odd.end());
    std::sort(odd.begin(), odd.end());
    odd.resize(std::min(odd.size(), kWorst));
    first_over = std::min(first_over, other.first_over), first_differing = std::min(first_differing, other.first_differing);
    hull.merge(other.hull);
    heatmap.merge(other.heatmap);
    axes.merge(other.axes);
    if (sizes.empty()) sizes.resize(other.sizes.size());
    for (size_t i = 0; i < other.sizes.size(); i++) sizes[i] += other.sizes[i];
    for (size_t i = 0; i < ulps.size(); i++) ulps[i] += other.ulps[i];
    if (spread.empty()) spread.resize(other.spread.size());
    for (size_t i = 0; i < other.spread.size(); i++) {
      if (spread[i].empty()) spread[i].resize(other.spread[i].size());
      for (size_t j = 0; j < other.spread[i].size(); j++) spread[i][j] += other.spread[i][j];
    }
  }

  int64_t bits = 0, differing = 0, over = 0, finite = 0, odd_count = 0;
  std::array<int64_t, kClasses> classes{};
  Sums sums;
  WideSum whole_above, whole_below;  // of integers, exactly: the sum of |a-b| where a > b, and where a < b, and the largest
  uint64_t whole_largest = 0;
  double largest = 0, peak = 0, at_zero = 0;
  double real_parts = 0, imaginary_parts = 0;
  uint64_t ulp = 0;
  std::vector<Worst> worst;
  std::vector<int64_t> odd;  // the first pairs that no tolerance covers
  int64_t first_over = kNowhere, first_differing = kNowhere;
  HullBuilder hull;
  Heatmap heatmap;
  AxisCounts axes;
  // Histograms of the sample: |a-b| by eighths of an octave, after those that are 0; ULPs by their binary digits; pairs by the
  // exponents of |b| and |a-b|.
  static constexpr int kEighth = 49;  // bits of a float64 below an eighth of an octave
  std::vector<int64_t> sizes;
  std::array<int64_t, 66> ulps{};
  std::vector<std::vector<uint32_t>> spread;

 private:
  static constexpr int64_t kSign = std::numeric_limits<int64_t>::min();

  // Reads integers into a_ and t_. True if they are the same, which is counted then.
  template <class Integer>
  bool read_integers(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    alignas(64) Integer numbers[kBlock];
    std::memcpy(numbers, right, n * sizeof(Integer));
    loops::to_float64(numbers, t_, n);
    if (std::memcmp(left, right, n * sizeof(Integer)) == 0 && count_same(n, at)) return true;
    std::memcpy(numbers, left, n * sizeof(Integer));
    loops::to_float64(numbers, a_, n);
    return false;
  }

  // How many there are.
  int64_t count_specials(const Specials& found) {
    classes[kNanBoth] += found.nan_both, classes[kNanA] += found.nan_a, classes[kNanB] += found.nan_b;
    classes[kSameInfinity] += found.same_infinity, classes[kOppositeInfinities] += found.opposite;
    classes[kInfiniteA] += found.infinite_a, classes[kInfiniteB] += found.infinite_b, classes[kTooFar] += found.too_far;
    odd_in_block_ = found.nan_a + found.nan_b + found.opposite + found.infinite_a + found.infinite_b + found.too_far;
    int64_t count = odd_in_block_ + found.nan_both + found.same_infinity;
    finite -= count;  // `measure` counts the whole block
    return count;
  }

  // Squares of float32 numbers, and of their differences, are far from both ends of float64.
  template <class Part>
  static double modulus(double real, double imaginary) {
    if constexpr (std::is_same_v<Part, float>) return std::sqrt(real * real + imaginary * imaginary);
    return std::hypot(real, imaginary);
  }

  // Counts a pair of complex numbers that has no finite difference; whether no tolerance covers it.
  bool count_special(double ar, double ai, double br, double bi) {
    auto alike = [](double p, double q) { return p == q || (p != p && q != q); };
    bool nan_a = ar != ar || ai != ai, nan_b = br != br || bi != bi;
    bool all_finite = std::isfinite(ar) && std::isfinite(ai) && std::isfinite(br) && std::isfinite(bi);
    bool odd_pair = all_finite || !alike(ar, br) || !alike(ai, bi);
    if (all_finite || nan_a || nan_b || odd_pair) {
      classes[all_finite ? kTooFar : nan_a && nan_b ? kNanBoth : nan_a ? kNanA : nan_b ? kNanB : kInfinitiesDiffer]++;
    }
    finite--;
    odd_in_block_ += odd_pair;
    return odd_pair;
  }

  // A block of the same bits in both, whose values are in t_. False if it is not that simple; then nothing was counted.
  bool count_same(size_t n, int64_t at) {
    double square = loops::sum_squares(t_, n, &reference_);
    if (!std::isfinite(square)) return false;
    sums.left += square, sums.right += square, sums.product += square;
    peak = std::max(peak, reference_.most);
    finite += static_cast<int64_t>(n);
    if (reference_.least < task_.smallest_normal) {
      int64_t count = loops::count_between_zero_and(task_.smallest_normal, t_, n);
      classes[kSubnormalA] += count, classes[kSubnormalB] += count;
    }
    if (only_totals()) return true;
    size_t stride = static_cast<size_t>(task_.stride), first = first_sampled(at);
    int64_t sampled = first < n ? static_cast<int64_t>((n - 1 - first) / stride + 1) : 0;
    histogram()[0] += sampled, ulps[0] += sampled;
    return true;
  }

  // The sums of a block, whose values are in a_ and t_. Leaves |a-b| in d_, |b| in t_, and their ranges.
  Sums sum(size_t n) { return loops::sum(a_, t_, d_, n, &away_, &reference_, &least_); }

  // What the sizes of differences (d_) and of the reference (t_) tell; how many finite pairs differ. Of special blocks,
  // special_ says what is no number.
  template <class Ulp>
  int64_t measure(size_t n, int64_t at, bool special, Ulp ulp_of) {
    finite += static_cast<int64_t>(n);
    if (!only_totals()) count_sizes(n, at, special);
    int64_t other_values = 0, hits = 0;
    if (away_.most > 0) {
      other_values = away_.least > 0 ? static_cast<int64_t>(n) : loops::count_between_zero_and(kInfinity, d_, n);
    }
    if (away_.most > 0 && !only_totals()) {
      largest = std::max(largest, away_.most);
      if (!task_.exact) {
        if (reference_.least == 0) classes[kFromZero] += loops::count_from_zero(d_, t_, &at_zero, n);
        hull.add_batch(t_, d_, n, reference_);
      }
      if (is_among_worst(bits_of(away_.most))) {
        std::memcpy(keys_, d_, n * sizeof(double));
        keep_worst(n, at, ulp_of);
      }
    }
    if (away_.most > task_.atol) {
      hits = loops::mark_over(d_, t_, task_.rtol, task_.atol, kSlack, hits_, n);
    } else {
      std::fill_n(hits_, n, 0);
    }
    differing += other_values + odd_in_block_;
    over += hits + odd_in_block_;
    if (only_totals()) return other_values;
    odd_count += odd_in_block_;
    if (odd_in_block_) {
      loops::spoil(odd_, d_, hits_, n);
      for (size_t i = 0; i < n && odd.size() < kWorst; i++) {
        if (odd_[i]) odd.push_back(at + static_cast<int64_t>(i));
      }
    }
    if (other_values || odd_in_block_) place(n, at, hits + odd_in_block_);
    return other_values;
  }

  bool only_totals() const { return !task_.stride; }

  size_t first_sampled(int64_t at) const { return static_cast<size_t>(-at & (task_.stride - 1)); }

  // Binary digits: what the exponent of a float64 says, if only of numbers that rounding does not give one more.
  static size_t digits(uint64_t number) { return number ? (bits_of(static_cast<double>(number)) >> 52) - 1022 : 0; }

  std::vector<int64_t>& histogram() {
    if (sizes.empty()) sizes.resize(2048 * 8 + 1), spread.resize(2048);
    return sizes;
  }

  void count_sizes(size_t n, int64_t at, bool special) {
    histogram();
    for (size_t i = first_sampled(at); i < n; i += static_cast<size_t>(task_.stride)) {
      if (special && special_[i]) continue;
      uint64_t d = bits_of(d_[i]);
      sizes[d ? (d >> kEighth) + 1 : 0]++;
      // A picture needs fewer.
      if (!d || (task_.stride > 1 && (at + static_cast<int64_t>(i)) % (4 * task_.stride))) continue;
      std::vector<uint32_t>& row = spread[bits_of(std::fabs(t_[i])) >> 52];
      if (row.empty()) row.resize(2048);
      row[d >> 52]++;
    }
  }

  // Where differences and mismatches are: d_ and hits_.
  void place(size_t n, int64_t at, int64_t hits) {
    heatmap.add(d_, static_cast<int64_t>(n), at);
    if (first_differing == kNowhere) {
      const double* found = std::find_if(d_, d_ + n, [](double d) { return d > 0; });
      if (found != d_ + n) first_differing = at + (found - d_);
    }
    if (!hits) return;
    axes.add(hits_, static_cast<int64_t>(n), at);
    if (first_over == kNowhere) first_over = at + (std::find(hits_, hits_ + n, uint64_t(1)) - hits_);
  }

  bool is_among_worst(uint64_t key) const { return worst.size() < kWorst || key > worst.back().key; }

  // The largest keys; of equal ones the first. One walk over the block and a few over parts of it, whatever is in it.
  template <class Ulp>
  void keep_worst(size_t n, int64_t at, Ulp ulp_of) {
    constexpr size_t part = 32;
    uint64_t largest_of[kBlock / part];
    size_t parts = (n + part - 1) / part;
    auto look = [&](size_t k) { largest_of[k] = loops::largest(keys_ + k * part, std::min(part, n - k * part)); };
    for (size_t k = 0; k < parts; k++) look(k);
    for (size_t count = 0; count < kWorst; count++) {
      size_t k = static_cast<size_t>(std::max_element(largest_of, largest_of + parts) - largest_of);
      uint64_t key = largest_of[k];
      if (!key || (worst.size() == kWorst && key <= worst.back().key)) return;
      size_t i = static_cast<size_t>(std::find(keys_ + k * part, keys_ + n, key) - keys_);
      Worst element = {key, at + static_cast<int64_t>(i), ulp_of(i)};
      worst.insert(std::upper_bound(worst.begin(), worst.end(), element), element);
      if (worst.size() > kWorst) worst.pop_back();
      keys_[i] = 0;
      look(k);
    }
  }

  const Task& task_;
  alignas(64) double a_[kBlock], t_[kBlock], d_[kBlock];
  uint64_t keys_[kBlock];
  uint64_t hits_[kBlock];
  uint32_t special_[kBlock], odd_[kBlock];  // 1 for what is no pair of finite numbers, and for what no tolerance covers
  bool special_before_ = false;             // whether there were some in the block before
  Range away_, reference_;                  // of the block's |a-b|, and of its |b|
  double least_ = 0;                        // the least of its |a| and |b|
  int64_t odd_in_block_ = 0;
};

}  // namespace pyopnb
