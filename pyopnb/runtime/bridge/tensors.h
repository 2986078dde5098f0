// Tensors between ONNX Runtime and NumPy: dtypes, inputs as arrays, results as tensors.
#pragma once

#include <Python.h>
#include <numpy/arrayobject.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "boundary.h"

namespace pyopnb {

constexpr npy_intp kLargeCopy = 1 << 18;  // bytes from which on other threads may have the GIL during a copy

struct Dtype {
  PyArray_Descr* descr = nullptr;  // owned for the life of the process
  int bits = 0;                    // of one element in the runtime's memory; 0: string
};

inline Dtype dtypes[64];

inline const Dtype* dtype_of(int type) { return type > 0 && type < 64 && dtypes[type].descr ? &dtypes[type] : nullptr; }

// The runtime packs 4- and 2-bit elements, the first in the lowest bits; ml_dtypes keeps one a byte.
inline void unpack(const uint8_t* packed, uint8_t* out, npy_intp count, int bits) {
  const int each = 8 / bits, mask = (1 << bits) - 1;
  for (npy_intp i = 0; i < count; ++i) out[i] = (packed[i / each] >> (i % each * bits)) & mask;
}

inline void pack(const uint8_t* in, uint8_t* packed, npy_intp count, int bits) {
  const int each = 8 / bits, mask = (1 << bits) - 1;
  std::memset(packed, 0, (count + each - 1) / each);
  for (npy_intp i = 0; i < count; ++i) packed[i / each] |= (in[i] & mask) << (i % each * bits);
}

// (element type, dims or None); a dim is a size, a symbol or None.
inline PyObject* type_to_python(const ort::TensorInfo* info) {
  int type = 0;
  size_t rank = 0;
  if (refused(api.GetTensorElementType(info, &type)) || refused(api.GetDimensionsCount(info, &rank))) return nullptr;
  if (!api.TensorTypeAndShape_HasShape(info)) return Py_BuildValue("iO", type, Py_None);
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank);
  if (refused(api.GetDimensions(info, dims.data(), rank)) || refused(api.GetSymbolicDimensions(info, names.data(), rank)))
    return nullptr;
  Ref shape(PyTuple_New(rank));
  if (!shape) return nullptr;
  for (size_t d = 0; d < rank; ++d) {
    PyObject* dim = dims[d] >= 0              ? PyLong_FromLongLong(dims[d])
                    : names[d] && names[d][0] ? PyUnicode_DecodeUTF8(names[d], std::strlen(names[d]), "replace")
                                              : Py_NewRef(Py_None);
    if (!dim) return nullptr;
    PyTuple_SET_ITEM(shape.get(), d, dim);
  }
  return Py_BuildValue("iO", type, shape.get());
}

// ---- inputs
// -----------------------------------------------------------------------------------------------------------------------

struct Tensor {
  int type = 0;
  size_t rank = 0;
  npy_intp dims[NPY_MAXDIMS];
};

inline bool describe(const ort::Value* value, Tensor* out) {
  ort::TensorInfo* info = nullptr;
  if (refused(api.GetTensorTypeAndShape(value, &info))) return false;
  bool bad = refused(api.GetTensorElementType(info, &out->type)) || refused(api.GetDimensionsCount(info, &out->rank));
  if (!bad && out->rank > NPY_MAXDIMS) {
    PyErr_Format(PyExc_ValueError, "an input of %zu dimensions: NumPy has at most %d", out->rank, NPY_MAXDIMS);
    bad = true;
  }
  static_assert(sizeof(npy_intp) == sizeof(int64_t), "64-bit systems only");
  bad = bad || refused(api.GetDimensions(info, reinterpret_cast<int64_t*>(out->dims), out->rank));
  api.ReleaseTensorTypeAndShapeInfo(info);
  return !bad;
}

// Strings arrive as str; bytes that are no UTF-8 survive as surrogate escapes and go out as they came.
inline bool read_strings(const ort::Value* value, PyArrayObject* out) {
  npy_intp count = PyArray_SIZE(out);
  size_t bytes = 0;
  if (refused(api.GetStringTensorDataLength(value, &bytes))) return false;
  std::string text(bytes, '\0');
  std::vector<size_t> ends(count + 1, bytes);
  if (count && refused(api.GetStringTensorContent(value, text.data(), bytes, ends.data(), count))) return false;
  ends[count] = bytes;
  auto** slots = static_cast<PyObject**>(PyArray_DATA(out));
  for (npy_intp i = 0; i < count; ++i) {
    PyObject* item = PyUnicode_DecodeUTF8(text.data() + ends[i], ends[i + 1] - ends[i], "surrogateescape");
    if (!item) return false;
    Py_XSETREF(slots[i], item);
  }
  return true;
}

