// Everything for an op in C++: a function whose parameters are the op's inputs, outputs and attrs.
//
//   void SoftClip(Input<float> x, Output<float> y, float limit = 1.0f) {
//     float* out = y.allocate(x.shape());
//     for (int64_t i = 0; i < x.size(); ++i) out[i] = limit * std::tanh(x[i] / limit);
//   }
//
// Inputs:   Input<T>; std::optional<Input<T>>, which a node may leave out;
//           std::vector<Input<T>> as the last input, for any number of them.
//
// Outputs:  Output<T>; allocate() returns uninitialized memory for a shape, which belongs to
//           ONNX Runtime.
//
// Attrs:    bool, int, int64_t, float, double, std::string;
//           std::vector of int64_t, int, float or double.
//
// Elements: bool, float, double, int8_t to int64_t, uint8_t to uint64_t.
//
// Several:  template <typename T = AnyOf<float, double>>
//           void SoftClip(Input<T> x, Output<T> y, ...)
//
// Errors:   throw. std::invalid_argument becomes ValueError, std::out_of_range IndexError,
//           std::overflow_error OverflowError, std::bad_alloc MemoryError, and any other
//           exception RuntimeError.
//
// The function runs without the Python GIL, perhaps on several threads at once.
#pragma once

#include "vector_math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "pyopnb_call.h"

