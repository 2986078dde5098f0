// Ops in C++ as a custom-op library of ONNX Runtime that needs nothing else: no pyopnb and no
// Python. pyopnb.write_library compiles it with a table of the ops, `library_ops`, and their
// functions.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "onnxruntime_abi.h"
#include "pyopnb.h"

#ifdef __linux__
// ONNX Runtime unloads the library. Where no compiler of the system is installed, zig links no code
// that destroys the globals then: the process would do so when it exits, and crash.
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;
extern "C" void __cxa_finalize(void*);
__attribute__((destructor)) static void destroy_globals() { __cxa_finalize(&__dso_handle); }
#endif

namespace pyopnb {

struct LibraryPort {
  int dtype;
  int characteristic;  // 0 required, 1 optional, 2 variadic
};

struct LibraryAttr {
  const char* name;
  int32_t kind;
  bool list, required;
  std::vector<int64_t> ints;  // the default, or the node's value
  std::vector<double> floats;
  std::string text;

  pyopnb_attr row() const {
    if (kind == PYOPNB_TEXT) return {text.c_str(), static_cast<int64_t>(text.size()), kind};
    if (kind == PYOPNB_FLOAT) return {floats.data(), static_cast<int64_t>(floats.size()), kind};
    return {ints.data(), static_cast<int64_t>(ints.size()), kind};
  }
};

struct LibraryOp : ort::CustomOp {
  std::string domain, type;
  std::vector<LibraryPort> inputs, outputs;
  std::vector<LibraryAttr> attrs;
  pyopnb_function function;
};

inline ort::Api ort_api;

// False where the node has no such attribute.
inline bool has(ort::Status* status) {
  if (status) ort_api.ReleaseStatus(status);
  return !status;
}

inline bool read_attr(const ort::KernelInfo* info, LibraryAttr& attr) {
  const ort::Api& api = ort_api;
  size_t size = 0;
  if (attr.kind == PYOPNB_TEXT) {
    if (!has(api.KernelInfoGetAttribute_string(info, attr.name, nullptr, &size)) || !size)
      return false;
    attr.text.resize(size);  // with the zero at the end
    if (!has(api.KernelInfoGetAttribute_string(info, attr.name, attr.text.data(), &size)))
      return false;
    attr.text.resize(size - 1);
    return true;
  }
  if (attr.kind == PYOPNB_FLOAT) {
    std::vector<float> values(1);
    if (!attr.list) {
      if (!has(api.KernelInfoGetAttribute_float(info, attr.name, values.data()))) return false;
    } else {
      if (!has(api.KernelInfoGetAttributeArray_float(info, attr.name, nullptr, &size)))
        return false;
      values.resize(size);
      if (!has(api.KernelInfoGetAttributeArray_float(info, attr.name, values.data(), &size)))
        return false;
    }
    attr.floats.assign(values.begin(), values.end());
    return true;
  }
  std::vector<int64_t> values(1);
  if (!attr.list) {
    if (!has(api.KernelInfoGetAttribute_int64(info, attr.name, values.data()))) return false;
  } else {
    if (!has(api.KernelInfoGetAttributeArray_int64(info, attr.name, nullptr, &size))) return false;
    values.resize(size);
    if (!has(api.KernelInfoGetAttributeArray_int64(info, attr.name, values.data(), &size)))
      return false;
  }
  attr.ints = values;
  return true;
}

struct LibraryKernel {
  const LibraryOp& op;
  std::vector<LibraryAttr> attrs;
  std::vector<pyopnb_attr> rows;
};

class LibraryCall : private pyopnb_call {
 public:
  LibraryCall(const LibraryKernel& kernel, ort::KernelContext* context)
      : pyopnb_call{}, kernel_(kernel), context_(context) {
    pyopnb_call::version = PYOPNB_CALL_VERSION;
    output_count = static_cast<int32_t>(kernel.op.outputs.size());
    attrs = kernel.rows.data();
    attr_count = static_cast<int32_t>(kernel.rows.size());
    output = [](pyopnb_call* call, int32_t index, int32_t dtype, const int64_t* shape,
                int32_t rank) {
      return static_cast<LibraryCall*>(call)->memory_for(index, dtype, shape, rank);
    };
    fail = [](pyopnb_call* call, int32_t, const char* text) {
      static_cast<LibraryCall*>(call)->text_ = text;
    };
  }

