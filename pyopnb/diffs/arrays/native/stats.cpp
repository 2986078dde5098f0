// The module pyopnb.diffs.arrays._stats counts what two arrays differ in, in one walk over both, in constant memory.
//
// Python hands over chunk after chunk of two arrays, so that it can be interrupted between two of them and tell how far it is.
// Each chunk is split among a few lanes, always in the same way, so that the result does not depend on the number of threads.
// A lane walks over its part in blocks that fit a core's first cache, in plain loops of which compilers make vector
// instructions. Pairs that are not two finite numbers are counted first, and are 0 and 0 in all that follows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <portable.h>

namespace nb = nanobind;

namespace pyopnb {

constexpr size_t kBlock = 1024, kWorst = 5;
constexpr double kSlack = 1 + 0x1p-40;  // by which a bound may be missed, so that no answer depends on how it was rounded
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

// Pairs that are not two finite numbers, then what is counted beside differences: then what all pairs count for: the names are
// in stats.py, in this order.
// clang-format off
enum Count { kNanBoth, kNanA, kNanB, kSameInfinity, kOppositeInfinities, kInfiniteA, kInfiniteB, kTooFar, kNanBits,
             kSubnormalA, kSubnormalB, kFromZero, kZeroSigns, kBits, kDiffering, kOver, kFinite, kOdd, kCounts };
// clang-format on

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

// A line for each bin of t, by its leading bits; the first is also for all that is less, the last for all that is more.
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

// ---- Loops of which compilers make vector instructions: also for newer processors, from which the loader chooses -----------

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

// The steps between two floats, from their bits: these rise with the float, but for the sign. -0.0 is 0.0.
template <class Bits>
inline Bits step(Bits x, Bits y) {
  constexpr int sign = 8 * sizeof(Bits) - 1;
  using Signed = std::make_signed_t<Bits>;
  Signed p = static_cast<Signed>(x ^ (static_cast<Bits>(static_cast<Signed>(x) >> sign) >> 1));
  Signed q = static_cast<Signed>(y ^ (static_cast<Bits>(static_cast<Signed>(y) >> sign) >> 1));
  Bits steps = p > q ? static_cast<Bits>(p) - static_cast<Bits>(q) : static_cast<Bits>(q) - static_cast<Bits>(p);
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

// The sizes of differences of integers, which need the sign's bit: as unsigned numbers they are exact.
template <class Integer>
PYOPNB_VERSIONS void measure_whole(const Integer* x, const Integer* y, uint64_t* sizes, uint64_t* below, size_t n) {
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
PYOPNB_VERSIONS Sums subtract(const double* a, const double* b, double* d, size_t n, Extent* extent) {
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

// Marks pairs that are not two finite numbers, or too far apart for one, with those that no tolerance covers, and sets them to
// 0. Adds how many there are of each class, and gives how many are marked. All by masks: a branch on data that somebody mixed
// at random costs ten times as much.
PYOPNB_VERSIONS std::tuple<int64_t, int64_t> clear(double* a, double* b, uint64_t* special, uint64_t* odd, int64_t* classes,
                                                   size_t n) {
  int64_t all = 0, nan_both = 0, nan_a = 0, nan_b = 0, same = 0, opposite = 0, infinite_a = 0, infinite_b = 0;
#pragma omp simd reduction(+ : all, nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b)
  for (size_t i = 0; i < n; i++) {
    double p = a[i], q = b[i];
    int64_t is_special = !(std::fabs(p - q) < kInfinity), p_nan = p != p, q_nan = q != q, both = p_nan & q_nan;
    int64_t p_infinite = std::fabs(p) == kInfinity, q_infinite = std::fabs(q) == kInfinity, alike = p_infinite & (p == q);
    all += is_special, nan_both += both, nan_a += p_nan & ~q_nan, nan_b += q_nan & ~p_nan;
    same += alike, opposite += p_infinite & q_infinite & ~alike;
    infinite_a += p_infinite & ~(q_infinite | q_nan), infinite_b += q_infinite & ~(p_infinite | p_nan);
    special[i] = static_cast<uint64_t>(is_special), odd[i] = static_cast<uint64_t>(is_special & ~(both | alike));
    a[i] = is_special ? 0 : p, b[i] = is_special ? 0 : q;
  }
  int64_t counts[] = {nan_both, nan_a, nan_b, same, opposite, infinite_a, infinite_b, all};
  for (size_t i = 0; i < kTooFar; i++) counts[kTooFar] -= counts[i];
  for (size_t i = 0; i <= kTooFar; i++) classes[i] += counts[i];
  return {all, all - nan_both - same};
}

// Sets the bits of special pairs to 0; of those that are not odd, how many differed.
template <class Bits>
PYOPNB_VERSIONS int64_t clear_bits(Bits* x, Bits* y, const uint64_t* special, const uint64_t* odd, size_t n) {
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
  for (size_t i = 0; i < n; i++) count += (std::fabs(values[i]) < limit) & (std::fabs(values[i]) > 0);
  return count;
}

PYOPNB_VERSIONS int64_t mark_over(const double* d, const double* t, double rtol, double atol, uint64_t* hits, size_t n) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t over = d[i] > (atol + rtol * t[i]) * kSlack;
    hits[i] = static_cast<uint64_t>(over);
    count += over;
  }
  return count;
}

PYOPNB_VERSIONS int64_t mark_larger(const uint64_t* sizes, uint64_t allowed, uint64_t* hits, size_t n) {
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

// By how much each point (t, d) is above the lines of a table and below a level; 0 at t == 0. Gives how many are above.
PYOPNB_VERSIONS size_t measure_excess(const double* t, const double* d, const LineTable& table, double level, double* excess,
                                      size_t n) {
  const Line* lines = table.lines.data();
  const int64_t first = table.first, last = static_cast<int64_t>(table.lines.size()) - 1, shift = table.shift;
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
PYOPNB_VERSIONS void cover(const double* t, const double* d, double right, double height, double* excess, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool is_covered = (t[i] >= right) & (d[i] <= height);
    excess[i] = is_covered ? 0 : excess[i];
  }
}

}  // namespace loops

// ---- The hardest elements, of which every tolerance's verdict follows ------------------------------------------------------

struct Point {
  double t, d;  // |b| and |a-b|
};

// An element passes where |a-b| <= atol + rtol*|b|: as a point it is then on or below a line with an intercept and a slope that
// are not negative. All points are if the corners of their upper hull are. The hull begins in the origin and rises.
//
// Points are inserted one after the other (F. P. Preparata, "An optimal real-time algorithm for planar convex hulls", 1979).
// Nearly all are seen to be below before, by a table of chords of the hull.
class Hull {
 public:
  // Takes n <= kBlock points with t >= 0 and d >= 0, all finite. Those at 0 are left out: no slope says anything about them.
  void add(const double* t, const double* d, size_t n) {
    double excess[kBlock];
    size_t above = loops::measure_excess(t, d, table_, highest_, excess, n);
    if (2 * above > n) {
      // Sorted values rise above the hull block by block: the farthest one leaves the others below, as in Quickhull.
      size_t farthest = static_cast<size_t>(std::find(excess, excess + n, loops::largest(excess, n)) - excess);
      Point top = {t[farthest], d[farthest]};
      insert(top);
      loops::cover(t, d, top.t, top.d, excess, n);
    }
    for (size_t i = 0; above && i < n; i++) {
      if (excess[i] > 0) insert({t[i], d[i]});
    }
    stale_ += above;
    if (stale_ > kStale) index();
    if (corners_.size() > 2 * kCorners) thin();
  }

  void merge(const Hull& other) {
    for (const Point& corner : other.corners_) insert(corner);
  }

  // The hull without the origin, from left to right.
  const std::vector<Point>& corners() {
    if (corners_.size() > kCorners) thin();
    return corners_;
  }

 private:
  static constexpr size_t kCorners = 512;  // that are kept; errors that follow a smooth curve have more
  static constexpr size_t kStale = 4096;   // points above the table, before it is made again
  static constexpr uint64_t kBins = 2048;
  static constexpr double kRounding = 1 + 0x1p-44;  // more than the error of a line that is calculated here

  std::vector<Point>::iterator right_of(double t) {
    return std::lower_bound(corners_.begin(), corners_.end(), t, [](Point corner, double at) { return corner.t < at; });
  }
  Point before(std::vector<Point>::iterator corner) { return corner == corners_.begin() ? Point{0, 0} : corner[-1]; }

  // The hull at t.
  double at(double t) {
    auto right = right_of(t);
    if (right == corners_.end()) return highest_;
    Line edge = line(before(right), *right);
    return std::min(edge.base + edge.slope * t, right->d);
  }

  // Whether p is above the line from one point to another, with from.t < p.t <= to.t. long double has room for the products.
  static bool is_above(Point from, Point to, Point p) {
    using Wide = long double;
    return (Wide(p.d) - from.d) * (Wide(to.t) - from.t) > (Wide(to.d) - from.d) * (Wide(p.t) - from.t);
  }

  void insert(Point p) {
    auto right = right_of(p.t), first = right, last = right;
    if (right == corners_.end() ? p.d <= before(right).d : !is_above(before(right), *right, p)) return;
    while (last != corners_.end() && (last->d <= p.d || (last + 1 != corners_.end() && !is_above(p, last[1], *last)))) ++last;
    while (first != corners_.begin() && !is_above(before(first - 1), p, first[-1])) --first;
    corners_.insert(corners_.erase(first, last), p);
    highest_ = corners_.back().d;
  }

  // Of a smooth curve every point is a corner. Leaves out corners that hardly stand out, never two side by side, and raises the
  // others by as much: no tolerance passes that would not have passed before.
  void thin() {
    for (double error = 0x1p-40; corners_.size() > kCorners; error *= 4) {
      std::vector<Point> kept;
      bool last_was_kept = true;
      for (size_t i = 0; i < corners_.size(); i++) {
        Point corner = corners_[i];
        Line chord = i + 1 < corners_.size() ? line(kept.empty() ? Point{0, 0} : kept.back(), corners_[i + 1]) : Line{0, 0};
        last_was_kept = !last_was_kept || corner.d > (chord.base + chord.slope * corner.t) * (1 + error);
        if (last_was_kept) kept.push_back({corner.t, corner.d * (1 + 2 * error)});
      }
      corners_ = kept;
    }
    highest_ = corners_.back().d;
  }

  // Where a double cannot hold a line this steep, one below all points.
  static Line line(Point from, Point to) {
    double rise = static_cast<double>((static_cast<long double>(to.d) - from.d) / (static_cast<long double>(to.t) - from.t));
    Line line = {(from.d - rise * from.t) * kRounding, rise * kRounding};
    return std::isfinite(line.base) && std::isfinite(line.slope) ? line : Line{0, 0};
  }

  // Makes the table, whose lines are chords. As the hull only grows, an old table is not wrong.
  void index() {
    uint64_t low = bits_of(corners_.front().t), high = bits_of(corners_.back().t);
    for (table_.shift = 40; (high >> table_.shift) - (low >> table_.shift) + 3 > kBins;) table_.shift++;
    table_.first = static_cast<int64_t>(low >> table_.shift) - 1;
    table_.lines = {line({0, 0}, corners_.front())};
    double begin = from_bits(low >> table_.shift << table_.shift);
    for (uint64_t bin = low >> table_.shift; bin <= high >> table_.shift; bin++) {
      double end = std::min(from_bits((bin + 1) << table_.shift), corners_.back().t);
      table_.lines.push_back(begin < end ? line({begin, at(begin)}, {end, at(end)}) : Line{highest_, 0});
      begin = end;
    }
    table_.lines.push_back({highest_, 0});
    stale_ = 0;
  }

  std::vector<Point> corners_;
  LineTable table_;
  double highest_ = 0;
  size_t stale_ = 0;
};

// ---- Where differences are -------------------------------------------------------------------------------------------------

// The largest difference of each field of the array as a matrix; infinite where no number says how large it is.
class Heatmap {
 public:
  Heatmap(int64_t rows, int64_t columns)
      : height(std::min(rows, kFields)),
        width(std::min(columns, rows > 1 ? kFields : 4 * kFields)),
        fields(static_cast<size_t>(height * width)),
        rows_(rows),
        columns_(columns) {}

  // Takes the differences of elements that begin at a position of the array, run by run within a field.
  void add(const double* d, int64_t n, int64_t at) {
    for (int64_t size; n; d += size, n -= size, at += size) {
      int64_t row = at / columns_, column = at % columns_, across = field_of(column, columns_, width);
      size = std::min(n, (across + 1) * columns_ / width - column);
      double& field = fields[static_cast<size_t>(field_of(row, rows_, height) * width + across)];
      field = std::max(field, size < 8 ? *std::max_element(d, d + size) : loops::largest(d, static_cast<size_t>(size)));
    }
  }

  void merge(const Heatmap& other) {
    for (size_t i = 0; i < fields.size(); i++) fields[i] = std::max(fields[i], other.fields[i]);
  }

  int64_t height, width;
  std::vector<double> fields;

 private:
  static constexpr int64_t kFields = 64;  // along each axis, at most; four times as many where there is but one row

  // The last field that begins at the index or before.
  static int64_t field_of(int64_t index, int64_t size, int64_t fields) { return ((index + 1) * fields - 1) / size; }

  int64_t rows_, columns_;
};

// Mismatches at each index of each axis that is not too long.
class AxisCounts {
 public:
  explicit AxisCounts(const std::vector<int64_t>& shape) : shape_(shape) {
    for (int64_t size : shape) counts.emplace_back(1 < size && size <= 65536 ? size : 0);
  }

  // hits: 1 where there is a mismatch, else 0. They are taken row by row, so that there are few divisions.
  void add(const uint64_t* hits, int64_t n, int64_t at) {
    if (shape_.empty()) return;
    for (int64_t size, columns = shape_.back(); n; hits += size, n -= size, at += size) {
      int64_t column = at % columns, flat = at / columns;
      size = std::min(n, columns - column);
      uint64_t count = 0;
      for (int64_t i = 0; i < size; i++) count += hits[i];
      uint64_t* along = counts.back().data() + column;
      for (int64_t i = 0; i < size && !counts.back().empty(); i++) along[i] += hits[i];
      for (size_t axis = shape_.size() - 1; count && axis-- > 0; flat /= shape_[axis]) {
        if (!counts[axis].empty()) counts[axis][static_cast<size_t>(flat % shape_[axis])] += count;
      }
    }
  }

  void merge(const AxisCounts& other) {
    for (size_t axis = 0; axis < shape_.size(); axis++) {
      for (size_t i = 0; i < counts[axis].size(); i++) counts[axis][i] += other.counts[axis][i];
    }
  }

  std::vector<std::vector<uint64_t>> counts;  // empty for an axis that is not counted

 private:
  std::vector<int64_t> shape_;
};

// ---- A part of two arrays, block by block ----------------------------------------------------------------------------------

// What all lanes are told.
struct Task {
  std::vector<int64_t> shape;
  int64_t rows = 1, columns = 1;  // the array as a matrix: the last axis is across
  double rtol, atol;
  uint64_t allowed;        // of integers: the largest difference that is tolerated
  bool details;            // whether more than the totals is wanted
  double smallest_normal;  // of the float dtype
  const float* values;     // of floats of two bytes: the value of each pattern of bits, and an integer that rises by one from
  const uint32_t* order;   // each value to the next
};

struct Worst {
  uint64_t key;  // rises with |a-b|: of integers it is the difference, of other dtypes its bits as float64
  int64_t at;
  uint64_t ulp;

  bool operator<(const Worst& other) const { return key != other.key ? key > other.key : at < other.at; }
};

class Lane {
 public:
  // Counts a block of at most kBlock elements, which begins at a position of the whole. One of the functions below.
  using Count = void (Lane::*)(const uint8_t*, const uint8_t*, size_t, int64_t);

  explicit Lane(const Task& task) : heatmap(task.rows, task.columns), axes(task.shape), task_(task) {}

  // Float is void for floats of two bytes, which are read by the task's tables, whatever their format.
  template <class Float, class Bits>
  void count_floats(const uint8_t* left, const uint8_t* right, size_t n, int64_t at) {
    alignas(64) Bits x[kBlock], y[kBlock];
    std::memcpy(x, left, n * sizeof(Bits)), std::memcpy(y, right, n * sizeof(Bits));
    int64_t unequal = loops::count_unequal(x, y, n), nan_bits = 0;
    counts[kBits] += unequal;
    widen<Float>(x, a_, n), widen<Float>(y, t_, n);
    // Special pairs seldom come alone: behind a block with some, they are looked for before anything is summed.
    bool search = specials_ > 0;
    Sums block;
    specials_ = odd_pairs_ = 0;
    if (!search) {
      block = sum(n);
      search = !std::isfinite(block.left + block.right + block.squares);  // not finite, or its square is not
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
    int64_t unequal = loops::count_unequal(x, y, n), hits = loops::mark_larger(keys_, task_.allowed, hits_, n);
    peak = std::max(peak, extent_.reference);
    counts[kBits] += unequal, counts[kDiffering] += unequal, counts[kFinite] += static_cast<int64_t>(n), counts[kOver] += hits;
    if (!task_.details || !unequal) return;
    locate(n, at, hits);
    keep_worst(n, at);
  }

  void merge(Lane& other) {
    for (size_t i = 0; i < kCounts; i++) counts[i] += other.counts[i];
    sums.add(other.sums);
    largest = std::max(largest, other.largest), peak = std::max(peak, other.peak), at_zero = std::max(at_zero, other.at_zero);
    ulp = std::max(ulp, other.ulp);
    first_over = std::min(first_over, other.first_over), first_differing = std::min(first_differing, other.first_differing);
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
      p[i] = task_.order[x[i]], q[i] = task_.values[x[i]] == task_.values[y[i]] ? p[i] : task_.order[y[i]];
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
    if (extent_.away > task_.atol) hits = loops::mark_over(d_, t_, task_.rtol, task_.atol, hits_, n);
    counts[kDiffering] += other_values + odd_pairs_, counts[kOver] += hits + odd_pairs_, counts[kOdd] += odd_pairs_;
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
  alignas(64) uint64_t special_[kBlock], odd_[kBlock];  // 1: no two finite numbers; covered by no tolerance
  alignas(64) uint64_t steps_[kBlock] = {};  // units in the last place from each a to its b; of integers: whether a < b
  int64_t specials_ = 0, odd_pairs_ = 0;     // how many of these
  Extent extent_;
};

// ---- The module ------------------------------------------------------------------------------------------------------------

template <class Item>
using Array = nb::ndarray<const Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Dtype {
  const char* name;  // family and bytes of an element
  size_t itemsize;
  Lane::Count count;
};

constexpr Dtype kDtypes[] = {
    {"float2", 2, &Lane::count_floats<void, uint16_t>},   {"float4", 4, &Lane::count_floats<float, uint32_t>},
    {"float8", 8, &Lane::count_floats<double, uint64_t>}, {"int4", 4, &Lane::count_integers<int32_t>},
    {"int8", 8, &Lane::count_integers<int64_t>},          {"uint8", 8, &Lane::count_integers<uint64_t>},
};

class Stats {
 public:
  Stats(const std::string& dtype, std::vector<int64_t> shape, double rtol, double atol, bool details, double smallest_normal,
        Array<float> values, Array<uint32_t> order)
      : values_(values), order_(order) {
    for (const Dtype& known : kDtypes) dtype_ = dtype == known.name ? known : dtype_;
    if (!dtype_.name) throw nb::value_error(("no such dtype: " + dtype).c_str());
    if (dtype == "float2" && (values.size() < 1 << 16 || order.size() < 1 << 16)) {
      throw nb::value_error("the tables of a float dtype have a row for each pattern of its bits");
    }
    for (size_t axis = 0; axis + 1 < shape.size(); axis++) task_.rows *= shape[axis];
    if (!shape.empty()) task_.columns = shape.back();
    task_.shape = std::move(shape);
    task_.rtol = rtol, task_.atol = atol, task_.allowed = atol < 0x1p64 ? static_cast<uint64_t>(atol) : UINT64_MAX;
    task_.details = details, task_.smallest_normal = smallest_normal;
    task_.values = values.data(), task_.order = order.data();
  }
  Stats(const Stats&) = delete;

  // Counts elements that begin at a position of the whole: contiguous, in the machine's byte order.
  void add(Array<uint8_t> left, Array<uint8_t> right, int64_t at, size_t threads) {
    if (left.size() != right.size() || left.size() % dtype_.itemsize) {
      throw nb::value_error("two buffers of the same number of whole elements are compared");
    }
    size_t count = left.size() / dtype_.itemsize, lanes = count < kShared ? 1 : kLanes;
    while (lanes_.size() < lanes) lanes_.push_back(std::make_unique<Lane>(task_));
    size_t share = (count / lanes / kBlock + 1) * kBlock, workers = std::max<size_t>(1, std::min(threads, lanes));
    auto work = [&](size_t worker) {
      for (size_t lane = worker; lane < lanes; lane += workers) {
        size_t end = std::min(count, (lane + 1) * share);
        for (size_t begin = lane * share; begin < end; begin += kBlock) {
          size_t offset = begin * dtype_.itemsize, size = std::min(kBlock, end - begin);
          auto position = at + static_cast<int64_t>(begin);
          (lanes_[lane].get()->*dtype_.count)(left.data() + offset, right.data() + offset, size, position);
        }
      }
    };
    nb::gil_scoped_release without_gil;
    // Where the system has no more threads, the work is deferred to this one, as the first worker's is.
    std::vector<std::future<void>> shares;
    for (size_t worker = workers; worker-- > 1;) {
      shares.push_back(std::async(std::launch::async | std::launch::deferred, work, worker));
    }
    work(0);
    for (std::future<void>& done : shares) done.get();
  }

  // How many elements differ in their bits and in their values, and are over the tolerance.
  std::tuple<int64_t, int64_t, int64_t> totals() const {
    int64_t bits = 0, differing = 0, over = 0;
    for (const auto& lane : lanes_) {
      bits += lane->counts[kBits], differing += lane->counts[kDiffering], over += lane->counts[kOver];
    }
    return {bits, differing, over};
  }

  nb::dict result() {
    if (!task_.details) throw nb::value_error("without details there are only totals");
    if (lanes_.empty()) lanes_.push_back(std::make_unique<Lane>(task_));
    Lane& all = *lanes_.front();
    for (size_t lane = 1; lane < lanes_.size(); lane++) all.merge(*lanes_[lane]);
    lanes_.resize(1);
    nb::dict facts;
    nb::list worst, corners;
    for (const Worst& element : all.worst) worst.append(nb::make_tuple(element.at, away(element.key), element.ulp));
    for (const Point& corner : all.hull.corners()) corners.append(nb::make_tuple(corner.t, corner.d));
    facts["counts"] = std::vector<int64_t>(all.counts.begin(), all.counts.end()), facts["first_odd"] = nb::cast(all.first_odd);
    facts["total"] = all.sums.total, facts["bias"] = all.sums.bias, facts["squares"] = all.sums.squares;
    facts["left"] = all.sums.left, facts["right"] = all.sums.right, facts["product"] = all.sums.product;
    facts["largest"] = all.largest, facts["peak"] = all.peak;
    facts["at_zero"] = all.at_zero, facts["ulp"] = all.ulp;
    facts["first_over"] = position(all.first_over), facts["first_differing"] = position(all.first_differing);
    facts["worst"] = worst, facts["corners"] = nb::tuple(corners);
    facts["grid"] = nb::cast(all.heatmap.fields), facts["width"] = all.heatmap.width;
    facts["axes"] = nb::cast(all.axes.counts);
    return facts;
  }

 private:
  static constexpr size_t kLanes = 4;
  static constexpr size_t kShared = 1 << 16;  // elements: fewer are done before a thread has begun

  static nb::object position(int64_t at) { return at == kNowhere ? nb::none() : nb::object(nb::int_(at)); }

  // |a-b|: of integers exactly.
  nb::object away(uint64_t key) const {
    bool exact = std::strstr(dtype_.name, "int") != nullptr;
    return exact ? nb::object(nb::int_(key)) : nb::object(nb::float_(from_bits(key)));
  }

  Dtype dtype_ = {nullptr, 0, nullptr};
  Array<float> values_;  // which keeps the tables in task_ alive
  Array<uint32_t> order_;
  Task task_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// Whether two buffers hold the same bytes.
inline bool same(Array<uint8_t> left, Array<uint8_t> right) {
  nb::gil_scoped_release without_gil;
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace pyopnb

NB_MODULE(_stats, module) {
  using pyopnb::Stats;
  module.def("same", &pyopnb::same, nb::arg("a"), nb::arg("b"));
  nb::class_<Stats>(module, "Stats")
      .def(nb::init<const std::string&, std::vector<int64_t>, double, double, bool, double, pyopnb::Array<float>,
                    pyopnb::Array<uint32_t>>(),
           nb::arg("dtype"), nb::arg("shape"), nb::arg("rtol"), nb::arg("atol"), nb::arg("details"), nb::arg("smallest_normal"),
           nb::arg("values"), nb::arg("order"))
      .def("add", &Stats::add, nb::arg("a"), nb::arg("b"), nb::arg("at"), nb::arg("threads"))
      .def("totals", &Stats::totals)
      .def("result", &Stats::result);
}
