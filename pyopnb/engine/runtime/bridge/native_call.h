// One call of a compiled op: its function is called by pointer, without the GIL, through the
// interface of pyopnb_call.h.
//
// Everything that Python has is read while the GIL is held, before the function and after it. What
// happens between, in the function and in its callbacks, touches ONNX Runtime and this object
// alone; what is wrong is noted there and raised afterwards.
#pragma once

#include <pyopnb_call.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "call.h"

namespace pyopnb {

class NativeCall : private pyopnb_call {
 public:
  NativeCall(Kernel& kernel, nb::handle state, ort::KernelContext* context)
      : pyopnb_call{},
        kernel_(kernel),
        self_(state),
        state_(*nb::inst_ptr<State>(state)),
        context_(context) {
    pyopnb_call::version = PYOPNB_CALL_VERSION;
    pyopnb_call::output = give_output;
    pyopnb_call::fail = take_failure;
    attrs = state_.native.attrs;
    attr_count = state_.native.attr_count;
    output_count = static_cast<int32_t>(state_.results);
    symbols_.sizes.assign(state_.symbols, -1);
    outputs_.resize(state_.results);
  }

  // False where the function leaves the call to Python.
  bool operator()() {
    take_inputs();
    PyThreadState* thread = PyEval_SaveThread();
    int32_t answer = state_.native.function(this);
    PyEval_RestoreThread(
        thread);  // it may end this thread, which no destructor must be on its way for
    if (answer == PYOPNB_DECLINED && refusal_ == kNothing) return false;
    raise_refusal();
    if (answer != PYOPNB_DONE) raise_failure(answer);
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!outputs_[i].made && wanted(i)) ask("refuse_unset", i, nb::none());
    return true;
  }

 private:
  struct Made {
    bool made = false;
    std::unique_ptr<char[]> unwanted;  // the memory of an output that the node leaves out
  };
  enum Refusal { kNothing, kNoSuchOutput, kTwice, kDtype, kShape, kMemory, kOverlap, kStatus };

