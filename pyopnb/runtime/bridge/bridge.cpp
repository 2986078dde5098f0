// The bridge: one shared library that is a Python module and a custom-op library of ONNX Runtime at once.
//
// ONNX Runtime calls create, infer, compute and destroy below; they call Python. Beside this file: boundary.h (what all parts
// stand on), tensors.h (tensors as arrays and back), attrs.h (attributes that only the runtime has), escape.h (inputs that were
// kept) and onnxruntime_abi.h (the C interface). The rules of this border:
//
// Memory.  ONNX Runtime owns the memory of inputs and outputs. An input reaches Python as a read-only array over that memory,
//          valid for the call; the first call of a version in a kernel gets copies instead. After each call the reference
//          count of every view says exactly whether it escaped; escape.h then settles it. Results are copied into outputs.
// GIL.     ONNX Runtime calls without it (a run) or with it (creation). It is taken for Python work only, and let go while
//          large results are copied. No C++ mutex exists, so none is held across Python; all state is guarded by the GIL.
// Errors.  No Python error and no C++ exception leaves a callback: an error becomes an OrtStatus whose text tells the facts,
//          and the exception object is left in the Run of the pyopnb.Session that is waiting, which raises it again.
// Exit.    Once the interpreter finalizes, CPython ends threads that ask for the GIL by unwinding their stacks. That unwinding
//          must not meet ONNX Runtime's catch (...), so it is caught here and the thread sleeps until the process is gone.
//          For the same reason nothing here touches Python from a destructor while the interpreter finalizes.
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "attrs.h"
#include "boundary.h"
#include "escape.h"
#include "tensors.h"

namespace nb = nanobind;
using namespace pyopnb;

namespace {

bool api_loaded = false;
PyObject* hooks = nullptr;  // the Python half: pyopnb.runtime.callbacks

constexpr int kDeepest = 60;  // runs inside compute inside runs …; each level costs tens of kB of C stack
constexpr const char* kMarker = "pyopnb_node";
constexpr const char* kSessionPrefix = "pyopnb:";
constexpr const char* kConfigPrefix = "pyopnb.domain.";

// ---- Runs -------------------------------------------------------------------------------------------------------------------

// What a pyopnb.Session that waits for a run on this thread wants to know. A bare session has none.
struct Run {
  Run* outer;                   // what waited before; null in compute
  Run* below;                   // the run in whose compute this one is, if any
  uint64_t epoch;               // versions of that epoch serve the whole run
  PyObject* error = nullptr;    // the first exception, owned
  PyObject* escaped = nullptr;  // list of inputs whose memory must outlive the run, owned
};

thread_local Run* waiting = nullptr;  // null while user code runs: a bare session inside compute is nobody's business
thread_local Run* newest = nullptr;   // of this thread's runs, waiting or not
thread_local int depth = 0;
uint64_t global_epoch = 0;
std::vector<uint64_t> epochs_in_flight;
long live_kernels = 0, live_states = 0, live_runs = 0, escapes = 0;

// While user code runs, on whatever way it ends.
class Away {
 public:
  Away() : run_(std::exchange(waiting, nullptr)) { ++depth; }
  ~Away() { waiting = run_, --depth; }
  Away(const Away&) = delete;
  Run* run() const { return run_; }

 private:
  Run* run_;
};

// ---- State: one version of an op at a node ----------------------------------------------------------------------------------

struct Shape {  // what a port's dimensions must be
  int port;
  bool strict;                // otherwise a contradiction only makes the symbols worthless
  std::vector<int64_t> dims;  // a size; -1: anything; -2 - n: symbol n
};

struct State {
  PyObject* instance;
  PyObject* method;          // name, looked up at each call as Python would
  PyObject* lock;            // null unless the class is serial
  std::vector<int> outputs;  // element types; 0: nobody wants that output
  size_t results;            // how many values compute must return
  std::vector<Shape> takes, gives;
  size_t symbols;
  bool copies;        // inputs are always copied: the class asks for it, or an input escaped
  bool writable;      // … and may be written
  bool fresh = true;  // no call has returned yet

