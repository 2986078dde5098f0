// One call of compute: inputs become arrays, results are checked and written, and an input that was
// kept fails the run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <list>
#include <tuple>
#include <utility>
#include <vector>

#include <pyopnb_call.h>

#include "escape.h"
#include "runs.h"
#include "tensors.h"

namespace pyopnb {

// Runs inside compute inside runs …; each level costs tens of kB of C stack.
constexpr int kDeepest = 60;
constexpr size_t kStackOfNested = 224 << 10;  // bytes that user code in a nested run finds at least
constexpr int kPatience = 250;                // times about 1 ms; see inputs_kept

inline std::atomic<long> live_states = 0, escapes = 0;  // for tests

using ShapeRow = std::tuple<int, bool, std::vector<int64_t>>;  // from Python; see Shape

// What the dimensions of a port must be.
struct Shape {
  int port;
  bool strict;                // otherwise a contradiction only makes the symbols worthless
  std::vector<int64_t> dims;  // a size; -1: anything; -2 - n: symbol n
};

// The sizes of a call's symbols.
struct Symbols {
  std::vector<int64_t> sizes;  // -1: not met yet, -2: worthless

  // Compares with the declared dimensions, binding their symbols on first sight.
  bool fits(const Shape& wanted, size_t rank, const npy_intp* dims) {
    if (wanted.dims.size() != rank) return false;
    bool fine = true;
    for (size_t d = 0; d < rank; ++d) {
      int64_t dim = wanted.dims[d];
      if (dim >= 0) {
        fine = fine && dim == dims[d];
      } else if (dim <= -2) {
        int64_t& size = sizes[-2 - dim];
        if (size == -1) size = dims[d];
        if (size >= 0 && size != dims[d]) {
          fine = false;
          // The graph's own symbol means two sizes: it can say nothing about results.
          if (!wanted.strict) size = -2;
        }
      }
    }
    return fine;
  }
};

// The compiled function of a version, if it has one.
struct Native {
  pyopnb_function function = nullptr;
  const pyopnb_attr* attrs = nullptr;
  int32_t attr_count = 0;
  nb::object owner;  // of the attrs, and of the function's memory

  Native() = default;
  // (address of the function, address of the attrs, how many these are, their owner); or None.
  explicit Native(nb::handle made) {
    if (made.is_none()) return;
    function = reinterpret_cast<pyopnb_function>(nb::cast<uintptr_t>(made[0]));
    attrs = reinterpret_cast<const pyopnb_attr*>(nb::cast<uintptr_t>(made[1]));
    attr_count = nb::cast<int32_t>(made[2]);
    owner = nb::borrow(made[3]);
  }
};

// What a call works with. It stays with the State between calls, so that a call in a row allocates
// nothing.
struct Workspace {
  // The instance, then the inputs; between calls, inputs that the next call can reuse.
  std::vector<Ref> arguments;
  std::vector<Ref> results;  // one for each output; between calls, none
  Symbols symbols;
  bool is_used = false;  // by a call
};

// One version of an op at a node. A Python object: what it owns is released when Python deallocates
// it, which has the GIL then, also while the interpreter ends.
struct State {
  nb::object instance;
  nb::str method;            // looked up at each call as Python would
  nb::object lock;           // None unless the class is serial
  std::vector<int> outputs;  // element types; 0: an unwanted output
  size_t results;            // how many values compute must return
  std::vector<Shape> input_shapes, output_shapes;
  size_t symbols;
  // Inputs are always copied: the class asks for it, an input escaped, or a profiler holds frames.
  std::atomic<bool> copies;
  bool writable;                   // … and may be written
  std::atomic<bool> fresh = true;  // no call has returned yet
  nb::ft_mutex guard;              // of whether the workspace is used
  Workspace workspace;             // of one call at a time; those beside it have their own
  // What computes instead of the instance, where there is such a function.
  Native native;

