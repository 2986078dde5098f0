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

inline auto& registry = *new nb::object;        // its attribute `epoch` is the current one; never destroyed
inline std::vector<uint64_t> epochs_in_flight;  // one for each Run; guarded by `tables`

// Asked for and not told: an interrupt can come between a definition and its news.
inline uint64_t current_epoch() {
  uint64_t epoch = PyLong_AsUnsignedLongLong(own(PyObject_GetAttrString(registry.ptr(), "epoch")).ptr());
  check(!PyErr_Occurred());
  return epoch;
}

class ParallelRuns;
class UserCode;
struct Run;

// What a thread is doing. Trivial, so that reading it costs nothing.
struct ThreadState {
  Run* waiting =
      nullptr;  // the run that a session waits for; null while user code runs, when a bare session is nobody's business
  Run* newest = nullptr;                  // the run that began last, waited for or not
  UserCode* code = nullptr;               // the innermost
  int depth = 0;                          // of calls of user code inside one another
  const _PyStackChunk* frames = nullptr;  // where Python frames lay when the newest run or the innermost user code began
};

inline thread_local ThreadState on_this_thread;

inline const _PyStackChunk* python_frames() { return PyThreadState_Get()->datastack_chunk; }

// Whether what began last on this thread began in another greenlet, and waits until that is switched to. CPython has the frames
// of a thread in a chain of chunks, and a chunk is there as long as a frame in it; each greenlet has a chain of its own. The
// waiting part of the C stack is not in place meanwhile: nothing that `on_this_thread` points to may be read, but for runs.
inline bool in_another_greenlet() {
  const _PyStackChunk* began = on_this_thread.frames;
  if (!began) return false;
  for (const _PyStackChunk* chunk = python_frames(); chunk; chunk = chunk->previous)
    if (chunk == began) return false;
  return true;
}

// Two runs of one thread that do not end in the order of their begins end the process, in onnxruntime's own binding: with
// greenlets nobody knows which will end first.
inline void refuse_in_another_greenlet() {
  if (in_another_greenlet()) own(PyObject_CallMethod(hooks.ptr(), "refuse_in_another_greenlet", nullptr));
}

// Notes where the frames are, for as long as it lives.
class FramesHere {
 public:
  FramesHere() : before_(std::exchange(on_this_thread.frames, python_frames())) {}
  FramesHere(const FramesHere&) = delete;
  ~FramesHere() { on_this_thread.frames = before_; }

 private:
  const _PyStackChunk* const before_;
};

// On the heap: a greenlet's stack is moved away while another one is switched to.
struct Run {
  Run(uint64_t epoch_, nb::handle feeds_, nb::handle plan_)
      : epoch(epoch_),
        feeds(feeds_),
        plan(plan_),
        code(on_this_thread.code),
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

  // Notes what an op raised, if it is the first; several threads serve the run of a parallel session.
  void note(Ref raised) {
    nb::ft_lock_guard guard(tables);
    if (!error.is_valid()) error = std::move(raised);
  }

  const uint64_t epoch;    // versions of that epoch serve the whole run
  const nb::handle feeds;  // they own the memory that the run reads; None where they are not known
  const nb::handle plan;   // of the session that is being built; None in a run
  UserCode* const code;    // the user code that this run is in, if any
  Run* const outer;        // what waited before
  Run* const below;        // the run in whose compute this one is, if any
  bool shrinks = false;    // whether the arena gives memory back at its end, which what was kept would still read
  Ref error;               // the first exception that an op raised
  ParallelRuns* parallel = nullptr;
  const ort::Logger* logger = nullptr;  // in a parallel session, once it is known
  const FramesHere frames;
};

// While user code runs, on whatever way it ends.
class UserCode {
 public:
  UserCode()
      : waiting_(std::exchange(on_this_thread.waiting, nullptr)),
        run_(waiting_),
        below_(std::exchange(on_this_thread.code, this)) {
    ++on_this_thread.depth;
  }
  UserCode(const UserCode&) = delete;
  ~UserCode() {
    on_this_thread.waiting = waiting_;
    on_this_thread.code = below_;
    --on_this_thread.depth;
  }
  Run* run() const { return run_; }     // that it serves; null in a bare session
  void serve(Run* run) { run_ = run; }  // on a thread of ONNX Runtime's
  UserCode* outer() const { return run_ ? run_->code : below_; }

  ort::KernelContext* context = nullptr;  // of the call; null where a session is built

 private:
  Run* const waiting_;
  Run* run_;
  UserCode* const below_;
  const FramesHere frames_;
};

// The runs of a session whose nodes ONNX Runtime may call on threads of its own (ExecutionMode.ORT_PARALLEL), where no thread
// says which run a call belongs to. ONNX Runtime makes a logger for each run and hands it to all kernels of the run, those in
// bodies as well, so the logger tells runs apart. Which logger a run has is known from the first call of an op on: until then
// no second run begins, so a logger that is not known is that of the newcomer.
class ParallelRuns {
 public:
  explicit ParallelRuns(nb::object lock) : lock_(std::move(lock)) {}
  ParallelRuns(const ParallelRuns&) = delete;