  State(nb::object instance_, nb::str method_, nb::object lock_, std::vector<int> outputs_, size_t results_,
        std::vector<std::tuple<int, bool, std::vector<int64_t>>> takes_,
        std::vector<std::tuple<int, bool, std::vector<int64_t>>> gives_, size_t symbols_, bool copy_inputs)
      : instance(instance_.release().ptr()),
        method(method_.release().ptr()),
        lock(lock_.is_none() ? nullptr : lock_.release().ptr()),
        outputs(std::move(outputs_)),
        results(results_),
        takes(shapes(takes_)),
        gives(shapes(gives_)),
        symbols(symbols_),
        copies(copy_inputs),
        writable(copy_inputs) {
    ++live_states;
  }
  State(const State&) = delete;
  ~State() {
    --live_states;
    Py_DECREF(instance);
    Py_DECREF(method);
    Py_XDECREF(lock);
  }
  static std::vector<Shape> shapes(std::vector<std::tuple<int, bool, std::vector<int64_t>>>& rows) {
    std::vector<Shape> made;
    for (auto& [port, strict, dims] : rows) made.push_back({port, strict, std::move(dims)});
    return made;
  }
};

struct Kernel {
  PyObject* place;  // Python half: pyopnb.runtime.kernel.Place, owned
  PyObject* state = nullptr;
  uint64_t epoch = 0;
  Kernel *previous = nullptr, *next = nullptr;
};

Kernel* kernels = nullptr;  // all live ones, so that what they hold can be let go before the interpreter ends

// ---- One call of compute ----------------------------------------------------------------------------------------------------

class Call {
 public:
  Call(Kernel& kernel, PyObject* state, ort::KernelContext* context, Run* run)
      : kernel_(kernel), self_(state), state_(*nb::inst_ptr<State>(state)), context_(context), run_(run) {}
  ~Call() {
    if (!python_is_up()) return;
    for (size_t i = 1; i < args_.size(); ++i) Py_XDECREF(args_[i]);
  }

  // False where a Python error is set.
  bool run() {
    sizes_.assign(state_.symbols, -1);
    bool fine = take_inputs();
    if (fine) {
      Ref result(call());
      fine = result && deliver(result.get());
      results_.clear();
    }
    return check_escapes() && fine;
  }

 private:
  bool take_inputs() {
    size_t count = 0;
    if (refused(api.KernelContext_GetInputCount(context_, &count))) return false;
    args_.assign(count + 1, nullptr);
    args_[0] = state_.instance;
    owned_ = state_.copies || state_.fresh;
    auto row = state_.takes.begin();
    for (size_t i = 0; i < count; ++i) {
      const ort::Value* value = nullptr;
      if (refused(api.KernelContext_GetInput(context_, i, &value))) return false;
      if (!value) {
        args_[i + 1] = Py_NewRef(Py_None);
        continue;
      }
      Tensor tensor;
      if (!describe(value, &tensor)) return false;
      const Dtype* dtype = dtype_of(tensor.type);
      if (!dtype) {
        PyErr_Format(PyExc_TypeError, "input %zu has ONNX Runtime's element type %d, which has no NumPy dtype", i, tensor.type);
        return false;
      }
      bool copy = owned_ || dtype->bits < 8;
      args_[i + 1] = copy ? input_copy(value, tensor, *dtype, state_.writable) : input_view(value, tensor, *dtype);
      if (!args_[i + 1]) return false;
      views_ = views_ || !copy;
      for (; row != state_.takes.end() && row->port <= static_cast<int>(i); ++row)
        if (row->port == static_cast<int>(i) && !fits(*row, tensor.rank, tensor.dims) && row->strict)
          return complain("refuse_input", i, args_[i + 1]);
    }
    return true;
  }

  // Compares with the declared dimensions, binding their symbols on first sight.
  bool fits(const Shape& want, size_t rank, const npy_intp* dims) {
    if (want.dims.size() != rank) return false;
    bool fine = true;
    for (size_t d = 0; d < rank; ++d) {
      int64_t dim = want.dims[d];
      if (dim >= 0) {
        fine = fine && dim == dims[d];
      } else if (dim <= -2) {
        int64_t& size = sizes_[-2 - dim];
        if (size == -1) size = dims[d];
        if (size >= 0 && size != dims[d]) {
          fine = false;
          if (!want.strict) size = -2;  // the graph's own symbol means two sizes: it can say nothing about results
        }
      }
    }
    return fine;
  }

