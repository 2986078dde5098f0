// The bridge: one shared library that is a Python module and a custom-op library of ONNX Runtime at
// once.
//
// ONNX Runtime calls create, infer, compute and destroy below, and they call Python. Beside this
// file: boundary.h (what all parts use), runs.h (what a waiting session wants to know), call.h (one
// call of compute), native_call.h (one of a compiled function), tensors.h (tensors as arrays and
// back), escape.h (the memory of inputs that were kept), references.h (what reference counts say),
// attrs.h (attributes that only ONNX Runtime has) and, in ../../compile/include, onnxruntime_abi.h
// and pyopnb_call.h (the C interfaces of ONNX Runtime and of compiled functions). The rules of this
// boundary:
//
// Memory. ONNX Runtime owns the memory of inputs and outputs. An input reaches Python as a
// read-only array over that memory, valid during the call; the first call of a version in a kernel
// gets copies instead. After each call, the reference count of a view says exactly whether
// something still reaches it. If so, the run fails and the memory stays (escape.h). If not, the
// array object is kept, and points at the input of the next call. Results are copied into outputs.
//
// Owners. Python objects are owned by nanobind's references. A State is a Python object, and
// releases its references when Python deallocates it. A Kernel releases its own when ONNX Runtime
// destroys it, or before the interpreter ends. All others are Refs on a callback's stack, which
// leak if the interpreter is ending.
//
// GIL. ONNX Runtime holds it while it creates or registers, and not while it runs. A callback takes
// it once, before it touches anything, and releases it at its end, while it copies large results,
// and while a compiled function runs. It guards all state that is not atomic.
//
// No GIL. A free-threaded interpreter has none, and the module declares that it needs none. There,
// nanobind's ft_mutex is a lock, which is nothing elsewhere: `tables` for the state of the process
// (runs, kernels, memory that is kept), `offering` for the ops that are offered to ONNX Runtime,
// and one in each Kernel and State. A lock is held for a few instructions that call nothing in
// Python; of two locks, `tables` is taken first. references.h says what reference counts mean
// there. Not guarded: options that are registered a second time, with more ops, while another
// thread makes a session from options with the same ops as before. Both have one domain object,
// which ONNX Runtime reads.
//
// Errors. A function that fails throws nb::python_error, which carries the Python exception to the
// callback. The callback stores the exception in the Run of the waiting pyopnb.Session, which
// raises it again, and returns an OrtStatus with its text. No exception of either language leaves a
// callback. KernelDestroy cannot return a status; if an op's __del__ raises there, Python reports
// it as unraisable.
//
// Exit. Once the interpreter finalizes, CPython ends a thread that asks for the GIL by unwinding
// its stack. That unwinding must not meet the catch (...) of ONNX Runtime or nanobind, so it is
// caught here, and the thread sleeps until the process is gone. A callback that comes later returns
// without touching Python.
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <numpy/arrayobject.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "attrs.h"
#include "boundary.h"
#include "call.h"
#include "native_call.h"
#include "runs.h"
#include "tensors.h"

using namespace pyopnb;

namespace {

bool api_loaded = false;

constexpr const char* kMarker = "pyopnb_node";
// The number of a domain's name is appended: the number of the domain object.
constexpr const char* kDomainConfig = "pyopnb.domain.";

// Runs a callback's body with the GIL. The Python exception that it raises becomes a status, whose
// text tells the facts of the kernel and state in `where`; the exception itself goes to the session
// that waits.
struct Where {
  Ref kernel, state;
  ort::KernelContext* context = nullptr;
};

// The element types and dimensions of the inputs of a call, None for one that is left out.
nb::list call_types(ort::KernelContext* context) {
  nb::list types;
  size_t count = 0;
  if (context) check(api.KernelContext_GetInputCount(context, &count));
  for (size_t i = 0; i < count; ++i) {
    const ort::Value* value = nullptr;
    check(api.KernelContext_GetInput(context, i, &value));
    if (!value) {
      types.append(nb::none());
      continue;
    }
    Tensor tensor(value);
    nb::list dims;
    for (size_t axis = 0; axis < tensor.rank; ++axis) dims.append(tensor.dims[axis]);
    types.append(nb::make_tuple(tensor.type, nb::tuple(dims)));
  }
  return types;
}

// The status that tells an exception and those facts.
ort::Status* status_of(const Ref& error, const Where& where) {
  auto or_none = [](const Ref& ref) { return ref.is_valid() ? ref.ptr() : Py_None; };
  Ref text;
  const char* utf8 = nullptr;
  nb::list types;
  // An input that NumPy cannot have is what the exception tells.
  error_of([&] { types = call_types(where.context); });
  error_of([&] {
    text = own(PyObject_CallMethod(hooks.ptr(), "failed", "OOOO", or_none(where.kernel),
                                   or_none(where.state), types.ptr(), error.ptr()));
    check((utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), nullptr)) != nullptr);
  });
  return api.CreateStatus(ort::kFail, utf8 ? utf8 : "an exception that cannot be described");
}