  State(nb::object instance_, nb::str method_, nb::object lock_, std::vector<int> outputs_,
        size_t results_, std::vector<ShapeRow> input_shapes_, std::vector<ShapeRow> output_shapes_,
        size_t symbols_, bool copy_inputs, nb::handle native_)
      : instance(std::move(instance_)),
        method(std::move(method_)),
        lock(std::move(lock_)),
        outputs(std::move(outputs_)),
        results(results_),
        input_shapes(shapes(input_shapes_)),
        output_shapes(shapes(output_shapes_)),
        symbols(symbols_),
        copies(copy_inputs),
        writable(copy_inputs),
        native(native_) {
    ++live_states;
  }
  State(const State&) = delete;
  ~State() { --live_states; }

  // The workspace, or null while another call uses it.
  Workspace* take_workspace() {
    nb::ft_lock_guard held(guard);
    return std::exchange(workspace.is_used, true) ? nullptr : &workspace;
  }

  void release_workspace() {
    nb::ft_lock_guard held(guard);
    workspace.is_used = false;
  }

  static std::vector<Shape> shapes(std::vector<ShapeRow>& rows) {
    std::vector<Shape> shapes;
    for (auto& [port, strict, dims] : rows) shapes.push_back({port, strict, std::move(dims)});
    return shapes;
  }
};

// A kernel of ONNX Runtime, which owns it: made with a session and destroyed with it, perhaps after
// the interpreter. It is deleted with the GIL alone; where that is not to be had, it leaks.
struct Kernel {
  nb::ft_mutex guard;  // of the members below, but for the arena and the place, which stay
  // The Python half, a pyopnb.engine.runtime.kernel.Kernel; null once the interpreter ends.
  nb::object half;
  nb::object state;  // the State of the newest epoch that ran, or null
  uint64_t epoch = 0;
  Arena arena;  // that tensors are allocated from; null: inputs are always copied
  std::list<Kernel>::iterator self;

  // A reference of the caller's own: at exit, another thread clears the kernel's.
  Ref share(const nb::object& object) {
    nb::ft_lock_guard held(guard);
    return nb::object(object);
  }

  // The State that serves runs of that epoch, if it is the kernel's.
  Ref state_of(uint64_t wanted) {
    nb::ft_lock_guard held(guard);
    if (epoch != wanted || !state.is_valid()) return {};
    return nb::object(state);
  }

  // Keeps the State of an epoch, if it is the newest; what the caller is to release.
  nb::object keep(const Ref& newer, uint64_t since) {
    nb::ft_lock_guard held(guard);
    if (state.is_valid() && since <= epoch) return {};
    epoch = since;
    return std::exchange(state, nb::object(newer));
  }

  // The references that it has, for the caller to release. No destructor does that: it runs Python,
  // where CPython may end the thread, and that must not unwind a destructor.
  std::array<PyObject*, 2> take() {
    nb::ft_lock_guard held(guard);
    return {state.release().ptr(), half.release().ptr()};
  }

  void clear() {
    for (PyObject* object : take()) Py_XDECREF(object);
  }
};

// All live ones; guarded by `tables`; never destroyed, as ONNX Runtime may outlive this library.
inline auto& kernels = *new std::list<Kernel>;

inline size_t live_kernels() {
  nb::ft_lock_guard guard(tables);
  return kernels.size();
}

inline std::vector<PyObject*> objects_of_kernels() {
  nb::ft_lock_guard guard(tables);
  std::vector<PyObject*> objects;
  for (Kernel& kernel : kernels)
    for (PyObject* object : kernel.take()) objects.push_back(object);
  return objects;
}

class Call {
 public:
  Call(Kernel& kernel, nb::handle self, State& state, ort::KernelContext* context, Run* run)
      : kernel_(kernel),
        self_(self),
        state_(state),
        context_(context),
        run_(run),
        shared_(state_.take_workspace()),
        work_(shared_ ? *shared_ : alone_) {}
  Call(const Call&) = delete;
  ~Call() {
    if (shared_) state_.release_workspace();
  }

  void operator()() {
    Ref error = error_of([&] {
      take_inputs();
      compute_and_deliver();
    });
    for (Ref& result : work_.results) result = Ref();
    // The instance goes first. What is left are inputs, nearly always views that nothing else
    // reaches.
    if (!work_.arguments.empty()) work_.arguments[0] = Ref();
    if (state_.fresh || !all_reusable()) release_inputs(error);
    if (error.is_valid()) raise(error);
  }