  PyObject* call() {
    if (state_.lock && !Ref(PyObject_CallMethod(state_.lock, "acquire", nullptr))) return nullptr;
    PyObject* result = PyObject_VectorcallMethod(state_.method, args_.data(), args_.size(), nullptr);
    if (state_.lock) {
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      Ref released(PyObject_CallMethod(state_.lock, "release", nullptr));
      if (!type && !released)
        Py_CLEAR(result);
      else
        PyErr_Restore(type, value, trace);
    }
    return result;
  }

  bool deliver(PyObject* result) {
    size_t count = state_.outputs.size();
    PyObject* const* values = &result;
    bool tuple = PyTuple_Check(result);
    if (tuple) values = &PyTuple_GET_ITEM(result, 0);
    size_t given = tuple ? PyTuple_GET_SIZE(result) : (state_.results == 0 && result == Py_None) ? 0 : 1;
    if (given != state_.results) return complain("refuse_count", given, result);
    results_.reserve(count);
    for (size_t j = 0; j < count; ++j) {
      results_.emplace_back();
      if (state_.outputs[j] == 0) continue;
      results_[j] = Ref(as_array(j, values[j]));
      if (!results_[j]) return false;
    }
    for (const Shape& row : state_.gives) {
      if (row.port >= static_cast<int>(count) || !results_[row.port]) continue;
      auto* array = reinterpret_cast<PyArrayObject*>(results_[row.port].get());
      if (!fits(row, PyArray_NDIM(array), PyArray_DIMS(array)))
        return complain("refuse_result", row.port, results_[row.port].get());
    }
    for (size_t j = 0; j < count; ++j)
      if (results_[j] && !write(j, reinterpret_cast<PyArrayObject*>(results_[j].get()))) return false;
    return true;
  }

  // A result as an array of exactly the declared dtype: the plain case here, all others in Python.
  PyObject* as_array(size_t place, PyObject* value) {
    const Dtype* want = dtype_of(state_.outputs[place]);
    if (PyArray_CheckExact(value) && want && want->bits) {
      auto* array = reinterpret_cast<PyArrayObject*>(value);
      if (PyArray_DESCR(array)->type_num == want->descr->type_num && PyArray_ISNBO(PyArray_DESCR(array)->byteorder))
        return Py_NewRef(value);
    }
    Ref made(PyObject_CallMethod(kernel_.place, "as_array", "OnO", self_, static_cast<Py_ssize_t>(place), value));
    if (!made) return nullptr;
    if (!want || !PyArray_CheckExact(made.get()) ||
        PyArray_DESCR(reinterpret_cast<PyArrayObject*>(made.get()))->type_num != want->descr->type_num) {
      PyErr_SetString(PyExc_SystemError, "as_array did not make an array of the declared dtype");
      return nullptr;
    }
    return made.release();
  }

  bool write(size_t place, PyArrayObject* array) {
    ort::Value* out = nullptr;
    auto* dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(array));
    if (refused(api.KernelContext_GetOutput(context_, place, dims, PyArray_NDIM(array), &out))) return false;
    return !out || write_tensor(out, array, *dtype_of(state_.outputs[place]));
  }

  // After compute: does anything still reach an input? False where an escape became an error.
  bool check_escapes() {
    bool kept = false;
    for (size_t i = 1; i < args_.size() && !kept; ++i)
      kept = args_[i] && PyArray_CheckExact(args_[i]) && Py_REFCNT(args_[i]) > 1;
    state_.fresh = false;
    if (!kept) return true;
    state_.copies = true;
    return !views_ || owned_ || settle_escapes();
  }