  // Waits until the run before has called an op or ended. Its end is `end`, whatever happens between.
  void begin(Run& run) {
    own(PyObject_CallMethod(lock_.ptr(), "acquire", nullptr));
    run.parallel = this;
    nb::ft_lock_guard guard(guard_);
    newcomer_ = &run;
  }

  void end(Run& run) {
    if (run.parallel != this) return;
    if (forget(run)) admit_next();
  }

  // The run that a call belongs to; null where it is none of a pyopnb.Session's.
  Run* of(ort::KernelContext* context) {
    const ort::Logger* logger = nullptr;
    check(api.KernelContext_GetLogger(context, &logger));
    auto [run, is_new] = find(logger);
    if (is_new) admit_next();
    return run;
  }

  // Whether user code on this thread serves one of these runs, directly or in runs inside runs.
  bool encloses_this_thread() const {
    for (UserCode* code = on_this_thread.code; code; code = code->outer())
      if (code->run() && code->run()->parallel == this) return true;
    return false;
  }

 private:
  // The run with that logger, if any, and whether it is the newcomer, which is known from now on.
  std::pair<Run*, bool> find(const ort::Logger* logger) {
    nb::ft_lock_guard guard(guard_);
    for (Run* run : known_)
      if (run->logger == logger) return {run, false};
    Run* run = std::exchange(newcomer_, nullptr);
    if (!run) return {nullptr, false};
    run->logger = logger;
    known_.push_back(run);
    return {run, true};
  }

  // Whether the run was still the newcomer.
  bool forget(Run& run) {
    nb::ft_lock_guard guard(guard_);
    known_.erase(std::remove(known_.begin(), known_.end(), &run), known_.end());
    if (newcomer_ != &run) return false;
    newcomer_ = nullptr;
    return true;
  }

  void admit_next() { own(PyObject_CallMethod(lock_.ptr(), "release", nullptr)); }

  nb::ft_mutex guard_;       // of what is below
  nb::object lock_;          // a threading.Lock, which another thread may release; held for the newcomer
  Run* newcomer_ = nullptr;  // begun, and its logger is not known
  std::vector<Run*> known_;
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

// After a fork: the runs of other threads do not exist in this process, nor the thread that may have held the guard.
inline void forget_other_threads() {
  new (&tables) nb::ft_mutex;
  epochs_in_flight.clear();
  for (Run* run = on_this_thread.newest; run; run = run->below) epochs_in_flight.push_back(run->epoch);
}

// Calls `function`, which builds or runs a session of ONNX Runtime, as one run with the versions of that epoch. `plan` is that
// of the session that is built; `parallel` are the runs of a session that may use threads of its own; both can be None. Gives
// what the function returned, what it raised, and what an op raised on the way; None for what there is not. Begin and end are
// here, so that no interrupt comes between them.
inline nb::tuple run(uint64_t epoch, nb::handle function, nb::tuple arguments, nb::handle feeds, nb::handle plan,
                     nb::handle parallel, bool shrinks) {
  return survive_exit([&] {
    refuse_in_another_greenlet();
    ParallelRuns* runs = parallel.is_none() ? nullptr : nb::cast<ParallelRuns*>(parallel);
    if (runs && runs->encloses_this_thread()) own(PyObject_CallMethod(hooks.ptr(), "refuse_parallel_inside", nullptr));
    auto owner = std::make_unique<Run>(epoch, feeds, plan);
    Run& run = *owner;
    run.shrinks = shrinks;
    if (runs) runs->begin(run);
    Ref result, raised;
    raised = error_of([&] { result = own(PyObject_Call(function.ptr(), arguments.ptr(), nullptr)); });
    if (runs) runs->end(run);
    auto or_none = [](const Ref& ref) { return ref.is_valid() ? ref.ptr() : Py_None; };
    return nb::steal<nb::tuple>(own(PyTuple_Pack(3, or_none(result), or_none(raised), or_none(run.error))).release());
  });
}

// Calls the function while the lock is held. In Python, an interrupt or a trace function can come between a lock and its
// release.
inline nb::object locked(nb::handle lock, nb::handle function, nb::args arguments) {
  return survive_exit([&] {
    own(PyObject_CallMethod(lock.ptr(), "acquire", nullptr));
    Ref result;
    Ref error = error_of([&] { result = own(PyObject_Call(function.ptr(), arguments.ptr(), nullptr)); });
    Ref release_error = error_of([&] { own(PyObject_CallMethod(lock.ptr(), "release", nullptr)); });
    if (error.is_valid()) raise(error);
    if (release_error.is_valid()) raise(release_error);
    return nb::object(std::move(result));
  });
}

}  // namespace pyopnb
