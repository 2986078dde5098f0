// A lane counts a part of two arrays, block by block. Pairs that are not two finite numbers are
// counted first, and are 0 and 0 in all that follows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include "hull.h"
#include "loops.h"
#include "places.h"

namespace pyopnb {

constexpr size_t kWorst = 5;
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// The orders for all lanes.
struct Task {
  std::vector<int64_t> shape;
  int64_t rows = 1, columns = 1;  // the array as a matrix: the last axis is across
  double rtol, atol;
  uint64_t allowed;        // of integers: the largest difference that is tolerated
  bool details;            // whether more than the totals is wanted
  double smallest_normal;  // of the float dtype
  // Of floats of two bytes: the value of each pattern of bits, and an integer that rises by one
  // from each value to the next.
  const float* values;
  const uint32_t* order;
};

struct Worst {
  // Rises with |a-b|: of integers it is the difference, of other dtypes its bits as float64.
  uint64_t key;
  int64_t at;
  uint64_t ulp;

  bool operator<(const Worst& other) const {
    return key != other.key ? key > other.key : at < other.at;
  }
};

class Lane {
 public:
  // Counts a block of at most kBlock elements, which begins at a position of the whole. One of the
  // functions below.
  using Count = void (Lane::*)(const uint8_t*, const uint8_t*, size_t, int64_t);

  explicit Lane(const Task& task)
      : heatmap(task.rows, task.columns), axes(task.shape), task_(task) {}

  // Float is void for floats of two bytes, which are read by the task's tables, in every format.
  template <class Float, class Bits>
  void count_floats(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    alignas(64) Bits x[kBlock], y[kBlock];
    std::memcpy(x, left, n * sizeof(Bits)), std::memcpy(y, right, n * sizeof(Bits));
    int64_t unequal = loops::count_unequal(x, y, n), nan_bits = 0;
    counts[kBits] += unequal;
    widen<Float>(x, a_, n), widen<Float>(y, t_, n);
    // Special pairs seldom come alone: behind a block with some, they are looked for before
    // anything is summed.
    bool search = specials_ > 0;
    Sums block;
    specials_ = odd_pairs_ = 0;
    if (!search) {
      block = sum(n);
      search = !std::isfinite(block.left + block.right +
                              block.squares);  // not finite, or its square is not
      if (search) widen<Float>(y, t_, n);
    }
    if (search) {
      std::tie(specials_, odd_pairs_) = loops::clear(a_, t_, special_, odd_, counts.data(), n);
      nan_bits = loops::clear_bits(x, y, special_, odd_, n);
      counts[kNanBits] += nan_bits;
      block = sum(n);
    }
    sums.add(block);
    if (extent_.least < task_.smallest_normal) {
      counts[kSubnormalA] += loops::count_between_zero_and(task_.smallest_normal, a_, n);
      counts[kSubnormalB] += loops::count_between_zero_and(task_.smallest_normal, t_, n);
    }
    if (task_.details && extent_.away > 0) {
      ulp = std::max(ulp, count_steps(x, y, n));
    } else {
      std::fill_n(steps_, n, 0);
    }
    int64_t other_values = measure(n, at);
    counts[kZeroSigns] += unequal - nan_bits - odd_pairs_ - other_values;
  }

  // Their differences are exact, in integers.
  template <class Integer>
  void count_integers(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    alignas(64) Integer x[kBlock], y[kBlock];
    std::memcpy(x, left, n * sizeof(Integer)), std::memcpy(y, right, n * sizeof(Integer));
    loops::widen<Integer>(x, a_, n), loops::widen<Integer>(y, t_, n);
    loops::measure_whole(x, y, keys_, steps_, n);
    loops::widen<uint64_t>(keys_, d_, n);
    Sums block = loops::sum_whole(d_, steps_, n);
    loops::multiply(a_, t_, n, &block, &extent_);
    sums.add(block);
    int64_t unequal = loops::count_unequal(x, y, n),
            hits = loops::mark_larger(keys_, task_.allowed, hits_, n);
    peak = std::max(peak, extent_.reference);
    counts[kBits] += unequal, counts[kDiffering] += unequal,
        counts[kFinite] += static_cast<int64_t>(n), counts[kOver] += hits;
    if (!task_.details || !unequal) return;
    locate(n, at, hits);
    keep_worst(n, at);
  }

  void merge(Lane& other) {
    for (size_t i = 0; i < kCounts; i++) counts[i] += other.counts[i];
    sums.add(other.sums);
    largest = std::max(largest, other.largest), peak = std::max(peak, other.peak),
    at_zero = std::max(at_zero, other.at_zero);
    ulp = std::max(ulp, other.ulp);
    first_over = std::min(first_over, other.first_over),
    first_differing = std::min(first_differing, other.first_differing);
    keep_first(worst, other.worst), keep_first(first_odd, other.first_odd);
    hull.merge(other.hull), heatmap.merge(other.heatmap), axes.merge(other.axes);
  }