  bool settle_escapes() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) PyException_SetTraceback(value, trace);
    size_t unproved = 0;
    for (size_t i = 1; i < args_.size(); ++i) {
      auto* array = reinterpret_cast<PyArrayObject*>(args_[i]);
      bool view = args_[i] && PyArray_CheckExact(args_[i]) && !PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA);
      if (!view || Py_REFCNT(args_[i]) == 1) continue;
      ++escapes;
      // The same input may stand at two places, but then as two arrays: one reference is ours.
      int proved = escape::settle(args_[i], 1);
      if (proved < 0) PyErr_Clear();  // out of memory on the way to an error that will say enough
      if (proved <= 0) {
        unproved = i;
        outlive_run(args_[i]);
      }
    }
    if (unproved) complain("refuse_escape", unproved - 1, value ? value : Py_None);
    if (type) {
      // The user's exception wins; refuse_escape has put its note on it.
      PyErr_Clear();
      PyErr_Restore(type, value, trace);
      return false;
    }
    return unproved == 0;
  }

  void outlive_run(PyObject* array) {
    if (!run_) return;
    if (!run_->escaped) run_->escaped = PyList_New(0);
    if (!run_->escaped || PyList_Append(run_->escaped, array) != 0) PyErr_Clear();
  }

  // Lets the Python half set the error that says where, what was expected and what came.
  bool complain(const char* method, size_t place, PyObject* what) {
    Ref nothing(PyObject_CallMethod(kernel_.place, method, "OnO", self_, static_cast<Py_ssize_t>(place), what));
    if (nothing && !PyErr_Occurred() && std::strcmp(method, "refuse_escape"))
      PyErr_Format(PyExc_SystemError, "%s raised nothing", method);
    // The frames of its traceback are pyopnb's own. They hold the array in question, which would look like the op's keeping it.
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value) PyException_SetTraceback(value, Py_None);
    Py_XDECREF(trace);
    PyErr_Restore(type, value, nullptr);
    return false;
  }

  Kernel& kernel_;
  PyObject* self_;  // the State as Python knows it, borrowed
  State& state_;
  ort::KernelContext* context_;
  Run* run_;
  std::vector<PyObject*> args_;  // the instance, borrowed, then the inputs, owned
  std::vector<Ref> results_;
  std::vector<int64_t> sizes_;
  bool owned_ = false, views_ = false;
};

// ---- Errors on their way out ------------------------------------------------------------------------------------------------

PyObject* take_error() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return value;
}

// The pending Python error as a status; the exception itself goes to the session that waits.
ort::Status* failure(PyObject* place, PyObject* state, Run* run) {
  Ref error(take_error());
  Ref text(PyObject_CallMethod(hooks, "failed", "OOO", place ? place : Py_None, state ? state : Py_None, error.get()));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  if (run && !run->error) run->error = error.release();
  return api.CreateStatus(ort::kFail, utf8 ? utf8 : "an exception that cannot be described");
}

// ---- compute ----------------------------------------------------------------------------------------------------------------

// The state that serves this call, a new reference; null with a Python error.
PyObject* state_for(Kernel& kernel, uint64_t epoch) {
  if (kernel.state && kernel.epoch == epoch) return Py_NewRef(kernel.state);
  PyObject* state = PyObject_CallMethod(kernel.place, "at", "K", static_cast<unsigned long long>(epoch));
  if (!state) return nullptr;
  if (!nb::isinstance<State>(state)) {
    PyErr_SetString(PyExc_SystemError, "Place.at did not give a State");
    Py_DECREF(state);
    return nullptr;
  }
  if (!kernel.state || epoch > kernel.epoch) {
    kernel.epoch = epoch;
    Py_XSETREF(kernel.state, Py_NewRef(state));
  }
  return state;
}

// `holder` receives the state that serves the call, for whoever describes its failure.
bool call_compute(Kernel& kernel, ort::KernelContext* context, Run* run, Ref& holder) {
  if (depth > kDeepest) {
    PyErr_Format(PyExc_RecursionError, "runs are nested %d deep: compute runs a session whose op runs a session", kDeepest);
    return false;
  }
  if (PyErr_CheckSignals() != 0) return false;
  holder = Ref(state_for(kernel, run ? run->epoch : global_epoch));
  return holder && Call(kernel, holder.get(), context, run).run();
}

ort::Status* compute(void* pointer, ort::KernelContext* context) {
  return at_the_border([&]() -> ort::Status* {
    Gil gil;
    Kernel& kernel = *static_cast<Kernel*>(pointer);
    // The session may be dropped inside compute; the runtime keeps the kernel, this keeps its Python half.
    Ref place = Ref::borrowed(kernel.place);
    if (!place) return api.CreateStatus(ort::kFail, "pyopnb: the interpreter is exiting");
    Away away;
    Ref state;
    bool fine = call_compute(kernel, context, away.run(), state);
    return fine ? nullptr : failure(place.get(), state.get(), away.run());
  });
}

// ---- Types of a node's ports, for Python -----------------------------------------------------------------------------------