 private:
  void take_inputs() {
    // A node has as many inputs in every run, and a workspace that was used has room for them.
    if (work_.arguments.empty()) {
      size_t inputs = 0;
      check(api.KernelContext_GetInputCount(context_, &inputs));
      work_.arguments.resize(inputs + 1);
      work_.results.resize(state_.outputs.size());
      work_.symbols.sizes.resize(state_.symbols);
    }
    const size_t count = work_.arguments.size() - 1;
    work_.arguments[0] = nb::object(state_.instance);
    std::fill(work_.symbols.sizes.begin(), work_.symbols.sizes.end(), -1);
    owned_ = state_.copies || state_.fresh || !kernel_.arena || (run_ && run_->shrinks);
    auto row = state_.input_shapes.begin();
    for (size_t i = 0; i < count; ++i) {
      Ref& input = work_.arguments[i + 1];
      const ort::Value* value = nullptr;
      check(api.KernelContext_GetInput(context_, i, &value));
      if (!value) {
        input = nb::none();
        continue;
      }
      Tensor tensor(value);
      const Dtype* dtype = dtype_of(tensor.type);
      if (!dtype)
        fail(PyExc_TypeError,
             "input %zu has ONNX Runtime's element type %d, which has no NumPy dtype", i,
             tensor.type);
      if (owned_ || dtype->bits < 8 || !outlives_run(value)) {
        input = copy_input(value, tensor, *dtype, state_.writable);
      } else {
        view_input(input, value, tensor, *dtype);
      }
      for (; row != state_.input_shapes.end() && row->port <= static_cast<int>(i); ++row)
        if (row->port == static_cast<int>(i) &&
            !work_.symbols.fits(*row, tensor.rank, tensor.dims) && row->strict)
          refuse("refuse_input", i, input);
    }
  }

  // Whether there is an owner that a view's memory can be kept with: the arena, or in a
  // pyopnb.Session's run the feeds, beside which only initializers are no memory of the arena, and
  // own themselves.
  bool outlives_run(const ort::Value* value) const { return has_feeds() || is_in_arena(value); }

  bool has_feeds() const { return run_ && !run_->feeds.is_none(); }

  // Calls compute and delivers what it returned. The lock of a serial op covers both: what compute
  // returned may be a buffer of the op's own, which the next call writes to.
  void compute_and_deliver() {
    if (state_.lock.is_none()) return deliver(compute());
    own(PyObject_CallMethod(state_.lock.ptr(), "acquire", nullptr));
    Ref error = error_of([&] { deliver(compute()); });
    for (Ref& result : work_.results) result = Ref();
    Ref release_error =
        error_of([&] { own(PyObject_CallMethod(state_.lock.ptr(), "release", nullptr)); });
    if (error.is_valid()) raise(error);
    if (release_error.is_valid()) raise(release_error);
  }

  Ref compute() {
    static_assert(sizeof(Ref) == sizeof(PyObject*),
                  "a vector of references is what a vectorcall takes");
    auto* arguments = reinterpret_cast<PyObject* const*>(work_.arguments.data());
    return own(
        PyObject_VectorcallMethod(state_.method.ptr(), arguments, work_.arguments.size(), nullptr));
  }

  // Checks all results, then writes them.
  void deliver(Ref result) {
    size_t count = state_.outputs.size();
    bool is_tuple = PyTuple_Check(result.ptr());
    size_t given = is_tuple                                    ? PyTuple_Size(result.ptr())
                   : (state_.results == 0 && result.is_none()) ? 0
                                                               : 1;
    if (given != state_.results) refuse("refuse_count", given, result);
    for (size_t i = 0; i < count; ++i)
      if (state_.outputs[i] != 0)
        work_.results[i] =
            exact_array(i, is_tuple ? PyTuple_GetItem(result.ptr(), i) : result.ptr());
    for (const Shape& row : state_.output_shapes) {
      if (row.port >= static_cast<int>(count) || !work_.results[row.port].is_valid()) continue;
      PyArrayObject* array = as_array(work_.results[row.port]);
      if (!work_.symbols.fits(row, PyArray_NDIM(array), PyArray_DIMS(array)))
        refuse("refuse_result", row.port, work_.results[row.port]);
    }
    for (size_t i = 0; i < count; ++i)
      if (work_.results[i].is_valid()) write(i, as_array(work_.results[i]));
  }

