// Attrs that only the runtime has: those of a bare session, and those that a function's caller gives.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tensors.h"

namespace pyopnb {

class Attrs {
 public:
  Attrs(const ort::KernelInfo* info, ort::ShapeContext* context) : info_(info), context_(context) {}
  void expire() { info_ = nullptr, context_ = nullptr; }

  // The value of that kind ("int", "list[float]", …), or None where the node has no such attr of that kind.
  nanobind::object read(const std::string& name, const std::string& kind) const {
    if (!info_ && !context_) throw nanobind::value_error("attrs can be read only while a node is being placed");
    PyObject* value = info_ ? from_kernel(name.c_str(), kind) : from_context(name.c_str(), kind);
    if (!value) nanobind::raise_python_error();
    return nanobind::steal(value);
  }

 private:
  template <typename T, typename Get>
  PyObject* array(const char* name, Get get, PyObject* (*item)(T)) const {
    size_t count = 0;
    if (absent(get(info_, name, nullptr, &count))) return Py_NewRef(Py_None);
    std::vector<T> values(count);
    if (count && absent(get(info_, name, values.data(), &count))) return Py_NewRef(Py_None);
    return list_of(values, item);
  }
  template <typename T>
  static PyObject* list_of(const std::vector<T>& values, PyObject* (*item)(T)) {
    Ref list(PyList_New(0));
    for (T value : values)
      if (!list || !append(list.get(), item(value))) return nullptr;
    return list.release();
  }
  static PyObject* integer(int64_t value) { return PyLong_FromLongLong(value); }
  static PyObject* number(float value) { return PyFloat_FromDouble(value); }

  PyObject* from_kernel(const char* name, const std::string& kind) const {
    int64_t i = 0;
    float f = 0;
    if (kind == "int") return absent(api.KernelInfoGetAttribute_int64(info_, name, &i)) ? Py_NewRef(Py_None) : integer(i);
    if (kind == "float") return absent(api.KernelInfoGetAttribute_float(info_, name, &f)) ? Py_NewRef(Py_None) : number(f);
    if (kind == "list[int]") return array<int64_t>(name, api.KernelInfoGetAttributeArray_int64, integer);
    if (kind == "list[float]") return array<float>(name, api.KernelInfoGetAttributeArray_float, number);
    if (kind == "bytes") return text(name);
    if (kind == "list[bytes]") return texts(name);
    if (kind == "tensor") return tensor(name);
    return Py_NewRef(Py_None);
  }

  PyObject* text(const char* name) const {
    size_t size = 0;
    if (absent(api.KernelInfoGetAttribute_string(info_, name, nullptr, &size))) return Py_NewRef(Py_None);
    std::string value(size, '\0');
    if (refused(api.KernelInfoGetAttribute_string(info_, name, value.data(), &size))) return nullptr;
    return PyBytes_FromStringAndSize(value.data(), size - 1);
  }

  PyObject* texts(const char* name) const {
    ort::Allocator* allocator = nullptr;
    char** values = nullptr;
    size_t count = 0;
    if (refused(api.GetAllocatorWithDefaultOptions(&allocator)) ||
        absent(api.KernelInfoGetAttributeArray_string(info_, name, allocator, &values, &count)))
      return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    Ref list(PyList_New(0));
    for (size_t i = 0; i < count; ++i) {
      if (list && !append(list.get(), PyBytes_FromString(values[i]))) list = Ref();
      absent(api.AllocatorFree(allocator, values[i]));
    }
    if (values) absent(api.AllocatorFree(allocator, values));
    return list.release();
  }

  PyObject* tensor(const char* name) const {
    ort::Allocator* allocator = nullptr;
    ort::Value* value = nullptr;
    if (refused(api.GetAllocatorWithDefaultOptions(&allocator))) return nullptr;
    if (absent(api.KernelInfoGetAttribute_tensor(info_, name, allocator, &value))) return Py_NewRef(Py_None);
    Tensor described;
    PyObject* array = nullptr;
    if (describe(value, &described)) {
      const Dtype* dtype = dtype_of(described.type);
      array = dtype ? input_copy(value, described, *dtype, true) : Py_NewRef(Py_None);
    }
    api.ReleaseValue(value);
    return array;
  }

  template <typename T>
  PyObject* read_list(const ort::OpAttr* attr, int type, PyObject* (*item)(T)) const {
    size_t bytes = 0;
    absent(api.ReadOpAttr(attr, type, nullptr, 0, &bytes));  // says how many bytes it wants
    std::vector<T> values(bytes / sizeof(T));
    if (bytes && absent(api.ReadOpAttr(attr, type, values.data(), bytes, &bytes))) return Py_NewRef(Py_None);
    return list_of(values, item);
  }

  PyObject* read_texts(const ort::OpAttr* attr) const {
    size_t bytes = 0;
    absent(api.ReadOpAttr(attr, ort::kStrings, nullptr, 0, &bytes));
    std::string all(bytes, '\0');  // the texts one after the other, each with its zero
    if (bytes && absent(api.ReadOpAttr(attr, ort::kStrings, all.data(), bytes, &bytes))) return Py_NewRef(Py_None);
    Ref list(PyList_New(0));
    for (size_t from = 0; list && from < all.size(); from += std::strlen(all.c_str() + from) + 1)
      if (!append(list.get(), PyBytes_FromString(all.c_str() + from))) return nullptr;
    return list.release();
  }

  PyObject* from_context(const char* name, const std::string& kind) const {
    const ort::OpAttr* attr = nullptr;
    if (absent(api.ShapeInferContext_GetAttribute(context_, name, &attr)) || !attr) return Py_NewRef(Py_None);
    int64_t i = 0;
    float f = 0;
    size_t got = 0;
    if (kind == "int") return absent(api.ReadOpAttr(attr, ort::kInt, &i, sizeof i, &got)) ? Py_NewRef(Py_None) : integer(i);
    if (kind == "float") return absent(api.ReadOpAttr(attr, ort::kFloat, &f, sizeof f, &got)) ? Py_NewRef(Py_None) : number(f);
    if (kind == "list[int]") return read_list<int64_t>(attr, ort::kInts, integer);
    if (kind == "list[float]") return read_list<float>(attr, ort::kFloats, number);
    if (kind == "bytes") {
      absent(api.ReadOpAttr(attr, ort::kStringAttr, nullptr, 0, &got));
      std::string value(got, '\0');
      if (got && absent(api.ReadOpAttr(attr, ort::kStringAttr, value.data(), got, &got))) return Py_NewRef(Py_None);
      return PyBytes_FromStringAndSize(value.data(), value.empty() ? 0 : got);
    }
    if (kind == "list[bytes]") return read_texts(attr);
    return Py_NewRef(Py_None);
  }

  const ort::KernelInfo* info_;
  ort::ShapeContext* context_;
};

// Python owns it, as a traceback can keep it longer than the runtime has anything to read.
inline Ref reader_of(Attrs attrs) { return Ref(nanobind::cast(std::move(attrs)).release().ptr()); }

inline void expire(const Ref& reader) { nanobind::inst_ptr<Attrs>(reader.get())->expire(); }

}  // namespace pyopnb
