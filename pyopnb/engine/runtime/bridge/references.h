// What reference counts say of an object.
//
// With the GIL, a count of 1 means that nothing but its holder reaches the object. Without it, the
// thread that made an object counts its own references apart from all others, so that only
// this thread knows the sum while others work with the object. A release on another thread can be
// counted late, when the owner runs Python again. And any holder of a weak reference can get a
// strong one at any time.
#pragma once

#include "boundary.h"

namespace pyopnb {

#ifdef NB_FREE_THREADED
constexpr bool kWithGil = false;
#else
constexpr bool kWithGil = true;
#endif

// The number of references. Of what the headers call the count, CPython 3.14 has flags in the upper
// half, where a module built for the stable ABI of 3.12 would read them along.
inline uint32_t count(nb::handle object) { return static_cast<uint32_t>(Py_REFCNT(object.ptr())); }

// Whether nothing but the caller's reference, and weak ones, reaches the object; false as well
// where that cannot be known.
inline bool is_only_ours(nb::handle object) {
#ifdef NB_FREE_THREADED
  return PyUnstable_Object_IsUniquelyReferenced(object.ptr());
#else
  return count(object) == 1;
#endif
}

}  // namespace pyopnb
