// Attributes that only ONNX Runtime has: of a node in a bare session, and the ones that a local
// function's caller gives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensors.h"

namespace pyopnb {

// Reads a node's attributes while ONNX Runtime creates a kernel or infers types. Python owns the
// object, and a traceback can keep it longer than ONNX Runtime has anything to read: then it has
// expired.
class Attrs {
 public:
  Attrs(const ort::KernelInfo* info, ort::ShapeContext* context) : info_(info), context_(context) {}
  void expire() { info_ = nullptr, context_ = nullptr; }

  // The value of that kind ("int", "list[float]", …), or None where the node has no such attribute
  // of that kind.
  nb::object read(const std::string& name, const std::string& kind) const {
    if (!info_ && !context_)
      throw nb::value_error("attrs can be read only while a node is being placed");
    return info_ ? from_kernel(name.c_str(), kind) : from_context(name.c_str(), kind);
  }

 private:
  static nb::object to_python(int64_t value) { return nb::int_(value); }
  static nb::object to_python(float value) { return nb::float_(value); }
  static nb::object to_python(const std::string& bytes) {
    return nb::bytes(bytes.data(), bytes.size());
  }
  template <typename T>
  static nb::object to_python(const std::vector<T>& values) {
    nb::list list;
    for (const T& value : values) list.append(to_python(value));
    return list;
  }

  // ---- while a kernel is created

  nb::object from_kernel(const char* name, const std::string& kind) const {
    if (kind == "int") return kernel_number<int64_t>(name, api.KernelInfoGetAttribute_int64);
    if (kind == "float") return kernel_number<float>(name, api.KernelInfoGetAttribute_float);
    if (kind == "list[int]")
      return kernel_numbers<int64_t>(name, api.KernelInfoGetAttributeArray_int64);
    if (kind == "list[float]")
      return kernel_numbers<float>(name, api.KernelInfoGetAttributeArray_float);
    if (kind == "bytes") return kernel_bytes(name);
    if (kind == "list[bytes]") return kernel_bytes_list(name);
    if (kind == "tensor") return kernel_tensor(name);
    return nb::none();
  }

  template <typename T, typename Get>
  nb::object kernel_number(const char* name, Get get) const {
    T value = 0;
    if (absent(get(info_, name, &value))) return nb::none();
    return to_python(value);
  }

  template <typename T, typename Get>
  nb::object kernel_numbers(const char* name, Get get) const {
    size_t count = 0;
    if (absent(get(info_, name, nullptr, &count))) return nb::none();
    std::vector<T> values(count);
    if (count && absent(get(info_, name, values.data(), &count))) return nb::none();
    return to_python(values);
  }

  nb::object kernel_bytes(const char* name) const {
    size_t size = 0;  // with the zero at the end
    if (absent(api.KernelInfoGetAttribute_string(info_, name, nullptr, &size))) return nb::none();
    std::string value(size, '\0');
    check(api.KernelInfoGetAttribute_string(info_, name, value.data(), &size));
    return nb::bytes(value.data(), size - 1);
  }

  nb::object kernel_bytes_list(const char* name) const {
    ort::Allocator* allocator = nullptr;
    char** texts = nullptr;
    size_t count = 0;
    check(api.GetAllocatorWithDefaultOptions(&allocator));
    if (absent(api.KernelInfoGetAttributeArray_string(info_, name, allocator, &texts, &count)))
      return nb::none();
    std::vector<std::string> values(texts, texts + count);
    for (size_t i = 0; i < count; ++i) absent(api.AllocatorFree(allocator, texts[i]));
    if (texts) absent(api.AllocatorFree(allocator, texts));
    return to_python(values);
  }

  nb::object kernel_tensor(const char* name) const {
    ort::Allocator* allocator = nullptr;
    ort::Value* value = nullptr;
    check(api.GetAllocatorWithDefaultOptions(&allocator));
    if (absent(api.KernelInfoGetAttribute_tensor(info_, name, allocator, &value)))
      return nb::none();
    std::unique_ptr<ort::Value, void (*)(ort::Value*)> owner(value, api.ReleaseValue);
    Tensor tensor(value);
    const Dtype* dtype = dtype_of(tensor.type);
    return dtype ? copy_input(value, tensor, *dtype, true) : nb::none();
  }

  // ---- while types are inferred

  nb::object from_context(const char* name, const std::string& kind) const {
    const ort::OpAttr* attr = nullptr;
    if (absent(api.ShapeInferContext_GetAttribute(context_, name, &attr)) || !attr)
      return nb::none();
    if (kind == "int") return context_number<int64_t>(attr, ort::kInt);
    if (kind == "float") return context_number<float>(attr, ort::kFloat);
    if (kind == "list[int]") return context_numbers<int64_t>(attr, ort::kInts);
    if (kind == "list[float]") return context_numbers<float>(attr, ort::kFloats);
    if (kind == "bytes") return context_bytes(attr);
    if (kind == "list[bytes]") return context_bytes_list(attr);
    return nb::none();
  }

  template <typename T>
  static nb::object context_number(const ort::OpAttr* attr, int type) {
    T value = 0;
    size_t size = 0;
    if (absent(api.ReadOpAttr(attr, type, &value, sizeof value, &size))) return nb::none();
    return to_python(value);
  }

  // The attribute's bytes, as whole elements; false where it is of another type. The first call
  // says how many bytes there are.
  template <typename Values>
  static bool read_all(const ort::OpAttr* attr, int type, Values& values) {
    constexpr size_t each = sizeof(typename Values::value_type);
    size_t size = 0;
    absent(api.ReadOpAttr(attr, type, nullptr, 0, &size));
    values.resize(size / each);
    if (size && absent(api.ReadOpAttr(attr, type, values.data(), size, &size))) return false;
    values.resize(size / each);
    return true;
  }

  template <typename T>
  static nb::object context_numbers(const ort::OpAttr* attr, int type) {
    std::vector<T> values;
    if (!read_all(attr, type, values)) return nb::none();
    return to_python(values);
  }

  static nb::object context_bytes(const ort::OpAttr* attr) {
    std::string value;
    if (!read_all(attr, ort::kStringAttr, value)) return nb::none();
    return to_python(value);
  }

  static nb::object context_bytes_list(const ort::OpAttr* attr) {
    std::string all;  // the texts one after the other, each with its zero
    if (!read_all(attr, ort::kStrings, all)) return nb::none();
    std::vector<std::string> values;
    for (size_t from = 0; from < all.size(); from += values.back().size() + 1)
      values.emplace_back(all.c_str() + from);
    return to_python(values);
  }

  const ort::KernelInfo* info_;
  ort::ShapeContext* context_;
};

// An `Attrs` for Python, which expires with this.
class AttrsReader {
 public:
  explicit AttrsReader(Attrs attrs) : object_(nb::cast(attrs)) {}
  AttrsReader(const AttrsReader&) = delete;
  ~AttrsReader() {
    if (may_release()) nb::inst_ptr<Attrs>(object_)->expire();
  }
  PyObject* ptr() const { return object_.ptr(); }

 private:
  Ref object_;
};

}  // namespace pyopnb