inline PyObject* input_copy(const ort::Value* value, const Tensor& tensor, const Dtype& dtype, bool writable) {
  Ref made(PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(Py_NewRef(dtype.descr)), tensor.rank,
                                const_cast<npy_intp*>(tensor.dims), nullptr, nullptr, 0, nullptr));
  if (!made) return nullptr;
  auto* array = reinterpret_cast<PyArrayObject*>(made.get());
  if (dtype.bits == 0) {
    if (!read_strings(value, array)) return nullptr;
  } else {
    void* memory = nullptr;
    if (refused(api.GetTensorMutableData(const_cast<ort::Value*>(value), &memory))) return nullptr;
    if (dtype.bits < 8)
      unpack(static_cast<uint8_t*>(memory), static_cast<uint8_t*>(PyArray_DATA(array)), PyArray_SIZE(array), dtype.bits);
    else if (PyArray_NBYTES(array))
      std::memcpy(PyArray_DATA(array), memory, PyArray_NBYTES(array));
  }
  if (!writable) PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
  return made.release();
}

inline PyObject* input_view(const ort::Value* value, const Tensor& tensor, const Dtype& dtype) {
  void* memory = nullptr;
  if (refused(api.GetTensorMutableData(const_cast<ort::Value*>(value), &memory))) return nullptr;
  // An empty tensor may have no memory, and numpy would then allocate: any address does, as nothing is read from it.
  alignas(64) static char nothing[64];
  return PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(Py_NewRef(dtype.descr)), tensor.rank,
                              const_cast<npy_intp*>(tensor.dims), nullptr, memory ? memory : nothing,
                              NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED, nullptr);
}

// ---- results
// ----------------------------------------------------------------------------------------------------------------------

// memmove: an output bound by IOBinding may lie over the very input that compute returned.
inline void copy_out(void* memory, const void* from, npy_intp bytes) {
  if (bytes < kLargeCopy) {
    std::memmove(memory, from, bytes);
    return;
  }
  Py_BEGIN_ALLOW_THREADS std::memmove(memory, from, bytes);
  Py_END_ALLOW_THREADS
}

inline bool write_strided(void* memory, PyArrayObject* array, const Dtype& dtype) {
  Ref to(PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(Py_NewRef(dtype.descr)), PyArray_NDIM(array),
                              PyArray_DIMS(array), nullptr, memory, NPY_ARRAY_CARRAY, nullptr));
  return to && PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(to.get()), array) == 0;
}

inline bool write_strings(ort::Value* out, PyArrayObject* array) {
  Ref straight(reinterpret_cast<PyObject*>(PyArray_GETCONTIGUOUS(array)));
  if (!straight) return false;
  auto** items = static_cast<PyObject**>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(straight.get())));
  for (npy_intp i = 0; i < PyArray_SIZE(array); ++i) {
    Ref bytes(items[i] ? PyUnicode_AsEncodedString(items[i], "utf-8", "surrogateescape") : nullptr);
    if (!bytes) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a string result has an empty slot");
      return false;
    }
    char* buffer = nullptr;
    size_t size = PyBytes_GET_SIZE(bytes.get());
    if (refused(api.GetResizedStringTensorElementBuffer(out, i, size, &buffer))) return false;
    if (size) std::memcpy(buffer, PyBytes_AS_STRING(bytes.get()), size);
  }
  return true;
}

// Copies a result of exactly the declared dtype into the runtime's memory.
inline bool write_tensor(ort::Value* out, PyArrayObject* array, const Dtype& dtype) {
  if (PyArray_SIZE(array) == 0) return true;
  if (dtype.bits == 0) return write_strings(out, array);
  void* memory = nullptr;
  if (refused(api.GetTensorMutableData(out, &memory))) return false;
  bool straight = PyArray_IS_C_CONTIGUOUS(array);
  if (dtype.bits < 8) {
    Ref whole(straight ? Py_NewRef(array) : PyArray_NewCopy(array, NPY_CORDER));
    if (!whole) return false;
    auto* bytes = static_cast<uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(whole.get())));
    pack(bytes, static_cast<uint8_t*>(memory), PyArray_SIZE(array), dtype.bits);
    return true;
  }
  if (!straight) return write_strided(memory, array, dtype);
  copy_out(memory, PyArray_DATA(array), PyArray_NBYTES(array));
  return true;
}

}  // namespace pyopnb
