// Where differences are: the largest of each field of a picture, and the mismatches at each index of each axis.
//
// Both go along long lines of the array's memory, however short its rows are: what is wanted of each index of the inner axes is
// kept for a whole number of their periods, some thousand elements, and folded at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "loops.h"

namespace pyopnb {

constexpr int64_t kLine = 1024;  // elements: shorter periods are repeated up to there

inline int64_t repeated(int64_t period) { return period * std::max<int64_t>(1, kLine / period); }

// The largest difference of each field of the array as a matrix; infinite where no number says how large it is.
class Heatmap {
 public:
  static constexpr int64_t kFields = 64;  // along each axis, at most; four times as many where there is but one row

  Heatmap(int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        height_(std::min(rows, kFields)),
        width_(std::min(columns, rows > 1 ? kFields : 4 * kFields)),
        fields_(static_cast<size_t>(height_ * width_)) {}

  void add(const double* d, int64_t n, int64_t at) {
    while (n) {
      int64_t row = at / columns_, field = field_of(row, rows_, height_);
      int64_t size = std::min(n, edge(field + 1, rows_, height_) * columns_ - at);
      if (columns_ > kWidest) {
        add_runs(d, size, at % columns_, field);
      } else {
        add_line(d, size, at, field);
      }
      d += size, n -= size, at += size;
    }
  }

  void merge(Heatmap& other) {
    fold();
    other.fold();
    for (size_t i = 0; i < fields_.size(); i++) fields_[i] = std::max(fields_[i], other.fields_[i]);
  }

  const std::vector<double>& fields() {
    fold();
    return fields_;
  }

  int64_t width() const { return width_; }

 private:
  static constexpr int64_t kWidest = 16384;  // columns that are kept one by one

  static int64_t edge(int64_t field, int64_t size, int64_t fields) { return field * size / fields; }
  // The last field that begins at the index or before.
  static int64_t field_of(int64_t index, int64_t size, int64_t fields) { return ((index + 1) * fields - 1) / size; }

  double& at(int64_t down, int64_t across) { return fields_[static_cast<size_t>(down * width_ + across)]; }

  void add_runs(const double* d, int64_t n, int64_t column, int64_t field) {
    while (n) {
      int64_t across = field_of(column, columns_, width_);
      int64_t size = std::min(n, edge(across + 1, columns_, width_) - column);
      at(field, across) = std::max(at(field, across), loops::range(d, static_cast<size_t>(size)).most);
      d += size, n -= size, column = (column + size) % columns_;
    }
  }

  void add_line(const double* d, int64_t n, int64_t at, int64_t field) {
    if (field != current_) fold();
    current_ = field;
    line_.resize(static_cast<size_t>(repeated(columns_)));
    int64_t period = repeated(columns_), begin = at % period;
    while (n) {
      int64_t size = std::min(n, period - begin);
      loops::raise(line_.data() + begin, d, static_cast<size_t>(size));
      d += size, n -= size, begin = 0;
    }
  }

  void fold() {
    if (current_ < 0) return;
    int64_t column = 0;
    for (double& value : line_) {
      double& field = at(current_, field_of(column, columns_, width_));
      field = std::max(field, value);
      value = 0;
      column = column + 1 == columns_ ? 0 : column + 1;
    }
    current_ = -1;
  }

  int64_t rows_, columns_, height_, width_;
  std::vector<double> fields_;
  std::vector<double> line_;  // of the rows of one field the largest of each column
  int64_t current_ = -1;      // which field that is
};

// Mismatches at each index of each axis that is not too long.
class AxisCounts {
 public:
  explicit AxisCounts(const std::vector<int64_t>& shape) : shape_(shape) {
    inner_ = static_cast<int64_t>(shape.size());
    while (inner_ > 0 && period_ * shape[inner_ - 1] <= kLongestPeriod) period_ *= shape[--inner_];
    outer_ = inner_;
    row_ = period_;
    while (outer_ > 0 && !counted(shape[outer_ - 1])) row_ *= shape[--outer_];
  }

  static bool counted(int64_t size) { return 1 < size && size <= 65536; }

  // hits: 1 where there is a mismatch, else 0.
  void add(const uint64_t* hits, int64_t n, int64_t at) {
    if (counts_.empty()) {
      for (int64_t size : shape_) counts_.emplace_back(counted(size) ? size : 0);
      line_.resize(static_cast<size_t>(repeated(period_)));
    }
    if (outer_) add_rows(hits, n, at);
    int64_t period = repeated(period_), begin = at % period;
    while (n) {
      int64_t size = std::min(n, period - begin);
      loops::add(line_.data() + begin, hits, static_cast<size_t>(size));
      hits += size, n -= size, begin = 0;
    }
  }

  void merge(AxisCounts& other) {
    if (other.counts_.empty()) return;
    if (counts_.empty()) {
      std::swap(*this, other);
      return;
    }
    fold();
    other.fold();
    for (size_t axis = 0; axis < counts_.size(); axis++) {
      for (size_t i = 0; i < counts_[axis].size(); i++) counts_[axis][i] += other.counts_[axis][i];
    }
  }

  // Empty for an axis that is not counted.
  const std::vector<std::vector<int64_t>>& counts() {
    fold();
    return counts_;
  }

 private:
  static constexpr int64_t kLongestPeriod = 1 << 19;  // indices of the inner axes that are kept one by one

  void add_rows(const uint64_t* hits, int64_t n, int64_t at) {
    while (n) {
      int64_t size = std::min(n, row_ - at % row_), count = 0;
      for (int64_t i = 0; i < size; i++) count += static_cast<int64_t>(hits[i]);
      if (count) count_index(at / row_, outer_, count);
      hits += size, n -= size, at += size;
    }
  }

  // Adds to the counts of the first axes, as the flat index along them says.
  void count_index(int64_t flat, int64_t axes, int64_t count) {
    for (int64_t axis = axes - 1; axis >= 0; axis--) {
      if (!counts_[axis].empty()) counts_[axis][flat % shape_[axis]] += count;
      flat /= shape_[axis];
    }
  }

  void fold() {
    for (size_t i = 0; i < line_.size(); i++) {
      int64_t flat = static_cast<int64_t>(i) % period_;
      if (!line_[i]) continue;
      for (int64_t axis = static_cast<int64_t>(shape_.size()) - 1; axis >= inner_; axis--) {
        if (!counts_[axis].empty()) counts_[axis][flat % shape_[axis]] += static_cast<int64_t>(line_[i]);
        flat /= shape_[axis];
      }
      line_[i] = 0;
    }
  }

  std::vector<int64_t> shape_;
  int64_t period_ = 1, inner_ = 0;  // elements in the inner axes, and the first of them
  int64_t row_ = 1, outer_ = 0;     // elements of one index of the outer axes, and how many axes these are
  std::vector<uint64_t> line_;
  std::vector<std::vector<int64_t>> counts_;
};

}  // namespace pyopnb
