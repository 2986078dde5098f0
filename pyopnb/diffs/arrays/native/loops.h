// The loops over a block's elements that compilers make vector instructions of. Functions of their own, so that they can be
// compiled for newer processors as well; which version runs is found out when the module is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pyopnb {

struct Sums {
  double total = 0, bias = 0, squares = 0, left = 0, right = 0, product = 0;

  void add(const Sums& more) {
    total += more.total, bias += more.bias, squares += more.squares;
    left += more.left, right += more.right, product += more.product;
  }
};

struct Range {
  double least, most;
};

// Of integers x and y: sums of |x-y| where x > y, and where x < y, each in halves of 32 bits; the largest, and how many differ.
struct Apart {
  uint64_t above_low = 0, above_high = 0, below_low = 0, below_high = 0, largest = 0, unequal = 0;
};

// Pairs that are not two finite numbers.
struct Specials {
  int64_t nan_both = 0, nan_a = 0, nan_b = 0, same_infinity = 0, opposite = 0, infinite_a = 0, infinite_b = 0, too_far = 0;
};

struct Line {
  double base, slope;
};

// Two lines for each bin of t, by its leading bits; those of the first bin are also for all that is less, those of the last for
// all that is more.
struct LineTable {
  const Line* lines;
  int64_t first, last;  // the leading bits of the first bin, and the number of the last
  int shift;            // how many bits are not looked at

  // How far a point is above the lower of its bin's lines and a level.
  double excess(double t, double d, double level) const {
    int64_t bin;
    std::memcpy(&bin, &t, sizeof bin);
    bin = (bin >> shift) - first;
    bin = bin < 0 ? 0 : bin;
    bin = bin > last ? last : bin;
    Line left = lines[2 * bin], right = lines[2 * bin + 1];
    double one = left.base + left.slope * t, two = right.base + right.slope * t;
    one = two < one ? two : one;
    one = level < one ? level : one;
    return d - one;
  }
};

namespace loops {

void widen(const uint32_t* bits, double* values, size_t n);
template <class Integer>
void to_float64(const Integer* integers, double* values, size_t n);
// Writes |x-y| of at most 2^32 pairs into `sizes`.
Apart measure_apart(const int64_t* x, const int64_t* y, uint64_t* sizes, size_t n);
// Of n pairs a, b the sums; d becomes |a-b|, and b its modulus. `away` is the range of d, `reference` that of |b|; none of |a|
// and |b| is below `least`.
Sums sum(const double* a, double* b, double* d, size_t n, Range* away, Range* reference, double* least);
double sum_squares(const double* values, size_t n, Range* sizes);
// Sets a and b to 0 where they are not two finite numbers; says where, and where no tolerance covers them.
Specials clear_specials(double* a, double* b, uint32_t* special, uint32_t* odd, size_t n);
// The same of float32, by their bits.
Specials clear_specials(uint32_t* x, uint32_t* y, uint32_t* special, uint32_t* odd, size_t n);
int64_t count_unequal(const uint32_t* x, const uint32_t* y, size_t n);
int64_t count_between_zero_and(double limit, const double* values, size_t n);
// The steps from each x to its y, in the integers that rise with the floats of which they are the bits; gives the most.
uint32_t count_steps(const uint32_t* x, const uint32_t* y, uint32_t* steps, size_t n);
uint64_t count_steps(const uint64_t* x, const uint64_t* y, uint64_t* steps, size_t n);
int64_t mark_over(const double* d, const double* t, double rtol, double atol, double slack, uint64_t* hits, size_t n);
// Makes mismatches of what is odd, by an infinite difference.
void spoil(const uint32_t* odd, double* d, uint64_t* hits, size_t n);
// How many d there are where t is 0, and in `most` the largest.
int64_t count_from_zero(const double* d, const double* t, double* most, size_t n);
Range range(const double* values, size_t n);
uint64_t largest(const uint64_t* values, size_t n);
void raise(double* line, const double* values, size_t n);
void add(uint64_t* line, const uint64_t* values, size_t n);
// By how much each point (t, d) is above the lowest of four lines and a level; 0 at t == 0. Gives how many are, and the most.
size_t measure_excess(const double* t, const double* d, const Line lines[4], double level, double* excess, double* most,
                      size_t n);
// The same of the lines of a table.
size_t measure_excess(const double* t, const double* d, const LineTable& table, double level, double* excess, size_t n);

}  // namespace loops
}  // namespace pyopnb