template <typename Body>
ort::Status* with_python(Body body) {
  return at_the_boundary([&]() -> ort::Status* {
    Gil gil;
    Where where;
    UserCode user_code;
    Ref error = error_of([&] { body(user_code, where); });
    if (!error.is_valid()) return nullptr;
    ort::Status* status = status_of(error, where);
    Run* run = user_code.run();
    if (run) run->note(std::move(error));
    return status;
  });
}

// ---- compute ------------------------------------------------------------------------------------

// The state that serves runs of that epoch.
Ref state_for(Kernel& kernel, const Ref& half, uint64_t epoch) {
  if (Ref known = kernel.state_of(epoch); known.is_valid()) return known;
  Ref state =
      own(PyObject_CallMethod(half.ptr(), "at", "K", static_cast<unsigned long long>(epoch)));
  if (!nb::isinstance<State>(state)) fail(PyExc_SystemError, "Kernel.at did not give a State");
  // Not in a destructor, as in Kernel::clear; what it runs may come back here.
  Py_XDECREF(kernel.keep(state, epoch).release().ptr());
  return state;
}

ort::Status* compute(void* pointer, ort::KernelContext* context) {
  return with_python([&](UserCode& code, Where& where) {
    Kernel& kernel = *static_cast<Kernel*>(pointer);
    Run* run = code.run();
    where.context = context;
    // The session may be dropped inside compute; ONNX Runtime keeps the kernel, this keeps its
    // Python half.
    where.kernel = kernel.share(kernel.half);
    if (!where.kernel.is_valid()) fail(PyExc_RuntimeError, "pyopnb: the interpreter is exiting");
    if (code.depth() > kDeepest + 1)
      fail(PyExc_RecursionError,
           "runs are nested %d deep: compute runs a session whose op runs a session", kDeepest);
    if (code.depth() > 1 && !has_stack(kStackOfNested))
      fail(PyExc_RecursionError,
           "runs are nested %d deep, and the stack of this thread has no room for one more. Try: "
           "threading.stack_size(8 << 20) before the thread is made",
           code.depth() - 1);
    check(PyErr_CheckSignals() == 0);
    where.state = state_for(kernel, where.kernel, run ? run->epoch : current_epoch());
    State& state = *nb::inst_ptr<State>(where.state);
    if (state.native.function && NativeCall(kernel, where.state, context)()) return;
    Call(kernel, where.state, state, context, run)();
  });
}

// ---- create and destroy -------------------------------------------------------------------------

struct Op : ort::CustomOp {
  std::string domain, type;
  std::atomic<size_t> inputs = 1, outputs = 1, required = 0;
  // Element types of outputs whose rank is unknown, which InferOutputShapeFn cannot say; 0: it can.
  std::vector<int> fixed;
};

// The types of a node's inputs or outputs, None for other values and omitted ones.
template <typename Get>
nb::list kernel_types(size_t count, const ort::KernelInfo* info, Get get) {
  nb::list types;
  for (size_t i = 0; i < count; ++i) {
    ort::TypeInfo* type = nullptr;
    const ort::TensorInfo* tensor = nullptr;
    bool none = absent(get(info, i, &type)) || !type;
    std::unique_ptr<ort::TypeInfo, void (*)(ort::TypeInfo*)> owner(type, api.ReleaseTypeInfo);
    none = none || absent(api.CastTypeInfoToTensorInfo(type, &tensor)) || !tensor;
    types.append(none ? Ref(nb::none()) : type_to_python(tensor));
  }
  return types;
}

// The plan of the session that is being built on this thread; None for a bare one.
nb::handle plan_of(const UserCode& code) {
  return code.run() ? code.run()->plan : nb::handle(Py_None);
}

