// Tools for every part of the bridge: functions of ONNX Runtime, owned references, the GIL, errors,
// and the wall that no exception passes. The rules are at the top of bridge.cpp.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

#include <onnxruntime_abi.h>
#include <portable.h>

namespace nb = nanobind;

namespace pyopnb {

inline ort::Api api;
// The Python half, the module pyopnb.engine.runtime.callbacks; never destroyed.
inline auto& hooks = *new nb::object;
inline std::atomic<bool> closing{false};  // set by an exit handler of Python, before it finalizes
// The thread that ends the interpreter; set before closing is.
inline std::thread::id closer;

// Guards the tables of the whole process where there is no GIL; with it, an ft_mutex is nothing.
// Held for a few instructions, in which nothing of Python is called, not even to release an
// object.
inline nb::ft_mutex tables;

// Functions of CPython that its stable ABI lacks; the Python half finds them by name.
inline int (*is_finalizing)();
inline int (*holds_gil)();

inline bool python_is_up() { return Py_IsInitialized() && !is_finalizing(); }

// For destructors, of which a call has many: the interpreter finalizes only after it has set
// `closing`.
inline bool may_release() { return !closing || python_is_up(); }

// ---- Owned references ---------------------------------------------------------------------------

// nanobind's owned reference for everything that lives on a stack or in C++ memory: where CPython
// ends a thread by unwinding its stack, or ONNX Runtime outlives the interpreter, the reference
// leaks instead of touching Python.
class Ref : public nb::object {
 public:
  Ref() = default;
  Ref(nb::object&& object) : nb::object(std::move(object)) {}
  Ref(Ref&&) = default;
  Ref& operator=(Ref&&) = default;
  ~Ref() {
    if (is_valid() && !may_release()) release();
  }
};

// ---- Errors -------------------------------------------------------------------------------------

// A function of the C API gave a new reference, or null with a Python error, which is thrown.
inline Ref own(PyObject* object) {
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

inline void check(bool fine) {
  if (!fine) throw nb::python_error();
}

template <typename... Values>
[[noreturn]] void fail(PyObject* type, const char* format, Values... values) {
  PyErr_Format(type, format, values...);
  throw nb::python_error();
}

// ONNX Runtime refused; the reason becomes a Python error.
inline void check(ort::Status* status) {
  if (!status) return;
  PyErr_SetString(PyExc_RuntimeError, api.GetErrorMessage(status));
  api.ReleaseStatus(status);
  throw nb::python_error();
}

// True where ONNX Runtime does not have what was asked for, which is not an error.
inline bool absent(ort::Status* status) {
  if (status) api.ReleaseStatus(status);
  return status != nullptr;
}

// Runs the body and gives the Python exception that it raised, or null. Python must not be called
// in a catch block, where the C++ exception that holds the Python one would be destroyed by the
// unwinding of a dying thread.
template <typename Body>
Ref error_of(Body body) {
  try {
    body();
    return {};
  } catch (nb::python_error& error) {
    return nb::borrow(error.value());
  }
}

inline void restore(const Ref& error) {
  PyObject* value = error.ptr();
  PyErr_Restore(error.type().inc_ref().ptr(), Py_NewRef(value), PyException_GetTraceback(value));
}

[[noreturn]] inline void raise(const Ref& error) {
  restore(error);
  throw nb::python_error();
}

// Puts a pending Python error aside, and back at its end.
class PendingError {
 public:
  PendingError() {
    if (PyErr_Occurred()) error_ = error_of([] { throw nb::python_error(); });
  }
  PendingError(const PendingError&) = delete;
  ~PendingError() {
    if (error_.is_valid() && may_release()) restore(error_);
  }

 private:
  Ref error_;
};

// ---- The GIL and the wall -----------------------------------------------------------------------

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() {
    if (may_release()) PyGILState_Release(state_);
  }
  Gil(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Runs the body; where CPython ends the thread meanwhile, the thread sleeps until the process is
// gone.
template <typename Body>
auto survive_exit(Body body) {
  return survive_unwinding(body, [] { std::this_thread::sleep_for(std::chrono::hours(1)); });
}

// While the interpreter ends, a thread must not go back to the Python module of onnxruntime: that
// takes the GIL in a destructor, and the way in which CPython ends the thread there would end
// the process. Such threads are daemons, which are not waited for. One that holds the GIL is making
// a session and goes on.
inline void stay_if_closing() {
  if (!closing || std::this_thread::get_id() == closer || (python_is_up() && holds_gil())) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Runs a callback's body so that neither a dying thread's unwinding nor a C++ exception reaches
// ONNX Runtime.
template <typename Body>
ort::Status* at_the_boundary(Body body) {
  stay_if_closing();
  // Python is up as long as nothing closes; asking it would cost every call.
  if (closing) return api.CreateStatus(ort::kFail, "pyopnb: the interpreter is exiting");
  return survive_exit([&]() -> ort::Status* {
    try {
      ort::Status* status = body();
      stay_if_closing();
      return status;
    } catch (const std::exception& error) {
      return api.CreateStatus(ort::kFail, error.what());
    }
  });
}

}  // namespace pyopnb
