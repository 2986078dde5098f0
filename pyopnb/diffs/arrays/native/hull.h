// The hardest elements of two arrays, of which every tolerance's verdict follows.
//
// An element passes where |a-b| <= atol + rtol*|b|. As a point at (|b|, |a-b|) it lies on or below a line with an intercept and
// a slope that are not negative; all points do if the corners of their upper hull do. The hull begins in the origin and rises:
// its slopes fall from corner to corner, and are above 0.
//
// Points come in any order, so the hull is kept by inserting one after the other into a sorted vector (F. P. Preparata, "An
// optimal real-time algorithm for planar convex hulls", 1979). Nearly all points are below it, which is seen twice before:
// below a few chords of the hull, for a whole batch at once, with the farthest point inserted first, as Quickhull does; and
// below the lines of a table that is looked up by the leading bits of |b|. Errors that follow a curve are all above the chords:
// where most of a batch were, the next batches try the table first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "loops.h"

namespace pyopnb {

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

struct Point {
  double t, d;  // |b| and |a-b|
};

class HullBuilder {
 public:
  static constexpr size_t kBatch = 1024;

  // Takes n points with t >= 0 and d >= 0, all finite. Those with t == 0 are left out: no slope says anything about them.
  void add(const double* t, const double* d, size_t n) {
    for (size_t begin = 0; begin < n; begin += kBatch) {
      size_t size = std::min(kBatch, n - begin);
      add_batch(t + begin, d + begin, size, loops::range(t + begin, size));
    }
  }

  // The same of at most kBatch points, the range of whose t is known.
  void add_batch(const double* t, const double* d, size_t n, Range range) {
    double excess[kBatch];
    size_t above;
    if (by_table_) {
      by_table_--;
      above = loops::measure_excess(t, d, table(), highest_, excess, n);
      if (above > kFew) by_table_ = 0;
    }
    if (!by_table_) {
      above = measure_by_chords(t, d, n, range, excess);
      if (2 * above > n) by_table_ = kByTable;
    }
    // No branches: the data would make them unpredictable.
    uint32_t places[kBatch + 1];
    size_t count = 0;
    for (size_t i = 0; above && i < n; i++) {
      places[count] = static_cast<uint32_t>(i);
      count += excess[i] > 0;
    }
    for (size_t i = 0; i < count; i++) {
      Point p = {t[places[i]], d[places[i]]};
      if (is_below(p)) continue;
      insert_raised(p);
      stale_++;
    }
    if (corners_.size() > 2 * kCorners) thin();
    if (stale_ > kStale) index();
  }

  void merge(const HullBuilder& other) {
    for (const Point& corner : other.corners_) insert(corner);
  }

  // The hull without the origin, from left to right.
  const std::vector<Point>& corners() {
    thin();
    return corners_;
  }

 private:
  static constexpr size_t kCorners = 512;  // that are kept; errors that follow a smooth curve have more
  static constexpr size_t kFew = 8;
  static constexpr uint64_t kBins = 1024;
  static constexpr size_t kByTable = 15;            // batches that try the table, after one of which the chords left most
  static constexpr size_t kStale = 512;             // points that were looked up in vain before the table is made again
  static constexpr double kRounding = 1 + 0x1p-44;  // more than the error of a line that is calculated here

  // The hull at t.
  double at(double t) const {
    auto right = std::lower_bound(corners_.begin(), corners_.end(), t, [](Point corner, double at) { return corner.t < at; });
    if (right == corners_.end()) return highest_;
    Line edge = line(right == corners_.begin() ? Point{0, 0} : right[-1], *right);
    return std::min(edge.base + edge.slope * t, right->d);
  }

  // How far points are above a few chords, once the farthest are in the hull; how many are.
  size_t measure_by_chords(const double* t, const double* d, size_t n, Range range, double* excess) {
    size_t above, before = 2 * n;
    while (true) {
      Line lines[4];
      double most;
      find_chords(range, lines);
      above = loops::measure_excess(t, d, lines, highest_, excess, &most, n);
      if (!(above > kFew && 2 * above < 3 * before)) return above;
      before = above;
      size_t farthest = static_cast<size_t>(std::find(excess, excess + n, most) - excess);
      if (farthest == n || !insert_raised({t[farthest], d[farthest]})) return above;
    }
  }

  // Four chords of the hull, or fewer, one after the other, from the least to the largest t.
  void find_chords(Range range, Line lines[4]) const {
    auto less = [](Point corner, double t) { return corner.t < t; };
    size_t first = std::lower_bound(corners_.begin(), corners_.end(), range.least, less) - corners_.begin();
    size_t between = std::lower_bound(corners_.begin(), corners_.end(), range.most, less) - corners_.begin() - first;
    Point from = {range.least, at(range.least)}, end = {range.most, at(range.most)};
    for (size_t chord = 0; chord < 4; chord++) {
      size_t corner = between <= 3 ? chord : (chord + 1) * between / 4;
      Point to = chord < 3 && corner < between ? corners_[first + corner] : end;
      lines[chord] = from.t < to.t ? line(from, to) : Line{end.d, 0};
      from = to;
    }
  }