std::string node_name(const ort::KernelInfo* info) {
  size_t size = 0;  // with the zero at the end
  if (absent(api.KernelInfo_GetNodeName(info, nullptr, &size)) || !size) return "";
  std::string name(size, '\0');
  check(api.KernelInfo_GetNodeName(info, name.data(), &size));
  return name.c_str();
}

Ref make_half(const Op& op, const ort::KernelInfo* info, nb::handle plan) {
  int64_t marker = -1;
  size_t inputs = 0, outputs = 0;
  absent(api.KernelInfoGetAttribute_int64(info, kMarker, &marker));
  check(api.KernelInfo_GetInputCount(info, &inputs));
  check(api.KernelInfo_GetOutputCount(info, &outputs));
  Ref input_types = kernel_types(inputs, info, api.KernelInfo_GetInputTypeInfo);
  Ref output_types = kernel_types(outputs, info, api.KernelInfo_GetOutputTypeInfo);
  AttrsReader reader(Attrs(info, nullptr));
  return own(PyObject_CallMethod(hooks.ptr(), "make_kernel", "ssLsOOOO", op.domain.c_str(),
                                 op.type.c_str(), static_cast<long long>(marker),
                                 node_name(info).c_str(), input_types.ptr(), output_types.ptr(),
                                 reader.ptr(), plan.ptr()));
}

ort::Status* create(const ort::CustomOp* op, const void*, const ort::KernelInfo* info,
                    void** kernel) {
  return with_python([&](UserCode& code, Where&) {
    Ref half = make_half(*static_cast<const Op*>(op), info, plan_of(code));
    Arena arena = arena_of(info);
    std::list<Kernel> alone;
    Kernel& made = alone.emplace_front();
    made.self = alone.begin();
    made.arena = std::move(arena);
    made.half = std::move(half);
    nb::ft_lock_guard guard(tables);
    kernels.splice(kernels.begin(), alone);
    *kernel = &made;
  });
}

void destroy(void* pointer) {
  // With the interpreter gone, its objects are gone or must not be touched; closing has cleared the
  // references before.
  if (!pointer || closing || !python_is_up()) return;
  ort::Status* status = at_the_boundary([&]() -> ort::Status* {
    Gil gil;
    // A session may be dropped while an exception travels, which what goes with the kernel must not
    // replace.
    PendingError pending;
    std::list<Kernel> gone;
    {
      nb::ft_lock_guard guard(tables);
      gone.splice(gone.begin(), kernels, static_cast<Kernel*>(pointer)->self);
    }
    gone.front().clear();
    return nullptr;
  });
  // Only where the interpreter ends meanwhile; ONNX Runtime takes no status here.
  if (status) api.ReleaseStatus(status);
}

// ---- infer --------------------------------------------------------------------------------------

nb::list input_types(ort::ShapeContext* context) {
  size_t count = 0;
  check(api.ShapeInferContext_GetInputCount(context, &count));
  nb::list types;
  for (size_t i = 0; i < count; ++i) {
    ort::TensorInfo* tensor = nullptr;  // the context owns it
    int type = 0;
    bool none = absent(api.ShapeInferContext_GetInputTypeShape(context, i, &tensor)) || !tensor ||
                absent(api.GetTensorElementType(tensor, &type)) || type == 0;
    types.append(none ? Ref(nb::none()) : type_to_python(tensor));
  }
  return types;
}

void set_output(ort::ShapeContext* context, size_t output, int type, nb::handle shape) {
  std::vector<int64_t> dims;
  std::vector<const char*> names;
  for (nb::handle dim : shape) {
    bool is_name = nb::isinstance<nb::str>(dim);
    dims.push_back(is_name ? -1 : nb::cast<int64_t>(dim));
    names.push_back(is_name ? nb::borrow<nb::str>(dim).c_str() : "");
  }
  ort::TensorInfo* info = nullptr;
  check(api.CreateTensorTypeAndShapeInfo(&info));
  std::unique_ptr<ort::TensorInfo, void (*)(ort::TensorInfo*)> owner(
      info, api.ReleaseTensorTypeAndShapeInfo);
  check(api.SetTensorElementType(info, type));
  check(api.SetDimensions(info, dims.data(), dims.size()));
  check(api.SetSymbolicDimensions(info, names.data(), names.size()));
  check(api.ShapeInferContext_SetOutputTypeShape(context, output, info));
}