template <typename Get>
PyObject* kernel_types(size_t count, const ort::KernelInfo* info, Get get) {
  Ref list(PyList_New(0));
  for (size_t i = 0; list && i < count; ++i) {
    ort::TypeInfo* type = nullptr;
    const ort::TensorInfo* tensor = nullptr;
    bool none = absent(get(info, i, &type)) || !type || absent(api.CastTypeInfoToTensorInfo(type, &tensor)) || !tensor;
    bool fine = append(list.get(), none ? Py_NewRef(Py_None) : type_to_python(tensor));
    if (type) api.ReleaseTypeInfo(type);
    if (!fine) return nullptr;
  }
  return list.release();
}

PyObject* inferred_from(ort::ShapeContext* context) {
  size_t count = 0;
  if (refused(api.ShapeInferContext_GetInputCount(context, &count))) return nullptr;
  Ref list(PyList_New(0));
  for (size_t i = 0; list && i < count; ++i) {
    ort::TensorInfo* tensor = nullptr;
    int type = 0;
    bool none = absent(api.ShapeInferContext_GetInputTypeShape(context, i, &tensor)) || !tensor ||
                absent(api.GetTensorElementType(tensor, &type)) || type == 0;
    // The context owns the info.
    if (!append(list.get(), none ? Py_NewRef(Py_None) : type_to_python(tensor))) return nullptr;
  }
  return list.release();
}

// ---- create, destroy, infer -------------------------------------------------------------------------------------------------

struct Op : ort::CustomOp {
  std::string domain, type;
  size_t inputs = 1, outputs = 1, required = 0;
  std::vector<int> fixed;  // element types of outputs whose rank is unknown, which InferOutputShapeFn cannot say; 0: it can
};

PyObject* place_node(const Op& op, const ort::KernelInfo* info) {
  int64_t marker = -1;
  size_t inputs = 0, outputs = 0, size = 0;
  absent(api.KernelInfoGetAttribute_int64(info, kMarker, &marker));
  if (refused(api.KernelInfo_GetInputCount(info, &inputs)) || refused(api.KernelInfo_GetOutputCount(info, &outputs)))
    return nullptr;
  std::string name;
  if (!absent(api.KernelInfo_GetNodeName(info, nullptr, &size)) && size) {
    name.resize(size);
    if (refused(api.KernelInfo_GetNodeName(info, name.data(), &size))) return nullptr;
    name.resize(std::strlen(name.c_str()));
  }
  Ref takes(kernel_types(inputs, info, api.KernelInfo_GetInputTypeInfo));
  Ref gives(kernel_types(outputs, info, api.KernelInfo_GetOutputTypeInfo));
  if (!takes || !gives) return nullptr;
  Ref reader = reader_of(Attrs(info, nullptr));
  PyObject* place = PyObject_CallMethod(hooks, "place", "ssLsOOO", op.domain.c_str(), op.type.c_str(),
                                        static_cast<long long>(marker), name.c_str(), takes.get(), gives.get(), reader.get());
  expire(reader);
  return place;
}

ort::Status* create(const ort::CustomOp* base, const void*, const ort::KernelInfo* info, void** kernel) {
  return at_the_border([&]() -> ort::Status* {
    Gil gil;
    Away away;
    PyObject* place = place_node(*static_cast<const Op*>(base), info);
    if (!place) return failure(nullptr, nullptr, away.run());
    auto* made = new Kernel{place};
    made->next = kernels;
    if (kernels) kernels->previous = made;
    kernels = made;
    ++live_kernels;
    *kernel = made;
    return nullptr;
  });
}

void let_go(Kernel& kernel) {
  Py_CLEAR(kernel.state);
  Py_CLEAR(kernel.place);
}

void destroy(void* pointer) {
  if (!pointer) return;
  // With the interpreter gone, its objects are gone or must not be touched; closing has cleared the references before.
  if (closing || !python_is_up()) return;
  at_the_border([&]() -> ort::Status* {
    Gil gil;
    std::unique_ptr<Kernel> kernel(static_cast<Kernel*>(pointer));
    if (kernel->previous)
      kernel->previous->next = kernel->next;
    else
      kernels = kernel->next;
    if (kernel->next) kernel->next->previous = kernel->previous;
    --live_kernels;
    // A session may be dropped while an exception travels, and what an op's __del__ raises must not replace it.
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    let_go(*kernel);
    PyErr_Restore(type, value, trace);
    return nullptr;
  });
}

