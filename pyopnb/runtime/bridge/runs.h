// Runs: what a pyopnb.Session that waits for ONNX Runtime wants to know, on the stack of the thread that waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "boundary.h"

namespace pyopnb {

// All of this is guarded by the GIL.
inline uint64_t global_epoch = 0;               // of the registry
inline std::vector<uint64_t> epochs_in_flight;  // one for each Run

struct Run;

// What a thread is doing. Trivial, so that reading it costs nothing.
struct ThreadState {
  Run* waiting =
      nullptr;  // the run that a session waits for; null while user code runs, when a bare session is nobody's business
  Run* newest = nullptr;  // the run that began last, waited for or not
  int depth = 0;          // of calls of user code inside one another
};

inline thread_local ThreadState on_this_thread;

struct Run {
  explicit Run(uint64_t epoch_)
      : epoch(epoch_), outer(std::exchange(on_this_thread.waiting, this)), below(std::exchange(on_this_thread.newest, this)) {
    epochs_in_flight.push_back(epoch);
  }
  Run(const Run&) = delete;
  ~Run() {
    epochs_in_flight.erase(std::find(epochs_in_flight.begin(), epochs_in_flight.end(), epoch));
    on_this_thread.waiting = outer;
    on_this_thread.newest = below;
  }

  const uint64_t epoch;  // versions of that epoch serve the whole run
  Run* const outer;      // what waited before
  Run* const below;      // the run in whose compute this one is, if any
  Ref error;             // the first exception that an op raised
  Ref escaped;           // list of inputs whose memory must outlive the run
};

// While user code runs, on whatever way it ends.
class UserCode {
 public:
  UserCode() : run_(std::exchange(on_this_thread.waiting, nullptr)) { ++on_this_thread.depth; }
  UserCode(const UserCode&) = delete;
  ~UserCode() { on_this_thread.waiting = run_, --on_this_thread.depth; }
  Run* run() const { return run_; }

 private:
  Run* run_;
};

inline uint64_t oldest_epoch() {
  auto oldest = std::min_element(epochs_in_flight.begin(), epochs_in_flight.end());
  return oldest == epochs_in_flight.end() ? global_epoch : std::min(*oldest, global_epoch);
}

// After a fork: the runs of other threads do not exist in this process.
inline void forget_other_threads() {
  epochs_in_flight.clear();
  for (Run* run = on_this_thread.newest; run; run = run->below) epochs_in_flight.push_back(run->epoch);
}

// Calls `function`, which runs a session of ONNX Runtime, as one run with the versions of that epoch. Gives what it returned,
// what it raised, what an op raised on the way, and the inputs whose memory must outlive the run; None for what there is not.
inline nb::tuple run(uint64_t epoch, nb::handle function, nb::tuple arguments) {
  return survive_exit([&] {
    Run run(epoch);
    Ref result, raised;
    raised = error_of([&] { result = own(PyObject_Call(function.ptr(), arguments.ptr(), nullptr)); });
    auto or_none = [](const Ref& ref) { return ref.is_valid() ? ref.ptr() : Py_None; };
    return nb::steal<nb::tuple>(
        own(PyTuple_Pack(4, or_none(result), or_none(raised), or_none(run.error), or_none(run.escaped))).release());
  });
}

}  // namespace pyopnb