void infer_outputs(const Op& op, ort::ShapeContext* context, nb::handle plan) {
  const ort::OpAttr* attr = nullptr;
  int64_t marker = -1;
  size_t size = 0;
  if (!absent(api.ShapeInferContext_GetAttribute(context, kMarker, &attr)) && attr)
    absent(api.ReadOpAttr(attr, ort::kInt, &marker, sizeof marker, &size));
  Ref inputs = input_types(context);
  AttrsReader reader(Attrs(nullptr, context));
  Ref types = own(PyObject_CallMethod(hooks.ptr(), "infer", "ssLOOO", op.domain.c_str(),
                                      op.type.c_str(), static_cast<long long>(marker), inputs.ptr(),
                                      reader.ptr(), plan.ptr()));
  size_t output = 0;
  for (nb::handle type : types) {  // (element type, dims), or None where nothing can be said
    if (!type.is_none()) set_output(context, output, nb::cast<int>(type[0]), type[1]);
    ++output;
  }
}

ort::Status* infer(const ort::CustomOp* op, ort::ShapeContext* context) {
  ort::Status* status = with_python([&](UserCode& code, Where&) {
    infer_outputs(*static_cast<const Op*>(op), context, plan_of(code));
  });
  // ONNX Runtime neither heeds nor frees it. The exception has gone to the session that waits; a
  // bare session meets it again when the kernel is made.
  if (status) api.ReleaseStatus(status);
  return nullptr;
}

// ---- Registration -------------------------------------------------------------------------------

// Sessions copy pointers to ops and call through them until they die, so ops live as long as the
// process: one for each domain and type ever used. ONNX Runtime reads them for each session, so
// widening one changes later sessions only. The tables are never destroyed, not even when the
// process ends: onnxruntime may outlive this library's statics. Guards all of it; ONNX Runtime
// calls nothing of ours back while something is added.
nb::ft_mutex offering;
auto& ops = *new std::map<std::pair<std::string, std::string>, std::unique_ptr<Op>>;
struct Offer {
  ort::Domain* domain = nullptr;
  std::string key;            // its name and ops; empty once it has got more
  std::set<std::string> ops;  // their types
};
auto& offers = *new std::vector<Offer>;
auto& offer_numbers = *new std::map<std::string, size_t>;   // by key
auto& domain_numbers = *new std::map<std::string, size_t>;  // by name
// Names that ONNX Runtime has read: what an op costs every session it is offered to.
std::atomic<size_t> names_read = 0;

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
  op->GetName = [](const ort::CustomOp* o) {
    ++names_read;
    return static_cast<const Op*>(o)->type.c_str();
  };
  op->GetExecutionProviderType = [](const ort::CustomOp*) -> const char* { return nullptr; };
  op->GetInputType = always<ort::kUndefined>;
  op->GetOutputType = [](const ort::CustomOp* o, size_t i) -> int {
    nb::ft_lock_guard guard(offering);
    auto& fixed = static_cast<const Op*>(o)->fixed;
    return i < fixed.size() ? fixed[i] : ort::kUndefined;
  };
  op->GetInputTypeCount = [](const ort::CustomOp* o) {
    return static_cast<const Op*>(o)->inputs.load();
  };
  op->GetOutputTypeCount = [](const ort::CustomOp* o) {
    return static_cast<const Op*>(o)->outputs.load();
  };
  op->GetInputCharacteristic = [](const ort::CustomOp* o, size_t i) -> int {
    return i < static_cast<const Op*>(o)->required ? ort::kSingle : ort::kOptional;
  };
  op->GetOutputCharacteristic = always<ort::kOptional>;
  op->GetInputMemoryType = always<0>;
  op->GetVariadicInputMinArity =
      op->GetVariadicInputHomogeneity = [](const ort::CustomOp*) { return 0; };
  op->GetVariadicOutputMinArity =
      op->GetVariadicOutputHomogeneity = [](const ort::CustomOp*) { return 0; };
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
  op.inputs = std::max(op.inputs.load(), wanted.inputs);
  op.outputs = std::max(op.outputs.load(), wanted.outputs);
  op.required = wanted.required;
  op.fixed = wanted.fixed;
}

void add_ops(Offer& offer, const std::string& name, const std::vector<std::string>& types) {
  for (const std::string& type : types) {
    if (offer.ops.count(type)) continue;
    check(api.CustomOpDomain_Add(offer.domain, &op_named(name, type)));
    offer.ops.insert(type);
  }
}