bool set_output(ort::ShapeContext* context, size_t place, int type, PyObject* shape) {
  std::vector<int64_t> dims;
  std::vector<const char*> names;
  for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(shape); ++d) {
    PyObject* dim = PyTuple_GET_ITEM(shape, d);
    dims.push_back(PyLong_Check(dim) ? PyLong_AsLongLong(dim) : -1);
    names.push_back(PyUnicode_Check(dim) ? PyUnicode_AsUTF8(dim) : "");
    if (PyErr_Occurred()) return false;
  }
  ort::TensorInfo* info = nullptr;
  if (refused(api.CreateTensorTypeAndShapeInfo(&info))) return false;
  bool fine = !refused(api.SetTensorElementType(info, type)) && !refused(api.SetDimensions(info, dims.data(), dims.size())) &&
              !refused(api.SetSymbolicDimensions(info, names.data(), names.size())) &&
              !refused(api.ShapeInferContext_SetOutputTypeShape(context, place, info));
  api.ReleaseTensorTypeAndShapeInfo(info);
  return fine;
}

bool infer_outputs(const Op& op, ort::ShapeContext* context) {
  const ort::OpAttr* attr = nullptr;
  int64_t marker = -1;
  size_t got = 0;
  if (!absent(api.ShapeInferContext_GetAttribute(context, kMarker, &attr)) && attr)
    absent(api.ReadOpAttr(attr, ort::kInt, &marker, sizeof marker, &got));
  Ref inputs(inferred_from(context));
  if (!inputs) return false;
  Ref reader = reader_of(Attrs(nullptr, context));
  Ref types(PyObject_CallMethod(hooks, "infer", "ssLOO", op.domain.c_str(), op.type.c_str(), static_cast<long long>(marker),
                                inputs.get(), reader.get()));
  expire(reader);
  if (!types || !PyList_Check(types.get())) return false;
  for (Py_ssize_t j = 0; j < PyList_GET_SIZE(types.get()); ++j) {  // (element type, dims) or None where nothing can be said
    PyObject* item = PyList_GET_ITEM(types.get(), j);
    if (item == Py_None) continue;
    if (!set_output(context, j, PyLong_AsLong(PyTuple_GET_ITEM(item, 0)), PyTuple_GET_ITEM(item, 1))) return false;
  }
  return true;
}

ort::Status* infer(const ort::CustomOp* base, ort::ShapeContext* context) {
  ort::Status* status = at_the_border([&]() -> ort::Status* {
    Gil gil;
    Away away;
    return infer_outputs(*static_cast<const Op*>(base), context) ? nullptr : failure(nullptr, nullptr, away.run());
  });
  // The runtime neither heeds nor frees it. The exception has gone to the session that waits; a bare session meets it again
  // when the kernel is made.
  if (status) api.ReleaseStatus(status);
  return nullptr;
}

// ---- Registration -----------------------------------------------------------------------------------------------------------

// Sessions copy pointers to ops and call through them until they die, so ops live as long as the process: one for each
// domain and type ever used. The runtime reads them anew for each session, so widening one changes later sessions only.
// The tables are never destroyed, not even when the process ends: onnxruntime may outlive this library's statics.
auto& ops = *new std::map<std::pair<std::string, std::string>, std::unique_ptr<Op>>;
auto& domain_numbers = *new std::map<std::string, size_t>;  // a domain of sessions by name; of bare ones by name and ops
auto& domains = *new std::vector<ort::Domain*>;
auto& domain_ops = *new std::map<size_t, std::map<std::string, Op*>>;

template <int value>
int always(const ort::CustomOp*, size_t) {
  return value;
}