  ort::Status* operator()() {
    const ort::Api& api = ort_api;
    size_t count = 0;
    if (ort::Status* status = api.KernelContext_GetInputCount(context_, &count)) return status;
    tensors_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const ort::Value* value = nullptr;
      if (ort::Status* status = api.KernelContext_GetInput(context_, i, &value)) return status;
      if (!value) continue;
      pyopnb_tensor& tensor = tensors_[i];
      size_t rank = 0;
      int dtype = 0;
      void* memory = nullptr;
      if (ort::Status* status =
              api.GetTensorElementTypeAndShapeDataReference(value, &dtype, &tensor.shape, &rank))
        return status;
      if (ort::Status* status = api.GetTensorMutableData(const_cast<ort::Value*>(value), &memory))
        return status;
      tensor.data = memory;
      tensor.rank = static_cast<int32_t>(rank);
      tensor.dtype = dtype;
    }
    inputs = tensors_.data();
    input_count = static_cast<int32_t>(count);
    int32_t answer = kernel_.op.function(this);
    if (status_) return status_;
    if (answer == PYOPNB_DONE && made_.size() == kernel_.op.outputs.size()) return nullptr;
    if (text_.empty()) text_ = "the function did not allocate each of its outputs once";
    return api.CreateStatus(ort::kFail,
                            (kernel_.op.domain + "::" + kernel_.op.type + ": " + text_).c_str());
  }

 private:
  void* memory_for(int32_t index, int32_t dtype, const int64_t* shape, int32_t rank) {
    const ort::Api& api = ort_api;
    ort::Value* value = nullptr;
    void* memory = nullptr;
    if (index < 0 || index >= output_count || made_.count(index) ||
        dtype != kernel_.op.outputs[index].dtype ||
        std::any_of(shape, shape + rank, [](int64_t dim) { return dim < 0; }))
      return nullptr;
    std::vector<char>& unwanted = made_[index];
    size_t known = 0;
    if ((status_ = api.KernelContext_GetOutputCount(context_, &known))) return nullptr;
    if (static_cast<size_t>(index) < known &&
        (status_ = api.KernelContext_GetOutput(context_, index, shape, static_cast<size_t>(rank),
                                               &value)))
      return nullptr;
    if (value && (status_ = api.GetTensorMutableData(value, &memory))) return nullptr;
    // An output that the node leaves out, or an empty one, which may have no memory.
    if (!memory)
      unwanted.resize(8 * std::max<int64_t>(Shape(shape, rank).elements(), 8)),
          memory = unwanted.data();
    return memory;
  }

  const LibraryKernel& kernel_;
  ort::KernelContext* context_;
  std::vector<pyopnb_tensor> tensors_;
  std::map<int32_t, std::vector<char>> made_;
  ort::Status* status_ = nullptr;
  std::string text_;
};

inline ort::Status* create_kernel(const ort::CustomOp* op, const void*, const ort::KernelInfo* info,
                                  void** made) {
  auto& library_op = *static_cast<const LibraryOp*>(op);
  auto kernel = std::make_unique<LibraryKernel>(LibraryKernel{library_op, library_op.attrs, {}});
  for (LibraryAttr& attr : kernel->attrs) {
    if (!read_attr(info, attr) && attr.required) {
      std::string text = library_op.domain + "::" + library_op.type +
                         ": the node lacks the attribute " + attr.name;
      return ort_api.CreateStatus(ort::kFail, text.c_str());
    }
    kernel->rows.push_back(attr.row());
  }
  *made = kernel.release();
  return nullptr;
}

