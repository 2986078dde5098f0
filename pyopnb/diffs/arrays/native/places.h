// Where two arrays differ: a heat map of the array as a matrix, and counts along each axis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "loops.h"

namespace pyopnb {

// The largest difference of each field of the array as a matrix; infinite where no number says how
// large it is.
class Heatmap {
 public:
  Heatmap(int64_t rows, int64_t columns)
      : height(std::min(rows, kFields)),
        width(std::min(columns, rows > 1 ? kFields : 4 * kFields)),
        fields(static_cast<size_t>(height * width)),
        rows_(rows),
        columns_(columns) {}

  // Takes the differences of elements that begin at a position of the array, run by run within a
  // field.
  void add(const double* d, int64_t n, int64_t at) {
    for (int64_t size; n; d += size, n -= size, at += size) {
      int64_t row = at / columns_, column = at % columns_,
              across = field_of(column, columns_, width);
      size = std::min(n, (across + 1) * columns_ / width - column);
      double& field = fields[static_cast<size_t>(field_of(row, rows_, height) * width + across)];
      field = std::max(field, size < 8 ? *std::max_element(d, d + size)
                                       : loops::largest(d, static_cast<size_t>(size)));
    }
  }

  void merge(const Heatmap& other) {
    for (size_t i = 0; i < fields.size(); i++) fields[i] = std::max(fields[i], other.fields[i]);
  }

  int64_t height, width;
  std::vector<double> fields;

 private:
  // Fields along each axis, at most. Four times as many where there is a single row.
  static constexpr int64_t kFields = 64;

  // The last field that begins at the index or before.
  static int64_t field_of(int64_t index, int64_t size, int64_t fields) {
    return ((index + 1) * fields - 1) / size;
  }

  int64_t rows_, columns_;
};

// Mismatches at each index of each axis that is not too long.
class AxisCounts {
 public:
  explicit AxisCounts(const std::vector<int64_t>& shape) : shape_(shape) {
    for (int64_t size : shape) counts.emplace_back(1 < size && size <= 65536 ? size : 0);
  }

  // hits: 1 where there is a mismatch, else 0. They are taken row by row, so that there are few
  // divisions.
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

}  // namespace pyopnb