Op& op_named(const std::string& domain, const std::string& type) {
  auto& op = ops[{domain, type}];
  if (op) return *op;
  op = std::make_unique<Op>();
  op->domain = domain;
  op->type = type;
  op->version = ort::kOpVersion;
  op->GetName = [](const ort::CustomOp* o) { return static_cast<const Op*>(o)->type.c_str(); };
  op->GetExecutionProviderType = [](const ort::CustomOp*) -> const char* { return nullptr; };
  op->GetInputType = always<ort::kUndefined>;
  op->GetOutputType = [](const ort::CustomOp* o, size_t i) -> int {
    auto& fixed = static_cast<const Op*>(o)->fixed;
    return i < fixed.size() ? fixed[i] : ort::kUndefined;
  };
  op->GetInputTypeCount = [](const ort::CustomOp* o) { return static_cast<const Op*>(o)->inputs; };
  op->GetOutputTypeCount = [](const ort::CustomOp* o) { return static_cast<const Op*>(o)->outputs; };
  op->GetInputCharacteristic = [](const ort::CustomOp* o, size_t i) -> int {
    return i < static_cast<const Op*>(o)->required ? ort::kSingle : ort::kOptional;
  };
  op->GetOutputCharacteristic = always<ort::kOptional>;
  op->GetInputMemoryType = always<0>;
  op->GetVariadicInputMinArity = op->GetVariadicInputHomogeneity = [](const ort::CustomOp*) { return 0; };
  op->GetVariadicOutputMinArity = op->GetVariadicOutputHomogeneity = [](const ort::CustomOp*) { return 0; };
  op->CreateKernelV2 = create;
  op->KernelComputeV2 = compute;
  op->KernelDestroy = destroy;
  op->InferOutputShapeFn = infer;
  op->GetStartVersion = [](const ort::CustomOp*) { return 1; };
  op->GetEndVersion = [](const ort::CustomOp*) { return 0x7fffffff; };
  op->GetMayInplace = op->GetAliasMap = [](int**, int**) -> size_t { return 0; };
  op->ReleaseMayInplace = op->ReleaseAliasMap = [](int*, int*) {};
  return *op;
}

struct Signature {
  std::string domain, type;
  size_t inputs, outputs, required;
  std::vector<int> fixed;
};

void widen(const Signature& wanted) {
  Op& op = op_named(wanted.domain, wanted.type);
  op.inputs = std::max(op.inputs, wanted.inputs);
  op.outputs = std::max(op.outputs, wanted.outputs);
  op.required = wanted.required;
  op.fixed = wanted.fixed;
}

bool of_sessions(const std::string& domain) { return domain.rfind(kSessionPrefix, 0) == 0; }

// The number of the domain object that offers these ops.
size_t domain_for(const std::string& name, const std::vector<std::string>& types) {
  std::string key = name;
  if (!of_sessions(name))  // a bare session gets just the ops of the registry, as overriding a standard op is no small thing
    for (const std::string& type : types) key += "\n" + type;
  auto known = domain_numbers.find(key);
  size_t number = known == domain_numbers.end() ? domains.size() : known->second;
  if (number == domains.size()) {
    ort::Domain* made = nullptr;
    if (refused(api.CreateCustomOpDomain(name.c_str(), &made))) throw nb::python_error();
    domains.push_back(made);
    domain_numbers[key] = number;
  }
  for (const std::string& type : types) {
    Op*& there = domain_ops[number][type];
    if (there) continue;
    there = &op_named(name, type);
    if (refused(api.CustomOpDomain_Add(domains[number], there))) throw nb::python_error();
  }
  return number;
}

// The options themselves remember what was added to them: a domain may be added once, and an address would be used again.
bool attached(const ort::Options* options, const std::string& key) {
  size_t size = 0;
  return !absent(api.GetSessionConfigEntry(options, key.c_str(), nullptr, &size));
}

void attach(ort::Options* options, const std::vector<Signature>& wanted) {
  std::map<std::string, std::vector<std::string>> by_domain;
  for (const Signature& one : wanted) {
    widen(one);
    by_domain[one.domain].push_back(one.type);
  }
  for (auto& [domain, types] : by_domain) {
    std::sort(types.begin(), types.end());
    size_t number = domain_for(domain, types);
    std::string key = kConfigPrefix + std::to_string(number);
    if (attached(options, key)) continue;
    if (refused(api.AddCustomOpDomain(options, domains[number])) ||
        refused(api.AddSessionConfigEntry(options, key.c_str(), "1")))
      throw nb::python_error();
  }
}

std::vector<Signature> signatures(nb::handle rows) {
  std::vector<Signature> made;
  for (nb::handle row : rows)
    made.push_back({nb::cast<std::string>(row[0]), nb::cast<std::string>(row[1]), nb::cast<size_t>(row[2]),
                    nb::cast<size_t>(row[3]), nb::cast<size_t>(row[4]), nb::cast<std::vector<int>>(row[5])});
  return made;
}