// The number of a domain object that offers these ops and no others: a session pays for each op
// that it is offered, used or not, and overriding a standard op is no small thing.
size_t offer_of(const std::string& name, const std::vector<std::string>& types) {
  std::string key = name;
  for (const std::string& type : types) key += "\n" + type;
  auto known = offer_numbers.find(key);
  if (known != offer_numbers.end()) return known->second;
  Offer made;
  made.key = key;
  check(api.CreateCustomOpDomain(name.c_str(), &made.domain));
  add_ops(made, name, types);
  offers.push_back(std::move(made));
  return offer_numbers[key] = offers.size() - 1;
}

// The options themselves remember what was added to them: a domain may be added once, and an
// address alone would be used again. The key has the address too, as a copy of options, such as a
// session gives, has their entries and not their domains.
bool has_entry(const ort::Options* options, const std::string& key, std::string* text = nullptr) {
  size_t size = 0;  // with the zero at the end
  if (absent(api.GetSessionConfigEntry(options, key.c_str(), nullptr, &size))) return false;
  std::string value(size, '\0');
  check(api.GetSessionConfigEntry(options, key.c_str(), value.data(), &size));
  if (text) *text = value.c_str();
  return true;
}

void add_offer(ort::Options* options, size_t number, const std::string& key,
               const std::string& value) {
  check(api.AddCustomOpDomain(options, offers[number].domain));
  check(api.AddSessionConfigEntry(options, key.c_str(), value.c_str()));
}

// Options cannot have a domain twice, nor lose one: where pyopnb is registered again, the domain of
// theirs gets the ops that it lacks. So do other options that have the same.
void attach_domain(ort::Options* options, const std::string& domain,
                   const std::vector<std::string>& types) {
  size_t name = domain_numbers.emplace(domain, domain_numbers.size()).first->second, number = 0;
  std::string key = kDomainConfig + std::to_string(name) + "." +
                    std::to_string(reinterpret_cast<uintptr_t>(options));
  std::string text;
  if (has_entry(options, key, &text)) number = std::strtoul(text.c_str(), nullptr, 10);
  if (text.empty() || number >= offers.size()) {
    number = offer_of(domain, types);
    return add_offer(options, number, key, std::to_string(number));
  }
  Offer& offer = offers[number];
  bool has_all = std::all_of(types.begin(), types.end(),
                             [&](const std::string& type) { return offer.ops.count(type) > 0; });
  if (has_all) return;
  offer_numbers.erase(offer.key);  // other options are to have just the ops that they ask for
  offer.key.clear();
  add_ops(offer, domain, types);
}

void attach(ort::Options* options, const std::vector<Signature>& wanted) {
  nb::ft_lock_guard guard(offering);
  std::map<std::string, std::vector<std::string>> by_domain;
  for (const Signature& one : wanted) {
    widen(one);
    by_domain[one.domain].push_back(one.type);
  }
  for (auto& [domain, types] : by_domain) {
    std::sort(types.begin(), types.end());
    attach_domain(options, domain, types);
  }
}

std::vector<Signature> signatures(nb::handle rows) {
  std::vector<Signature> made;
  for (nb::handle row : rows)
    made.push_back({nb::cast<std::string>(row[0]), nb::cast<std::string>(row[1]),
                    nb::cast<size_t>(row[2]), nb::cast<size_t>(row[3]), nb::cast<size_t>(row[4]),
                    nb::cast<std::vector<int>>(row[5])});
  return made;
}

// ---- The end of the interpreter -----------------------------------------------------------------

void sleep_without_gil(double seconds) {
  Py_BEGIN_ALLOW_THREADS std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  Py_END_ALLOW_THREADS
}

// Waits that many seconds for runs of other threads at most, and then `last` seconds for those that
// have just left compute: they can only be stopped when they have returned to Python. In C++, as an
// interrupt must not end it early.
void close_bridge(double drain, double last) {
  auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(drain);
  // A run needs the GIL to come to its end.
  while (runs_in_flight() && std::chrono::steady_clock::now() < until) sleep_without_gil(0.005);
  closer = std::this_thread::get_id();
  closing = true;  // from here on, threads stay in compute
  for (PyObject* object : objects_of_kernels()) Py_XDECREF(object);
  if (live_kernels()) sleep_without_gil(last);
}

}  // namespace

