// Runs: what a pyopnb.Session that waits for ONNX Runtime wants to know.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "boundary.h"

namespace pyopnb {

// Its attribute `epoch` is the current one; never destroyed.
inline auto& registry = *new nb::object;
inline std::vector<uint64_t> epochs_in_flight;  // one for each Run; guarded by `tables`

// Asked for and not told: an interrupt can come between a definition and its news.
inline uint64_t current_epoch() {
  uint64_t epoch =
      PyLong_AsUnsignedLongLong(own(PyObject_GetAttrString(registry.ptr(), "epoch")).ptr());
  check(!PyErr_Occurred());
  return epoch;
}

struct Run;

// What a thread is doing. Trivial, so that reading it costs nothing.
struct ThreadState {
  // The run that a session waits for; null while user code runs, when a bare session does not
  // concern us.
  Run* waiting = nullptr;
  Run* newest = nullptr;  // the run that began last, waited for or not
  int depth = 0;          // of calls of user code inside one another
};

inline thread_local ThreadState on_this_thread;

// One run of a session, on the stack of the thread that waits for it.
struct Run {
  Run(uint64_t epoch_, nb::handle feeds_, nb::handle plan_)
      : epoch(epoch_),
        feeds(feeds_),
        plan(plan_),
        outer(std::exchange(on_this_thread.waiting, this)),
        below(std::exchange(on_this_thread.newest, this)) {
    nb::ft_lock_guard guard(tables);
    epochs_in_flight.push_back(epoch);
  }
  Run(const Run&) = delete;
  ~Run() {
    on_this_thread.waiting = outer;
    on_this_thread.newest = below;
    nb::ft_lock_guard guard(tables);
    epochs_in_flight.erase(std::find(epochs_in_flight.begin(), epochs_in_flight.end(), epoch));
  }

  // Notes what an op raised, if it is the first.
  void note(Ref raised) {
    if (!error.is_valid()) error = std::move(raised);
  }

  const uint64_t epoch;    // versions of that epoch serve the whole run
  const nb::handle feeds;  // they own the memory that the run reads; None where they are not known
  const nb::handle plan;   // of the session that is being built; None in a run
  Run* const outer;        // what waited before
  Run* const below;        // the run in whose compute this one is, if any
  // Whether the arena gives memory back at its end, which what was kept would still read.
  bool shrinks = false;
  Ref error;  // the first exception that an op raised
};

// While user code runs, however it ends.
class UserCode {
 public:
  UserCode() : thread_(on_this_thread), waiting_(std::exchange(thread_.waiting, nullptr)) {
    ++thread_.depth;
  }
  UserCode(const UserCode&) = delete;
  ~UserCode() {
    thread_.waiting = waiting_;
    --thread_.depth;
  }
  Run* run() const { return waiting_; }  // that it serves; null in a bare session
  int depth() const { return thread_.depth; }

 private:
  // Looked up once: in a library that is loaded at run time, each access is a call.
  ThreadState& thread_;
  Run* const waiting_;
};

inline size_t runs_in_flight() {
  nb::ft_lock_guard guard(tables);
  return epochs_in_flight.size();
}

inline uint64_t oldest_epoch() {
  uint64_t current = current_epoch();
  nb::ft_lock_guard guard(tables);
  auto oldest = std::min_element(epochs_in_flight.begin(), epochs_in_flight.end());
  return oldest == epochs_in_flight.end() ? current : std::min(*oldest, current);
}

// After a fork: the runs of other threads do not exist in this process, nor the thread that may
// have held the guard.
inline void forget_other_threads() {
  new (&tables) nb::ft_mutex;
  epochs_in_flight.clear();
  for (Run* run = on_this_thread.newest; run; run = run->below)
    epochs_in_flight.push_back(run->epoch);
}

// Calls `function`, which builds or runs a session of ONNX Runtime, as one run with the versions of
// that epoch. `plan` belongs to the session that is built, or is None. Returns the result
// of the function, its exception, and an op's exception; None for missing ones. Begin and
// end are here, so that no interrupt comes between them.
inline nb::tuple run(uint64_t epoch, nb::handle function, nb::tuple arguments, nb::handle feeds,
                     nb::handle plan, bool shrinks) {
  return survive_exit([&] {
    Run run(epoch, feeds, plan);
    run.shrinks = shrinks;
    Ref result, raised;
    raised =
        error_of([&] { result = own(PyObject_Call(function.ptr(), arguments.ptr(), nullptr)); });
    auto or_none = [](const Ref& ref) { return ref.is_valid() ? ref.ptr() : Py_None; };
    return nb::steal<nb::tuple>(
        own(PyTuple_Pack(3, or_none(result), or_none(raised), or_none(run.error))).release());
  });
}

// Calls the function while the lock is held. In Python, an interrupt or a trace function can come
// between a lock and its release.
inline nb::object locked(nb::handle lock, nb::handle function, nb::args arguments) {
  return survive_exit([&] {
    own(PyObject_CallMethod(lock.ptr(), "acquire", nullptr));
    Ref result;
    Ref error =
        error_of([&] { result = own(PyObject_Call(function.ptr(), arguments.ptr(), nullptr)); });
    Ref release_error = error_of([&] { own(PyObject_CallMethod(lock.ptr(), "release", nullptr)); });
    if (error.is_valid()) raise(error);
    if (release_error.is_valid()) raise(release_error);
    return nb::object(std::move(result));
  });
}

}  // namespace pyopnb