inline void fill_in(LibraryOp& op) {
  op.version = ort::kOpVersion;
  op.GetName = [](const ort::CustomOp* o) {
    return static_cast<const LibraryOp*>(o)->type.c_str();
  };
  op.GetExecutionProviderType = [](const ort::CustomOp*) -> const char* { return nullptr; };
  op.GetInputType = [](const ort::CustomOp* o, size_t i) {
    return static_cast<const LibraryOp*>(o)->inputs[i].dtype;
  };
  op.GetInputTypeCount = [](const ort::CustomOp* o) {
    return static_cast<const LibraryOp*>(o)->inputs.size();
  };
  op.GetOutputType = [](const ort::CustomOp* o, size_t i) {
    return static_cast<const LibraryOp*>(o)->outputs[i].dtype;
  };
  op.GetOutputTypeCount = [](const ort::CustomOp* o) {
    return static_cast<const LibraryOp*>(o)->outputs.size();
  };
  op.GetInputCharacteristic = [](const ort::CustomOp* o, size_t i) {
    return static_cast<const LibraryOp*>(o)->inputs[i].characteristic;
  };
  op.GetOutputCharacteristic = [](const ort::CustomOp*, size_t i) {
    return i ? int{ort::kOptional} : int{ort::kSingle};
  };
  op.GetInputMemoryType = [](const ort::CustomOp*, size_t) { return 0; };
  op.GetVariadicInputMinArity = [](const ort::CustomOp*) { return 0; };
  op.GetVariadicInputHomogeneity =
      op.GetVariadicOutputHomogeneity = [](const ort::CustomOp*) { return 1; };
  op.GetVariadicOutputMinArity = [](const ort::CustomOp*) { return 1; };
  op.CreateKernelV2 = create_kernel;
  op.KernelComputeV2 = [](void* kernel, ort::KernelContext* context) {
    return LibraryCall(*static_cast<LibraryKernel*>(kernel), context)();
  };
  op.KernelDestroy = [](void* kernel) { delete static_cast<LibraryKernel*>(kernel); };
  op.GetStartVersion = [](const ort::CustomOp*) { return 1; };
  op.GetEndVersion = [](const ort::CustomOp*) { return 0x7fffffff; };
  op.GetMayInplace = op.GetAliasMap = [](int**, int**) -> size_t { return 0; };
  op.ReleaseMayInplace = op.ReleaseAliasMap = [](int*, int*) {};
}

using Domains = std::map<std::string, ort::Domain*>;

inline ort::Status* fill_domains(std::vector<LibraryOp>& ops, Domains& domains) {
  for (LibraryOp& op : ops) {
    fill_in(op);
    ort::Domain*& domain = domains[op.domain];
    if (!domain)
      if (ort::Status* status = ort_api.CreateCustomOpDomain(op.domain.c_str(), &domain))
        return status;
    if (ort::Status* status = ort_api.CustomOpDomain_Add(domain, &op)) return status;
  }
  return nullptr;
}

// The ops and their domains live as long as the process: sessions keep pointers to them. Several
// threads may register the library at once. Domains that lack an op after a failure are never
// offered, and the next call makes others.
inline ort::Status* register_ops(std::vector<LibraryOp>& ops, ort::Options* options,
                                 const ort::ApiBase* base) {
  static auto& guard = *new std::mutex;
  static auto& domains = *new Domains;
  std::lock_guard<std::mutex> held(guard);
  if (domains.empty()) {
    if (!ort_api.load(base))
      return ort::refusal(base, "this library needs onnxruntime 1.25 or newer");
    Domains made;
    if (ort::Status* status = fill_domains(ops, made)) return status;
    domains = std::move(made);
  }
  for (auto& [name, domain] : domains)
    if (ort::Status* status = ort_api.AddCustomOpDomain(options, domain)) return status;
  return nullptr;
}

}  // namespace pyopnb
