// The hardest elements of two arrays, from which the verdict of every tolerance follows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "loops.h"

namespace pyopnb {

struct Point {
  double t, d;  // |b| and |a-b|
};

// An element passes where |a-b| <= atol + rtol*|b|: as a point it is then on or below a line with
// an intercept and a slope that are not negative. All points are if the corners of their upper hull
// are. The hull begins in the origin and rises.
//
// Points are inserted one after the other (F. P. Preparata, "An optimal real-time algorithm for
// planar convex hulls", 1979). Nearly all are seen to be below before, by a table of chords of the
// hull.
class Hull {
 public:
  // Takes n <= kBlock points with t >= 0 and d >= 0, all finite. Those at 0 are left out: no slope
  // says anything about them.
  void add(const double* t, const double* d, size_t n) {
    double excess[kBlock];
    size_t above = loops::measure_excess(t, d, table_, highest_, excess, n);
    if (2 * above > n) {
      // Sorted values rise above the hull block by block: the farthest one leaves the others below,
      // as in Quickhull.
      size_t farthest =
          static_cast<size_t>(std::find(excess, excess + n, loops::largest(excess, n)) - excess);
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
  // Corners that are kept. Errors that follow a smooth curve have more.
  static constexpr size_t kCorners = 512;
  static constexpr size_t kStale = 4096;  // points above the table, before it is made again
  static constexpr uint64_t kBins = 2048;
  // More than the error of a line that is calculated here.
  static constexpr double kRounding = 1 + 0x1p-44;

  std::vector<Point>::iterator right_of(double t) {
    return std::lower_bound(corners_.begin(), corners_.end(), t,
                            [](Point corner, double at) { return corner.t < at; });
  }
  Point before(std::vector<Point>::iterator corner) {
    return corner == corners_.begin() ? Point{0, 0} : corner[-1];
  }

  // The hull at t.
  double at(double t) {
    auto right = right_of(t);
    if (right == corners_.end()) return highest_;
    Line edge = line(before(right), *right);
    return std::min(edge.base + edge.slope * t, right->d);
  }

  // Whether p is above the line from one point to another, with from.t < p.t <= to.t. A long double
  // would have room for each product, but only on some systems it is wider than a double.
  static bool is_above(Point from, Point to, Point p) {
    double product = (p.d - from.d) * (to.t - from.t), limit = (to.d - from.d) * (p.t - from.t);
    if (std::isnormal(limit)) return product > limit;
    int up, across, rise, run;
    product = std::frexp(p.d - from.d, &up) * std::frexp(to.t - from.t, &across);
    limit = std::frexp(to.d - from.d, &rise) * std::frexp(p.t - from.t, &run);
    return std::ldexp(product, up + across - rise - run) > limit;
  }

  void insert(Point p) {
    auto right = right_of(p.t), first = right, last = right;
    if (right == corners_.end() ? p.d <= before(right).d : !is_above(before(right), *right, p))
      return;
    while (last != corners_.end() &&
           (last->d <= p.d || (last + 1 != corners_.end() && !is_above(p, last[1], *last))))
      ++last;
    while (first != corners_.begin() && !is_above(before(first - 1), p, first[-1])) --first;
    corners_.insert(corners_.erase(first, last), p);
    highest_ = corners_.back().d;
  }

  // Of a smooth curve every point is a corner. Leaves out corners that hardly stand out, never two
  // side by side, and raises the others by as much: no tolerance passes that would not have passed
  // before.
  void thin() {
    for (double error = 0x1p-40; corners_.size() > kCorners; error *= 4) {
      std::vector<Point> kept;
      bool last_was_kept = true;
      for (size_t i = 0; i < corners_.size(); i++) {
        Point corner = corners_[i];
        Line chord = i + 1 < corners_.size()
                         ? line(kept.empty() ? Point{0, 0} : kept.back(), corners_[i + 1])
                         : Line{0, 0};
        last_was_kept =
            !last_was_kept || corner.d > (chord.base + chord.slope * corner.t) * (1 + error);
        if (last_was_kept) kept.push_back({corner.t, corner.d * (1 + 2 * error)});
      }
      corners_ = kept;
    }
    highest_ = corners_.back().d;
  }

  // Where a double cannot hold a line this steep, one below all points.
  static Line line(Point from, Point to) {
    double rise = (to.d - from.d) / (to.t - from.t);
    Line line = {(from.d - rise * from.t) * kRounding, rise * kRounding};
    return std::isfinite(line.base) && std::isfinite(line.slope) ? line : Line{0, 0};
  }

  // Makes the table, whose lines are chords. As the hull only grows, an old table is not wrong.
  void index() {
    uint64_t low = bits_of(corners_.front().t), high = bits_of(corners_.back().t);
    for (table_.shift = 40; (high >> table_.shift) - (low >> table_.shift) + 3 > kBins;)
      table_.shift++;
    table_.first = static_cast<int64_t>(low >> table_.shift) - 1;
    table_.lines = {line({0, 0}, corners_.front())};
    double begin = from_bits(low >> table_.shift << table_.shift);
    for (uint64_t bin = low >> table_.shift; bin <= high >> table_.shift; bin++) {
      double end = std::min(from_bits((bin + 1) << table_.shift), corners_.back().t);
      table_.lines.push_back(begin < end ? line({begin, at(begin)}, {end, at(end)})
                                         : Line{highest_, 0});
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

}  // namespace pyopnb