namespace pyopnb {

// The dtypes of a template's parameter, as its default.
template <typename... Elements>
struct AnyOf {};

template <typename T>
constexpr int32_t dtype_of = [] {
  static_assert(sizeof(T) == 0,
                "an element type that no tensor of an op in C++ has: see the top of pyopnb.h");
  return 0;
}();
template <>
inline constexpr int32_t dtype_of<float> = 1;
template <>
inline constexpr int32_t dtype_of<uint8_t> = 2;
template <>
inline constexpr int32_t dtype_of<int8_t> = 3;
template <>
inline constexpr int32_t dtype_of<uint16_t> = 4;
template <>
inline constexpr int32_t dtype_of<int16_t> = 5;
template <>
inline constexpr int32_t dtype_of<int32_t> = 6;
template <>
inline constexpr int32_t dtype_of<int64_t> = 7;
template <>
inline constexpr int32_t dtype_of<bool> = 9;
template <>
inline constexpr int32_t dtype_of<double> = 11;
template <>
inline constexpr int32_t dtype_of<uint32_t> = 12;
template <>
inline constexpr int32_t dtype_of<uint64_t> = 13;

// The dimensions of a tensor, seen and not owned.
class Shape {
 public:
  Shape(const int64_t* dims, size_t rank) : dims_(dims), rank_(rank) {}
  Shape(const std::vector<int64_t>& dims) : Shape(dims.data(), dims.size()) {}
  Shape(const std::initializer_list<int64_t>& dims) : Shape(dims.begin(), dims.size()) {}
  size_t size() const { return rank_; }
  int64_t operator[](size_t d) const { return dims_[d]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + rank_; }
  bool operator==(const Shape& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
  bool operator!=(const Shape& other) const { return !(*this == other); }
  operator std::vector<int64_t>() const { return {begin(), end()}; }
  int64_t elements() const {
    return std::accumulate(begin(), end(), int64_t{1}, std::multiplies<int64_t>());
  }

 private:
  const int64_t* dims_;
  size_t rank_;
};

template <typename T>
class Input {
 public:
  explicit Input(const pyopnb_tensor& tensor) : tensor_(&tensor), size_(Input::shape().elements()) {
    if (tensor.dtype != dtype_of<T>)
      throw std::invalid_argument("expected ONNX's dtype " + std::to_string(dtype_of<T>) +
                                  ", got " + std::to_string(tensor.dtype));
  }
  Shape shape() const { return {tensor_->shape, static_cast<size_t>(tensor_->rank)}; }
  size_t rank() const { return tensor_->rank; }
  int64_t dim(size_t d) const {
    if (d >= rank())
      throw std::out_of_range("dimension " + std::to_string(d) + " of a tensor of rank " +
                              std::to_string(rank()));
    return tensor_->shape[d];
  }
  int64_t size() const { return size_; }
  const T* data() const { return static_cast<const T*>(tensor_->data); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  const T& operator[](int64_t i) const { return data()[i]; }  // in memory's order, unchecked

 private:
  const pyopnb_tensor* tensor_;
  int64_t size_;
};

// The caller knows what was wrong with an output.
struct Refused {};

template <typename T>
class Output {
 public:
  Output(pyopnb_call* call, int32_t index) : call_(call), index_(index) {}
  // The memory of this output, of that shape: once a call.
  T* allocate(const Shape& shape) {
    data_ = static_cast<T*>(call_->output(call_, index_, dtype_of<T>, shape.begin(),
                                          static_cast<int32_t>(shape.size())));
    if (!data_) throw Refused();
    size_ = shape.elements();
    return data_;
  }
  int64_t size() const { return size_; }
  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  pyopnb_call* call_;
  int32_t index_;
  int64_t size_ = 0;
  T* data_ = nullptr;
};

// ---- How parameters are read from a call --------------------------------------------------------

struct Cursor {
  pyopnb_call* call;
  int32_t input = 0, output = 0, attr = 0;
};

template <typename T>
struct Read {  // a number, which Python has converted and checked
  static_assert(std::is_arithmetic_v<T>,
                "a parameter that no op in C++ has: see the top of pyopnb.h");
  static T from(Cursor& at) {
    const pyopnb_attr& attr = at.call->attrs[at.attr++];
    if (attr.kind == PYOPNB_FLOAT) return static_cast<T>(*static_cast<const double*>(attr.data));
    int64_t value = *static_cast<const int64_t*>(attr.data);
    if (std::is_same_v<T, int32_t> && value != static_cast<int32_t>(value))
      throw std::overflow_error("attr " + std::to_string(value) +
                                " does not fit into an int of C++. Try: int64_t");
    return static_cast<T>(value);
  }
};
template <typename T>
struct Read<std::vector<T>> {
  static std::vector<T> from(Cursor& at) {
    const pyopnb_attr& attr = at.call->attrs[at.attr++];
    auto* floats = static_cast<const double*>(attr.data);
    auto* ints = static_cast<const int64_t*>(attr.data);
    if (attr.kind == PYOPNB_FLOAT) return {floats, floats + attr.count};
    for (int64_t i = 0; std::is_same_v<T, int32_t> && i < attr.count; ++i)
      if (ints[i] != static_cast<int32_t>(ints[i]))
        throw std::overflow_error("attr " + std::to_string(ints[i]) +
                                  " does not fit into an int of C++. Try: int64_t");
    return {ints, ints + attr.count};
  }
};
template <>
struct Read<std::string> {
  static std::string from(Cursor& at) {
    const pyopnb_attr& attr = at.call->attrs[at.attr++];
    return {static_cast<const char*>(attr.data), static_cast<size_t>(attr.count)};
  }
};
template <typename T>
struct Read<Input<T>> {
  static Input<T> from(Cursor& at) { return Input<T>(at.call->inputs[at.input++]); }
};
template <typename T>
struct Read<std::optional<Input<T>>> {
  static std::optional<Input<T>> from(Cursor& at) {
    int32_t n = at.input++;
    if (n >= at.call->input_count || !at.call->inputs[n].dtype) return std::nullopt;
    return Input<T>(at.call->inputs[n]);
  }
};
template <typename T>
struct Read<std::vector<Input<T>>> {
  static std::vector<Input<T>> from(Cursor& at) {
    std::vector<Input<T>> rest;
    while (at.input < at.call->input_count) rest.emplace_back(at.call->inputs[at.input++]);
    return rest;
  }
};
template <typename T>
struct Read<Output<T>> {
  static Output<T> from(Cursor& at) { return {at.call, at.output++}; }
};

template <typename... Parameters>
void invoke(void (*function)(Parameters...), pyopnb_call* call) {
  Cursor at{call};
  // Braces: read from left to right.
  std::tuple<std::decay_t<Parameters>...> values{Read<std::decay_t<Parameters>>::from(at)...};
  std::apply(function, values);
}

// Runs the body so that no exception leaves it.
template <typename Body>
int32_t guarded(pyopnb_call* call, Body body) {
  auto failed = [call](int32_t error, const char* text) {
    call->fail(call, error, text);
    return PYOPNB_FAILED;
  };
  try {
    body();
    return PYOPNB_DONE;
  } catch (const Refused&) {
    return PYOPNB_FAILED;
  } catch (const std::invalid_argument& error) {
    return failed(PYOPNB_VALUE_ERROR, error.what());
  } catch (const std::domain_error& error) {
    return failed(PYOPNB_VALUE_ERROR, error.what());
  } catch (const std::out_of_range& error) {
    return failed(PYOPNB_INDEX_ERROR, error.what());
  } catch (const std::overflow_error& error) {
    return failed(PYOPNB_OVERFLOW_ERROR, error.what());
  } catch (const std::bad_alloc& error) {
    return failed(PYOPNB_MEMORY_ERROR, error.what());
  } catch (const std::exception& error) {
    return failed(PYOPNB_RUNTIME_ERROR, error.what());
  } catch (...) {
    return failed(PYOPNB_RUNTIME_ERROR, "a C++ exception that is no std::exception");
  }
}

}  // namespace pyopnb
