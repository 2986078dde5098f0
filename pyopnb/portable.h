// All that depends on the compiler, the C library or the system; the other native files are
// standard C++17 for 64-bit systems. What ops in C++ are compiled with has its own: PYOPNB_EXPORT
// in pyopnb_call.h, and vector_math.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#endif
#ifdef _MSC_VER
#include <intrin.h>
#endif
#ifdef __APPLE__
#include <pthread.h>
#endif
#ifdef __GLIBC__
#include <pthread.h>
#endif
#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

// ---- Compilers ----------------------------------------------------------------------------------

// A function in which UndefinedBehaviorSanitizer looks at nothing.
#ifdef __GNUC__
#define PYOPNB_UNCHECKED __attribute__((no_sanitize("undefined")))
#else
#define PYOPNB_UNCHECKED
#endif

// A function that is also compiled for newer processors; which version runs is found out when
// the module is loaded. The sanitizers' own checks cannot run where the dynamic linker chooses a
// version, and clang has no versions of templates.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PYOPNB_VERSIONS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PYOPNB_VERSIONS
#endif

namespace pyopnb {

// ---- The C stack, which grows downwards everywhere ----------------------------------------------

// The lowest address of this thread's stack; 0 where it is not known.
inline uintptr_t lowest_stack_address() {
#if defined(__GLIBC__)
  static thread_local uintptr_t lowest = [] {
    void* address = nullptr;
    size_t size = 0;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes)) return uintptr_t{0};
    bool known = !pthread_attr_getstack(&attributes, &address, &size);
    pthread_attr_destroy(&attributes);
    return known ? reinterpret_cast<uintptr_t>(address) : uintptr_t{0};
  }();
  return lowest;
#elif defined(__APPLE__)
  pthread_t self = pthread_self();
  return reinterpret_cast<uintptr_t>(pthread_get_stackaddr_np(self)) -
         pthread_get_stacksize_np(self);
#elif defined(_WIN32)
  ULONG_PTR low = 0, high = 0;
  GetCurrentThreadStackLimits(&low, &high);
  return low;
#else
  return 0;
#endif
}

// Whether this thread has that much stack left; true as well where that is not known.
inline bool has_stack(size_t bytes) {
#ifdef _MSC_VER
  void* frame = _AddressOfReturnAddress();
#else
  void* frame = __builtin_frame_address(0);
#endif
  uintptr_t lowest = lowest_stack_address(), here = reinterpret_cast<uintptr_t>(frame);
  return !lowest || here < lowest || here - lowest >= bytes;
}

// ---- Threads that are ended ---------------------------------------------------------------------

// Runs the body; where the thread is ended meanwhile by unwinding its stack, as glibc's
// pthread_exit does, calls `sleep`, which must not return. To the compiler that unwinding is an
// exception at address 0, which its sanitizer takes for a mistake. Elsewhere nothing is unwound.
template <typename Body, typename Sleep>
PYOPNB_UNCHECKED auto survive_unwinding(Body body, [[maybe_unused]] Sleep sleep) {
#if defined(__GLIBCXX__)
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    for (;;) sleep();
  }
#elif defined(__GLIBC__)
  // libc++ has no name for it, and lets destructors alone run.
  struct Wall {
    Sleep sleep;
    int exceptions = std::uncaught_exceptions();
    bool passed = false;
    ~Wall() {
      while (!passed && std::uncaught_exceptions() == exceptions) sleep();
    }
  } wall{sleep};
  auto result = body();
  wall.passed = true;
  return result;
#else
  return body();
#endif
}

}  // namespace pyopnb