  LineTable table() const { return {lines_.data(), first_, static_cast<int64_t>(lines_.size() / 2) - 1, shift_}; }

  // True only of what is below the hull.
  bool is_below(Point p) const { return table().excess(p.t, p.d, highest_) <= 0; }

  // Whether p is above the line from one point to another, with from.t < p.t <= to.t. long double has room for the products.
  static bool is_above(Point from, Point to, Point p) {
    using Wide = long double;
    return (Wide(p.d) - from.d) * (Wide(to.t) - from.t) > (Wide(to.d) - from.d) * (Wide(p.t) - from.t);
  }

  bool insert_raised(Point p) { return insert({p.t, p.d * raise_}); }

  // Whether the point is a corner.
  bool insert(Point p) {
    auto right = std::lower_bound(corners_.begin(), corners_.end(), p.t, [](Point corner, double t) { return corner.t < t; });
    auto before = [this](auto corner) { return corner == corners_.begin() ? Point{0, 0} : corner[-1]; };
    if (right == corners_.end() ? p.d <= before(right).d : !is_above(before(right), *right, p)) return false;
    auto last = right;
    while (last != corners_.end() && (last->d <= p.d || (last + 1 != corners_.end() && !is_above(p, last[1], *last)))) ++last;
    auto first = right;
    while (first != corners_.begin() && !is_above(before(first - 1), p, first[-1])) --first;
    if (first == last) {
      corners_.insert(first, p);
    } else {
      *first = p;
      corners_.erase(first + 1, last);
    }
    highest_ = corners_.back().d;
    return true;
  }

  // Of a smooth curve every point is a corner. Leaves out edges: their neighbours are made longer until they meet above them,
  // so that no tolerance passes that would not have passed before. Points that come later are raised by as much.
  void thin() {
    double error = raise_ > 1 ? raise_ - 1 : 0x1p-40;
    if (corners_.size() <= kCorners) return;
    for (; corners_.size() > kCorners; error *= 2) {
      std::vector<Point> kept;
      for (size_t i = 0; i < corners_.size(); i++) {
        Point before = kept.empty() ? Point{0, 0} : kept.back(), from = corners_[i];
        if (i + 2 < corners_.size()) {
          Point to = corners_[i + 1], after = corners_[i + 2];
          long double steep = slope(before, from), flat = slope(to, after), width = to.t - from.t, height = to.d - from.d;
          long double step = (height - flat * width) / (steep - flat), risen = from.d + steep * step;
          if (step > 0 && step < width && risen <= (from.d + height / width * step) * (1 + error)) {
            kept.push_back({static_cast<double>(from.t + step), static_cast<double>(risen)});
            i++;
            continue;
          }
        }
        kept.push_back(from);
      }
      corners_ = kept;
      raise_ = 1 + error;
    }
    index();
  }

  static long double slope(Point from, Point to) {
    return (static_cast<long double>(to.d) - from.d) / (static_cast<long double>(to.t) - from.t);
  }

  // Where a double cannot hold a line this steep, one below all points.
  static Line line(Point from, Point to) {
    double rise = static_cast<double>(slope(from, to));
    Line line = {(from.d - rise * from.t) * kRounding, rise * kRounding};
    return std::isfinite(line.base) && std::isfinite(line.slope) ? line : Line{0, 0};
  }

  // Makes the table: what is below both lines of a bin is below the hull. As the hull only grows, an old table is not wrong.
  void index() {
    stale_ = 0;
    uint64_t low = bits_of(corners_.front().t), high = bits_of(corners_.back().t);
    for (shift_ = 40; (high >> shift_) - (low >> shift_) + 3 > kBins; shift_++) {
    }
    first_ = static_cast<int64_t>(low >> shift_) - 1;
    Line rising = line({0, 0}, corners_.front()), level = {highest_, 0};
    lines_ = {rising, rising};
    Point before = {0, 0};
    auto at = corners_.begin();
    for (uint64_t bin = low >> shift_; bin <= high >> shift_; bin++) {
      double begin = from_bits(bin << shift_), end = from_bits((bin + 1) << shift_);
      Point from = before;
      auto inner = at;
      while (at != corners_.end() && at->t < end) before = *at++;
      Line left = inner == corners_.end() ? level : line(from, *inner),
           right = at == corners_.end() ? level : line(before, *at);
      if (at - inner > 1) {  // corners between: only what is below the chord is surely below the hull
        Point start = {begin, left.base + left.slope * begin}, stop = {end, right.base + right.slope * end};
        left = right = line(start, stop);
      }
      lines_.insert(lines_.end(), {left, right});
    }
    lines_.insert(lines_.end(), {level, level});
  }

  std::vector<Point> corners_;
  std::vector<Line> lines_ = {{0, 0}, {0, 0}};
  int64_t first_ = 0;
  int shift_ = 40;
  double highest_ = 0;
  double raise_ = 1;
  size_t stale_ = 0;
  size_t by_table_ = 0;  // batches that try the table first, from now on
};

}  // namespace pyopnb