  // A result as an array of exactly the declared dtype: the plain case here, all others in Python.
  Ref exact_array(size_t output, PyObject* value) {
    const Dtype* wanted = dtype_of(state_.outputs[output]);
    if (PyArray_CheckExact(value) && wanted && wanted->bits && has_dtype(as_array(value), *wanted))
      return nb::borrow(value);
    Ref array = own(PyObject_CallMethod(kernel_.half.ptr(), "as_array", "OnO", self_.ptr(),
                                        static_cast<Py_ssize_t>(output), value));
    if (!wanted || !PyArray_CheckExact(array.ptr()) ||
        PyArray_DESCR(as_array(array))->type_num != wanted->descr->type_num)
      fail(PyExc_SystemError, "as_array did not make an array of the declared dtype");
    return array;
  }

  static bool has_dtype(PyArrayObject* array, const Dtype& wanted) {
    PyArray_Descr* descr = PyArray_DESCR(array);
    return descr == wanted.descr ||
           (descr->type_num == wanted.descr->type_num && PyArray_ISNBO(descr->byteorder));
  }

  void write(size_t output, PyArrayObject* array) {
    ort::Value* out = nullptr;
    const Dtype& dtype = *dtype_of(state_.outputs[output]);
    // Since it was checked, another result's __array__ or, without the GIL, another thread may have
    // changed it.
    if ((!kWithGil || state_.outputs.size() > 1) && !has_dtype(array, dtype))
      fail(PyExc_RuntimeError, "result %zu got another dtype while it was delivered", output);
    auto* dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(array));
    check(api.KernelContext_GetOutput(context_, output, dims, PyArray_NDIM(array), &out));
    if (!out) return;
    // Only a caller's IOBinding gives an output memory that is not the arena's, and a run with
    // feeds has none.
    bool is_bound = !has_feeds() && !is_in_arena(out);
    if (dtype.bits && is_bound)
      refuse_overlap(output, out, (PyArray_SIZE(array) * dtype.bits + 7) / 8);
    write_tensor(out, array, dtype);
  }

  // ONNX Runtime gives no output the memory of an input, but a caller can, by IOBinding: a
  // later reader of the input would read the output.
  void refuse_overlap(size_t output, const ort::Value* out, npy_intp bytes) {
    auto begin = reinterpret_cast<uintptr_t>(memory_of(out));
    for (size_t i = 1; i < work_.arguments.size(); ++i) {
      const ort::Value* value = nullptr;
      check(api.KernelContext_GetInput(context_, i - 1, &value));
      if (!value) continue;
      const Tensor tensor(value);
      const Dtype* dtype = dtype_of(tensor.type);
      if (!dtype->bits) continue;
      npy_intp count = PyArray_MultiplyList(tensor.dims, static_cast<int>(tensor.rank));
      auto input = reinterpret_cast<uintptr_t>(memory_of(value));
      if (begin < input + (count * dtype->bits + 7) / 8 && input < begin + bytes)
        own(PyObject_CallMethod(kernel_.half.ptr(), "refuse_overlap", "Onn", self_.ptr(),
                                static_cast<Py_ssize_t>(output), static_cast<Py_ssize_t>(i - 1)));
    }
  }

  // ---- after compute

  bool all_reusable() const {
    for (size_t i = 1; i < work_.arguments.size(); ++i)
      if (!is_reusable(work_.arguments[i])) return false;
    return true;
  }

  // Finds what compute has kept, and releases inputs that no other call can have.
  void release_inputs(Ref& error) {
    if (!(owned_ && state_.copies) && inputs_kept(error)) {
      if (any_input(is_held)) state_.copies = true;
      if (!owned_) report_escapes(error);
    }
    state_.fresh = false;
    for (Ref& argument : work_.arguments)
      if (!is_reusable(argument)) argument = Ref();
  }