ort::Status* register_ops(ort::Options* options) {
  Gil gil;
  try {
    nb::object wanted = nb::handle(hooks).attr("signatures")();
    attach(options, signatures(wanted));
    return nullptr;
  } catch (nb::python_error& error) {
    error.restore();
    return failure(nullptr, nullptr, waiting);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ort::Status* RegisterCustomOps(ort::Options* options,
                                                                                 const ort::ApiBase* base) {
  if (!api_loaded && !api.load(base)) return ort::too_old(base);
  api_loaded = true;
  return at_the_border([&] { return register_ops(options); });
}

// ---- The Python module ------------------------------------------------------------------------------------------------------

NB_MODULE(_bridge, module) {
  if (_import_array() < 0) throw nb::python_error();
  // What a daemon thread holds when the interpreter ends is no mistake; that nothing leaks, the tests see in the counters.
  nb::set_leak_warnings(false);

  nb::class_<State>(module, "State", nb::is_weak_referenceable())
      .def(nb::init<nb::object, nb::str, nb::object, std::vector<int>, size_t,
                    std::vector<std::tuple<int, bool, std::vector<int64_t>>>,
                    std::vector<std::tuple<int, bool, std::vector<int64_t>>>, size_t, bool>(),
           nb::arg("instance"), nb::arg("method"), nb::arg("lock").none(), nb::arg("outputs"), nb::arg("results"),
           nb::arg("takes"), nb::arg("gives"), nb::arg("symbols"), nb::arg("copy_inputs"))
      .def_prop_ro("instance", [](const State& s) { return nb::borrow(s.instance); })
      .def_ro("outputs", &State::outputs)
      .def_ro("results", &State::results)
      .def_ro("copies", &State::copies);

  nb::class_<Attrs>(module, "Attrs").def("read", &Attrs::read, nb::arg("name"), nb::arg("kind"));

  module.def("configure", [](nb::object half, std::vector<std::tuple<int, nb::object, int>> rows) {
    for (auto& [type, numpy, bits] : rows) {
      if (type <= 0 || type >= 64 || !PyArray_DescrCheck(numpy.ptr())) throw nb::value_error("no such dtype");
      dtypes[type] = {reinterpret_cast<PyArray_Descr*>(numpy.release().ptr()), bits};
    }
    Py_XSETREF(hooks, half.release().ptr());
  });
  module.def("widen", [](nb::object rows) {  // for options on which a bare session's ops are registered already
    for (const Signature& one : signatures(rows))
      if (ops.count({one.domain, one.type})) widen(one);
  });
  module.def("set_epoch", [](uint64_t epoch) { global_epoch = std::max(global_epoch, epoch); });
  module.def("begin", [](uint64_t epoch) {
    waiting = newest = new Run{waiting, newest, epoch};
    epochs_in_flight.push_back(epoch);
    ++live_runs;
  });
  module.def("end", []() {
    Run* run = waiting;
    if (!run) throw nb::value_error("no run to end");
    waiting = run->outer;
    newest = run->below;
    epochs_in_flight.erase(std::find(epochs_in_flight.begin(), epochs_in_flight.end(), run->epoch));
    --live_runs;
    nb::object error = run->error ? nb::steal(run->error) : nb::none();
    nb::object escaped = run->escaped ? nb::steal(run->escaped) : nb::none();
    delete run;
    return std::make_tuple(error, escaped);
  });
  module.def("oldest_epoch", [] {
    auto oldest = std::min_element(epochs_in_flight.begin(), epochs_in_flight.end());
    return oldest == epochs_in_flight.end() ? global_epoch : std::min(*oldest, global_epoch);
  });
  module.def("runs_in_flight", [] { return live_runs; });
  module.def("forget_other_threads", [] {  // after a fork: their runs do not exist in this process
    long own = 0;
    epochs_in_flight.clear();
    for (Run* run = newest; run; run = run->below, ++own) epochs_in_flight.push_back(run->epoch);
    live_runs = own;
  });
  module.def("keep_for_ever", [](nb::object one) { one.inc_ref(); });
  module.def("close", [] {
    closer = std::this_thread::get_id();
    closing = true;
    for (Kernel* kernel = kernels; kernel; kernel = kernel->next) let_go(*kernel);
  });
  module.def("counters", [] {
    nb::dict all;
    all["kernels"] = live_kernels;
    all["states"] = live_states;
    all["runs"] = live_runs;
    all["escapes"] = escapes;
    return all;
  });
}