extern "C" PYOPNB_EXPORT ort::Status* RegisterCustomOps(ort::Options* options,
                                                        const ort::ApiBase* base) {
  if (closing || !python_is_up()) return ort::refusal(base, "pyopnb: the interpreter is exiting");
  bool loaded = survive_exit([&] {
    Gil gil;
    nb::ft_lock_guard guard(tables);
    return api_loaded = api_loaded || api.load(base);
  });
  if (!loaded)
    return ort::refusal(base,
                        "pyopnb needs onnxruntime 1.25 or newer. Try: pip install -U onnxruntime");
  return with_python([&](UserCode& code, Where&) {
    Ref wanted = own(PyObject_CallMethod(hooks.ptr(), "signatures", "O", plan_of(code).ptr()));
    attach(options, signatures(wanted));
  });
}

// ---- The Python module --------------------------------------------------------------------------

NB_MODULE(_bridge, module) {
  if (_import_array() < 0) throw nb::python_error();
  // What a daemon thread holds when the interpreter ends is no mistake; that nothing leaks, the
  // tests see in the counters.
  nb::set_leak_warnings(false);

  nb::class_<State>(module, "State", nb::is_weak_referenceable())
      .def(nb::init<nb::object, nb::str, nb::object, std::vector<int>, size_t,
                    std::vector<ShapeRow>, std::vector<ShapeRow>, size_t, bool, nb::handle>(),
           nb::arg("instance"), nb::arg("method"), nb::arg("lock").none(), nb::arg("outputs"),
           nb::arg("results"), nb::arg("input_shapes"), nb::arg("output_shapes"),
           nb::arg("symbols"), nb::arg("copy_inputs"), nb::arg("native").none() = nb::none())
      .def_ro("instance", &State::instance)
      .def_ro("outputs", &State::outputs)
      .def_ro("results", &State::results)
      .def_prop_rw(
          "copies", [](const State& state) { return state.copies.load(); },
          [](State& state, bool copies) { state.copies = copies; })
      .def_prop_ro("compiled", [](const State& state) { return state.native.function != nullptr; });

  nb::class_<EscapedMemory>(module, "EscapedMemory");

  nb::class_<Attrs>(module, "Attrs").def("read", &Attrs::read, nb::arg("name"), nb::arg("kind"));

  module.def("configure", [](nb::object half, std::vector<std::tuple<int, nb::object, int>> rows,
                             std::array<uintptr_t, 2> functions) {
    for (auto& [type, numpy, bits] : rows) {
      if (type <= 0 || type >= 64 || !PyArray_DescrCheck(numpy.ptr()))
        throw nb::value_error("no such dtype");
      dtypes[type] = {reinterpret_cast<PyArray_Descr*>(numpy.release().ptr()), bits};
    }
    is_finalizing = reinterpret_cast<int (*)()>(functions[0]);
    holds_gil = reinterpret_cast<int (*)()>(functions[1]);
    registry = nb::object(nb::getattr(half, "registry"));
    hooks = std::move(half);
  });
  // For options on which a bare session's ops are registered already.
  module.def("widen", [](nb::object rows) {
    std::vector<Signature> wanted = signatures(rows);
    nb::ft_lock_guard guard(offering);
    for (const Signature& signature : wanted)
      if (ops.count({signature.domain, signature.type})) widen(signature);
  });
  module.def("oldest_epoch", oldest_epoch);
  module.def("run", run, nb::arg("epoch"), nb::arg("function"), nb::arg("arguments"),
             nb::arg("feeds").none() = nb::none(), nb::arg("plan").none() = nb::none(),
             nb::arg("shrinks") = false);
  module.def("locked", locked);
  module.def("kept_by", [] {
    nb::ft_lock_guard guard(tables);
    std::vector<uintptr_t> ids;
    for (const PyObject* kernel : kept_by) ids.push_back(reinterpret_cast<uintptr_t>(kernel));
    return ids;
  });
  module.def("runs_in_flight", runs_in_flight);
  module.def("forget_other_threads", forget_other_threads);
  module.def("names_read", [] { return names_read.load(); });
  module.def("keep_for_ever", [](nb::object object) { object.inc_ref(); });
  module.def("close", close_bridge, nb::arg("drain"), nb::arg("last"));
  module.def("counters", [] {
    nb::dict counters;
    counters["kernels"] = live_kernels();
    counters["states"] = live_states.load();
    counters["runs"] = runs_in_flight();
    counters["escapes"] = escapes.load();
    return counters;
  });
}