  static bool is_held(const Ref& input) {
    return input.is_valid() && PyArray_CheckExact(input.ptr()) && count(input) > 1;
  }

  // … or may be in a moment, by a weak reference of another thread's.
  static bool may_be_held(const Ref& input) {
    if (kWithGil || !input.is_valid() || !PyArray_CheckExact(input.ptr())) return is_held(input);
    return is_held(input) || reinterpret_cast<PyArrayObject_fields*>(input.ptr())->weakreflist;
  }

  bool any_input(bool (*what)(const Ref&)) const {
    return work_.arguments.size() > 1 &&
           std::any_of(work_.arguments.begin() + 1, work_.arguments.end(), what);
  }

  // Whether the call must be taken for one that has kept an input. Without the GIL, a thread that
  // compute has waited for may not have released its input yet, or that may not be counted yet:
  // where the run would fail, it gets some time.
  bool inputs_kept(Ref& error) {
    if constexpr (!kWithGil)
      for (int i = 0; i < kPatience && !owned_ && !error.is_valid() && any_input(is_held); ++i)
        error =
            error_of([] { own(PyObject_CallMethod(hooks.ptr(), "wait_for_releases", nullptr)); });
    return any_input(may_be_held);
  }

  // Makes what was kept safe, and fails the run, unless there are only weak references. `error` is
  // what compute raised, which wins and may get a note.
  void report_escapes(Ref& error) {
    size_t first = 0;
    Py_ssize_t held = 0;
    for (size_t i = 1; i < work_.arguments.size(); ++i) {
      Ref& input = work_.arguments[i];
      if (!may_be_held(input) || PyArray_CHKFLAGS(as_array(input), NPY_ARRAY_OWNDATA)) continue;
      if (is_held(input)) {
        ++escapes;
        if (!first) first = i, held = count(input) - 1;
      }
      const ort::Value* value = nullptr;
      Ref failure = error_of([&] {
        check(api.KernelContext_GetInput(context_, i - 1, &value));
        keep_memory(input, value, kernel_.arena, kernel_.half,
                    run_ ? run_->feeds : nb::handle(Py_None));
      });
      if (failure.is_valid()) error = std::move(failure);  // out of memory
    }
    if (!first) return;
    Ref none = nb::none();
    Ref escaped = error_of([&] {
      own(PyObject_CallMethod(kernel_.half.ptr(), "refuse_escape", "OnOOn", self_.ptr(),
                              static_cast<Py_ssize_t>(first - 1), work_.arguments[first].ptr(),
                              (error.is_valid() ? error : none).ptr(), held));
    });
    if (escaped.is_valid()) PyException_SetTraceback(escaped.ptr(), Py_None);  // it holds the array
    if (!error.is_valid()) error = std::move(escaped);
  }

  // The error with which the Python half says where, what was expected and what came; null where it
  // raised none.
  Ref refusal(const char* method, size_t place, const Ref& value) {
    Ref error = error_of([&] {
      own(PyObject_CallMethod(kernel_.half.ptr(), method, "OnO", self_.ptr(),
                              static_cast<Py_ssize_t>(place), value.ptr()));
    });
    // The frames of its traceback are pyopnb's own. They hold the array in question, which would
    // look like the op's keeping it.
    if (error.is_valid()) PyException_SetTraceback(error.ptr(), Py_None);
    return error;
  }

  [[noreturn]] void refuse(const char* method, size_t place, const Ref& value) {
    Ref error = refusal(method, place, value);
    if (error.is_valid()) raise(error);
    fail(PyExc_SystemError, "%s raised nothing", method);
  }

  Kernel& kernel_;
  nb::handle self_;  // the State as Python knows it
  State& state_;
  ort::KernelContext* context_;
  Run* run_;
  Workspace* const shared_;  // the State's, if no other call uses it
  Workspace alone_;
  Workspace& work_;
  bool owned_ = false;  // whether all inputs are copies
};

}  // namespace pyopnb
