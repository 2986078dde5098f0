// Lets GCC vectorize loops over std::exp, std::tanh and so on, with glibc's libmvec: at most 4
// units in the last place off, as in NumPy. GCC alone does so under -ffast-math only, which
// changes what NaN and infinity do. To be included before <cmath>.
#pragma once

#include <cstdint>  // any header of the C library: it defines __GLIBC__

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#define PYOPNB_VECTOR(name)                                           \
  __attribute__((simd("notinbranch"))) float name##f(float) noexcept; \
  __attribute__((simd("notinbranch"))) double name(double) noexcept;
extern "C" {
PYOPNB_VECTOR(acos)
PYOPNB_VECTOR(acosh)
PYOPNB_VECTOR(asin)
PYOPNB_VECTOR(asinh)
PYOPNB_VECTOR(atan)
PYOPNB_VECTOR(atanh)
PYOPNB_VECTOR(cbrt)
PYOPNB_VECTOR(cos)
PYOPNB_VECTOR(cosh)
PYOPNB_VECTOR(erf)
PYOPNB_VECTOR(erfc)
PYOPNB_VECTOR(exp)
PYOPNB_VECTOR(exp2)
PYOPNB_VECTOR(expm1)
PYOPNB_VECTOR(log)
PYOPNB_VECTOR(log10)
PYOPNB_VECTOR(log1p)
PYOPNB_VECTOR(log2)
PYOPNB_VECTOR(sin)
PYOPNB_VECTOR(sinh)
PYOPNB_VECTOR(tan)
PYOPNB_VECTOR(tanh)
}
#undef PYOPNB_VECTOR
#endif
#endif
