// What every part of the bridge stands on: the runtime's functions, owned references, the GIL, errors, and the wall that no
// exception passes.
#pragma once

#include <Python.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#ifdef __GLIBCXX__
#include <cxxabi.h>
#include <unistd.h>
#endif

#include "onnxruntime_abi.h"

namespace pyopnb {

inline ort::Api api;
inline std::atomic<bool> closing{false};
inline std::thread::id closer;  // the thread that ends the interpreter; set before closing is

inline bool finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

inline bool python_is_up() { return Py_IsInitialized() && !finalizing(); }

// An owned reference. nanobind's own would touch Python while a dying thread unwinds.
class Ref {
 public:
  explicit Ref(PyObject* owned = nullptr) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() {
    if (object_ && python_is_up()) Py_DECREF(object_);
  }
  static Ref borrowed(PyObject* object) { return Ref(Py_XNewRef(object)); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() {
    if (python_is_up()) PyGILState_Release(state_);
  }
  Gil(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// While the interpreter ends, a thread must not go back to onnxruntime's Python module: that takes the GIL in a destructor, and
// CPython's way of ending the thread there would end the process. Such threads are daemons, which nobody waits for. One that
// holds the GIL is making a session and goes on.
inline void stay_if_closing() {
  if (!closing || std::this_thread::get_id() == closer || (python_is_up() && PyGILState_Check())) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Runs a callback's body so that neither a dying thread's unwinding nor a C++ exception reaches ONNX Runtime.
// To the compiler a thread's unwinding is an exception at address 0, which its sanitizer takes for a mistake.
template <typename Body>
__attribute__((no_sanitize("undefined"))) ort::Status* at_the_border(Body body) {
  stay_if_closing();
  if (closing || !python_is_up()) return api.CreateStatus(ort::kFail, "pyopnb: the interpreter is exiting");
  try {
    ort::Status* status = body();
    stay_if_closing();
    return status;
#ifdef __GLIBCXX__
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
#endif
  } catch (const std::exception& error) {
    return api.CreateStatus(ort::kFail, error.what());
  }
}

// True where the runtime refused; the reason becomes a Python error.
inline bool refused(ort::Status* status) {
  if (!status) return false;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  return true;
}

// True where there is no such thing to be had, which is not an error here.
inline bool absent(ort::Status* status) {
  if (status) api.ReleaseStatus(status);
  return status != nullptr;
}

inline bool append(PyObject* list, PyObject* owned) {
  Ref item(owned);
  return item && PyList_Append(list, item.get()) == 0;
}

}  // namespace pyopnb