  std::array<int64_t, kCounts> counts{};
  Sums sums;
  double largest = 0, peak = 0, at_zero = 0;
  uint64_t ulp = 0;
  std::vector<Worst> worst;
  std::vector<int64_t> first_odd;  // the first pairs that no tolerance covers
  int64_t first_over = kNowhere, first_differing = kNowhere;
  Hull hull;
  Heatmap heatmap;
  AxisCounts axes;

 private:
  template <class Float, class Bits>
  void widen(const Bits* patterns, double* values, size_t n) {
    if constexpr (std::is_void_v<Float>) {
      for (size_t i = 0; i < n; i++) values[i] = task_.values[patterns[i]];
    } else {
      loops::widen<Float>(patterns, values, n);
    }
  }

  template <class Bits>
  uint64_t count_steps(const Bits* x, const Bits* y, size_t n) {
    if constexpr (sizeof(Bits) > 2) return loops::count_steps(x, y, steps_, n);
    alignas(64) uint32_t p[kBlock], q[kBlock];
    for (size_t i = 0; i < n; i++)
      p[i] = task_.order[x[i]],
      q[i] = task_.values[x[i]] == task_.values[y[i]] ? p[i] : task_.order[y[i]];
    return loops::count_steps(p, q, steps_, n);
  }

  Sums sum(size_t n) {
    Sums block = loops::subtract(a_, t_, d_, n, &extent_);
    loops::multiply(a_, t_, n, &block, &extent_);
    return block;
  }

  // ---- what the sizes of differences tell

  // Of the differences in d_ and the reference in t_; how many finite pairs differ.
  int64_t measure(size_t n, int64_t at) {
    counts[kFinite] += static_cast<int64_t>(n) - specials_;
    peak = std::max(peak, extent_.reference), largest = std::max(largest, extent_.away);
    int64_t other_values = 0, hits = 0;
    std::fill_n(hits_, n, 0);
    if (extent_.away > 0) other_values = loops::count_between_zero_and(kInfinity, d_, n);
    if (extent_.away > task_.atol)
      hits = loops::mark_over(d_, t_, task_.rtol, task_.atol, hits_, n);
    counts[kDiffering] += other_values + odd_pairs_, counts[kOver] += hits + odd_pairs_,
        counts[kOdd] += odd_pairs_;
    if (!task_.details) return other_values;
    if (other_values) {
      if (extent_.least == 0) counts[kFromZero] += loops::count_from_zero(d_, t_, &at_zero, n);
      hull.add(t_, d_, n);
      if (worst.size() < kWorst || bits_of(extent_.away) > worst.back().key) {
        std::memcpy(keys_, d_, n * sizeof(double));
        keep_worst(n, at);
      }
    }
    if (odd_pairs_) loops::add_odd(odd_, d_, hits_, n);
    for (size_t i = 0; odd_pairs_ && first_odd.size() < kWorst && i < n; i++) {
      if (odd_[i]) first_odd.push_back(at + static_cast<int64_t>(i));
    }
    if (other_values || odd_pairs_) locate(n, at, hits + odd_pairs_);
    return other_values;
  }

  // Where differences and mismatches are: d_ and hits_.
  void locate(size_t n, int64_t at, int64_t hits) {
    heatmap.add(d_, static_cast<int64_t>(n), at);
    auto first = [&](const auto* values) {
      return at + (std::find_if(values, values + n, [](auto v) { return v > 0; }) - values);
    };
    if (first_differing == kNowhere) first_differing = first(d_);
    if (!hits) return;
    if (first_over == kNowhere) first_over = first(hits_);
    axes.add(hits_, static_cast<int64_t>(n), at);
  }

  template <class Item>
  static void keep_first(std::vector<Item>& items, const std::vector<Item>& more) {
    items.insert(items.end(), more.begin(), more.end());
    std::sort(items.begin(), items.end());
    items.resize(std::min(items.size(), kWorst));
  }

  // The largest of keys_, which is spoiled; of equal ones the first.
  void keep_worst(size_t n, int64_t at) {
    for (size_t count = 0; count < kWorst; count++) {
      uint64_t key = loops::largest(keys_, n);
      if (!key || (worst.size() == kWorst && key <= worst.back().key)) return;
      size_t i = static_cast<size_t>(std::find(keys_, keys_ + n, key) - keys_);
      keep_first(worst, {{key, at + static_cast<int64_t>(i), steps_[i]}});
      keys_[i] = 0;
    }
  }

  const Task& task_;
  alignas(64) double a_[kBlock], t_[kBlock], d_[kBlock];
  alignas(64) uint64_t keys_[kBlock], hits_[kBlock];
  // 1 where a pair is not two finite numbers, and where no tolerance covers it.
  alignas(64) uint64_t special_[kBlock], odd_[kBlock];
  // Units in the last place from each a to its b. Of integers: whether a < b.
  alignas(64) uint64_t steps_[kBlock] = {};
  int64_t specials_ = 0, odd_pairs_ = 0;  // how many of these
  Extent extent_;
};

}  // namespace pyopnb