  void take_inputs() {
    size_t count = 0;
    check(api.KernelContext_GetInputCount(context_, &count));
    tensors_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const ort::Value* value = nullptr;
      check(api.KernelContext_GetInput(context_, i, &value));
      if (!value) continue;
      const Tensor tensor(value);
      const Dtype* dtype = dtype_of(tensor.type);
      if (!dtype || dtype->bits < 8) fail_type(i, tensor.type);
      tensors_[i] = {memory_of(value), reinterpret_cast<const int64_t*>(tensor.dims),
                     static_cast<int32_t>(tensor.rank), tensor.type};
      for (const Shape& row : state_.input_shapes)
        if (row.port == static_cast<int>(i) && !symbols_.fits(row, tensor.rank, tensor.dims) &&
            row.strict)
          ask("refuse_input", i,
              stand_in(tensor.type, reinterpret_cast<const int64_t*>(tensor.dims), tensor.rank));
    }
    inputs = tensors_.data();
    input_count = static_cast<int32_t>(count);
  }

  bool wanted(size_t output) const {
    return output < state_.outputs.size() && state_.outputs[output] != 0;
  }

  // ---- without the GIL

  static void* give_output(pyopnb_call* call, int32_t index, int32_t dtype, const int64_t* shape,
                           int32_t rank) {
    return static_cast<NativeCall*>(call)->memory_for(index, dtype, shape, rank);
  }

  static void take_failure(pyopnb_call* call, int32_t error, const char* text) {
    auto* self = static_cast<NativeCall*>(call);
    self->error_ = error;
    self->text_ = text ? text : "";
  }

  void* memory_for(int32_t index, int32_t dtype, const int64_t* shape, int32_t rank) {
    refused_ = index;
    refused_dtype_ = dtype;
    refused_shape_.assign(shape, shape + std::max(rank, 0));
    if (index < 0 || index >= static_cast<int32_t>(outputs_.size())) return refuse(kNoSuchOutput);
    if (std::any_of(refused_shape_.begin(), refused_shape_.end(),
                    [](int64_t dim) { return dim < 0; }))
      return refuse(kShape);
    Made& output = outputs_[index];
    if (output.made) return refuse(kTwice);
    output.made = true;
    const Dtype* known = pyopnb::dtype_of(dtype);
    if (!known || known->bits < 8) return refuse(kDtype);
    size_t bytes = known->bits / 8;
    for (int64_t dim : refused_shape_) {
      if (dim && bytes > PTRDIFF_MAX / static_cast<uint64_t>(dim)) return refuse(kMemory);
      bytes *= dim;
    }
    if (!wanted(index)) {
      // No exception: it would have to go through the function, which may be no C++, and past the
      // taking of the GIL.
      output.unwanted.reset(new (std::nothrow) char[std::max<size_t>(bytes, 1)]);
      return output.unwanted ? output.unwanted.get() : refuse(kMemory);
    }
    if (dtype != state_.outputs[index]) return refuse(kDtype);
    for (const Shape& row : state_.output_shapes)
      if (row.port == index && !symbols_.fits(row, rank, reinterpret_cast<const npy_intp*>(shape)))
        return refuse(kShape);
    return allocate(index, bytes);
  }

  void* allocate(int32_t index, size_t bytes) {
    ort::Value* value = nullptr;
    void* memory = nullptr;
    const ort::MemoryInfo* where = nullptr;
    if ((status_ = api.KernelContext_GetOutput(context_, index, refused_shape_.data(),
                                               refused_shape_.size(), &value)))
      return refuse(kStatus);
    if ((status_ = api.GetTensorMutableData(value, &memory))) return refuse(kStatus);
    if ((status_ = api.GetTensorMemoryInfo(value, &where))) return refuse(kStatus);
    alignas(64) static char nothing[64];  // an empty tensor may have no memory, and null means that
                                          // there is none to have
    return overlaps_input(memory, bytes) ? refuse(kOverlap) : memory ? memory : nothing;
  }

  // Only a caller can bind an output over an input, by IOBinding: the function would read what it
  // has written.
  bool overlaps_input(const void* memory, size_t bytes) {
    auto begin = reinterpret_cast<uintptr_t>(memory);
    for (size_t i = 0; i < tensors_.size() && bytes; ++i) {
      const pyopnb_tensor& tensor = tensors_[i];
      if (!tensor.dtype) continue;
      size_t size = pyopnb::dtype_of(tensor.dtype)->bits / 8;
      for (int32_t d = 0; d < tensor.rank; ++d) size *= tensor.shape[d];
      auto input = reinterpret_cast<uintptr_t>(tensor.data);
      overlapped_ = static_cast<int32_t>(i);
      if (begin < input + size && input < begin + bytes) return true;
    }
    return false;
  }

  void* refuse(Refusal why) {
    refusal_ = why;
    return nullptr;
  }

  // ---- with the GIL

  void raise_refusal() {
    switch (refusal_) {
      case kNothing:
        return;
      case kNoSuchOutput:
        pyopnb::fail(PyExc_IndexError, "output %d was allocated, and the op has %zu", refused_,
                     outputs_.size());
      case kTwice:
        pyopnb::fail(PyExc_RuntimeError, "output %d was allocated twice in one call", refused_);
      case kDtype:
        if (!pyopnb::dtype_of(refused_dtype_))
          pyopnb::fail(PyExc_TypeError, "output %d: no dtype has the number %d", refused_,
                       refused_dtype_);
        ask("as_array", refused_,
            stand_in(refused_dtype_, refused_shape_.data(), refused_shape_.size()));
      case kShape:
        for (int64_t& dim : refused_shape_)
          if (dim < 0)
            pyopnb::fail(PyExc_ValueError, "output %d was allocated with a dimension of %lld",
                         refused_, static_cast<long long>(dim));
        ask("refuse_result", refused_,
            stand_in(refused_dtype_, refused_shape_.data(), refused_shape_.size()));
      case kMemory:
        pyopnb::fail(PyExc_MemoryError,
                     "output %d was allocated with more elements than memory has room for",
                     refused_);
      case kOverlap:
        ask("refuse_overlap", refused_, nb::int_(overlapped_));
      case kStatus:
        check(status_);
    }
  }

  [[noreturn]] void raise_failure(int32_t answer) {
    PyObject* const kinds[] = {PyExc_RuntimeError, PyExc_ValueError,    PyExc_TypeError,
                               PyExc_IndexError,   PyExc_OverflowError, PyExc_MemoryError};
    if (text_.empty())
      text_ = "the compiled function returned " + std::to_string(answer) + " and said nothing";
    PyObject* kind = error_ >= 0 && error_ < 6 ? kinds[error_] : PyExc_RuntimeError;
    Ref text = own(PyUnicode_DecodeUTF8(text_.data(), text_.size(), "replace"));
    PyErr_SetObject(kind, text.ptr());
    throw nb::python_error();
  }

  [[noreturn]] void fail_type(size_t input, int type) {
    pyopnb::fail(PyExc_TypeError,
                 "input %zu has ONNX Runtime's element type %d, which compiled ops do not take",
                 input, type);
  }

  // An array of that dtype and shape and no size of its own, for messages.
  Ref stand_in(int type, const int64_t* dims, size_t rank) {
    alignas(64) static char zeros[64];
    std::vector<npy_intp> strides(rank, 0), sizes(dims, dims + rank);
    PyArray_Descr* descr = one_more(pyopnb::dtype_of(type)->descr);
    return own(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(rank), sizes.data(),
                                    strides.data(), zeros, 0, nullptr));
  }

  // The Python half raises the error that says where, what was expected and what came.
  [[noreturn]] void ask(const char* method, size_t place, const nb::object& value) {
    own(PyObject_CallMethod(kernel_.half.ptr(), method, "OnO", self_.ptr(),
                            static_cast<Py_ssize_t>(place), value.ptr()));
    pyopnb::fail(PyExc_SystemError, "%s raised nothing", method);
  }

  Kernel& kernel_;
  nb::handle self_;  // the State as Python knows it
  State& state_;
  ort::KernelContext* context_;
  Symbols symbols_;
  std::vector<pyopnb_tensor> tensors_;
  std::vector<Made> outputs_;
  Refusal refusal_ = kNothing;
  int32_t refused_ = 0, refused_dtype_ = 0, overlapped_ = 0, error_ = 0;
  std::vector<int64_t> refused_shape_;
  ort::Status* status_ = nullptr;
  std::string text_;
};

}  // namespace pyopnb
