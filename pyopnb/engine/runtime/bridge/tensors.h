// Tensors between ONNX Runtime and NumPy: dtypes, inputs as arrays, results as tensors.
#pragma once

#include "boundary.h"
#include "references.h"

#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace pyopnb {

// bytes; from this size on, other threads may have the GIL during a copy.
constexpr npy_intp kLargeCopy = 1 << 18;

struct Dtype {
  PyArray_Descr* descr = nullptr;  // lives as long as the process
  int bits = 0;                    // of one element in memory of ONNX Runtime; 0: string
};

inline Dtype dtypes[64];

inline const Dtype* dtype_of(int type) {
  return type > 0 && type < 64 && dtypes[type].descr ? &dtypes[type] : nullptr;
}

inline PyArrayObject* as_array(nb::handle object) {
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}

// One more reference to a dtype, for functions of NumPy that take it.
inline PyArray_Descr* one_more(PyArray_Descr* descr) {
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  return descr;
}

// The array, or a copy of it whose elements lie in a row.
inline Ref in_a_row(PyArrayObject* array) {
  if (PyArray_IS_C_CONTIGUOUS(array)) return nb::borrow(reinterpret_cast<PyObject*>(array));
  return own(PyArray_NewCopy(array, NPY_CORDER));
}

// An array of its own memory, or over foreign memory where `data` is not null.
inline Ref new_array(const Dtype& dtype, size_t rank, const npy_intp* dims, void* data = nullptr,
                     int flags = 0) {
  return own(PyArray_NewFromDescr(&PyArray_Type, one_more(dtype.descr), static_cast<int>(rank),
                                  dims, nullptr, data, flags, nullptr));
}

// ONNX Runtime packs 4- and 2-bit elements, the first in the lowest bits; ml_dtypes keeps one a
// byte.
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
inline Ref type_to_python(const ort::TensorInfo* info) {
  int type = 0;
  size_t rank = 0;
  check(api.GetTensorElementType(info, &type));
  check(api.GetDimensionsCount(info, &rank));
  if (!api.TensorTypeAndShape_HasShape(info)) return nb::make_tuple(type, nb::none());
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank);
  check(api.GetDimensions(info, dims.data(), rank));
  check(api.GetSymbolicDimensions(info, names.data(), rank));
  nb::list shape;
  for (size_t d = 0; d < rank; ++d) {
    if (dims[d] >= 0)
      shape.append(dims[d]);
    else if (names[d] && names[d][0])
      shape.append(own(PyUnicode_DecodeUTF8(names[d], std::strlen(names[d]), "replace")));
    else
      shape.append(nb::none());
  }
  return nb::make_tuple(type, nb::tuple(shape));
}

// ---- Inputs -------------------------------------------------------------------------------------

// The facts of ONNX Runtime on an input; its dimensions are memory of ONNX Runtime, which is valid
// as long as the value is.
struct Tensor {
  explicit Tensor(const ort::Value* value) {
    static_assert(sizeof(npy_intp) == sizeof(int64_t), "64-bit systems only");
    check(api.GetTensorElementTypeAndShapeDataReference(
        value, &type, reinterpret_cast<const int64_t**>(&dims), &rank));
    if (rank > NPY_MAXDIMS)
      fail(PyExc_ValueError, "an input of %zu dimensions: NumPy has at most %d", rank, NPY_MAXDIMS);
  }

  int type = 0;
  size_t rank = 0;
  const npy_intp* dims = nullptr;
};

inline void* memory_of(const ort::Value* value) {
  void* memory = nullptr;
  check(api.GetTensorMutableData(const_cast<ort::Value*>(value), &memory));
  return memory;
}

// Strings arrive as str; bytes that are no UTF-8 survive as surrogate escapes and go out as they
// came.
inline void read_strings(const ort::Value* value, PyArrayObject* out) {
  npy_intp count = PyArray_SIZE(out);
  size_t bytes = 0;
  check(api.GetStringTensorDataLength(value, &bytes));
  std::string text(bytes, '\0');
  std::vector<size_t> ends(count + 1, bytes);
  if (count) check(api.GetStringTensorContent(value, text.data(), bytes, ends.data(), count));
  ends[count] = bytes;
  auto** slots = static_cast<PyObject**>(PyArray_DATA(out));
  for (npy_intp i = 0; i < count; ++i) {
    Ref item =
        own(PyUnicode_DecodeUTF8(text.data() + ends[i], ends[i + 1] - ends[i], "surrogateescape"));
    Py_XDECREF(std::exchange(slots[i], item.release().ptr()));
  }
}

inline Ref copy_input(const ort::Value* value, const Tensor& tensor, const Dtype& dtype,
                      bool writable) {
  Ref copy = new_array(dtype, tensor.rank, tensor.dims);
  PyArrayObject* array = as_array(copy);
  if (dtype.bits == 0)
    read_strings(value, array);
  else if (dtype.bits < 8)
    unpack(static_cast<uint8_t*>(memory_of(value)), static_cast<uint8_t*>(PyArray_DATA(array)),
           PyArray_SIZE(array), dtype.bits);
  else if (PyArray_NBYTES(array))
    std::memcpy(PyArray_DATA(array), memory_of(value), PyArray_NBYTES(array));
  if (!writable) PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
  return copy;
}

constexpr int kViewFlags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;

// Makes `slot` a read-only array over memory of ONNX Runtime: the array of an earlier call, pointed
// at it, or a new one. What is there has passed `is_reusable`.
inline void view_input(Ref& slot, const ort::Value* value, const Tensor& tensor,
                       const Dtype& dtype) {
  // An empty tensor may have no memory, and numpy would then allocate: any address does, as nothing
  // is read from it.
  alignas(64) static char nothing[64];
  void* memory = memory_of(value);
  if (!memory) memory = nothing;
  if (slot.is_valid() && is_only_ours(slot)) {
    auto* fields = reinterpret_cast<PyArrayObject_fields*>(slot.ptr());
    bool fits = fields->descr == dtype.descr && fields->nd == static_cast<int>(tensor.rank);
    for (size_t d = 0; fits && d < tensor.rank; ++d) fits = tensor.dims[d] == fields->dimensions[d];
    if (fits) {
      fields->data = static_cast<char*>(memory);
      return;
    }
  }
  slot = new_array(dtype, tensor.rank, tensor.dims, memory, kViewFlags);
}

// Whether an input of a call that has ended can be an input of the next: it is a view that nothing
// but its slot reaches, and as it was made. The reference count does not know of weak references.
inline bool is_reusable(nb::handle input) {
  if (!input.is_valid() || !PyArray_CheckExact(input.ptr()) || !is_only_ours(input)) return false;
  auto* fields = reinterpret_cast<PyArrayObject_fields*>(input.ptr());
  constexpr int looked_at =
      kViewFlags | NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE | NPY_ARRAY_WRITEBACKIFCOPY;
  return !fields->base && !fields->weakreflist && (fields->flags & looked_at) == kViewFlags;
}

// ---- Results ------------------------------------------------------------------------------------

// memmove: compute may return an array over the very memory that an output is bound to.
inline void copy_out(void* memory, const void* from, npy_intp bytes) {
  if (bytes < kLargeCopy) {
    std::memmove(memory, from, bytes);
    return;
  }
  Py_BEGIN_ALLOW_THREADS std::memmove(memory, from, bytes);
  Py_END_ALLOW_THREADS
}

inline void write_strings(ort::Value* out, PyArrayObject* array) {
  Ref contiguous = in_a_row(array);
  auto** items = static_cast<PyObject**>(PyArray_DATA(as_array(contiguous)));
  for (npy_intp i = 0; i < PyArray_SIZE(array); ++i) {
    if (!items[i]) fail(PyExc_TypeError, "a string result has an empty slot");
    Ref bytes = own(PyUnicode_AsEncodedString(items[i], "utf-8", "surrogateescape"));
    char* buffer = nullptr;
    size_t size = PyBytes_Size(bytes.ptr());
    check(api.GetResizedStringTensorElementBuffer(out, i, size, &buffer));
    if (size) std::memcpy(buffer, PyBytes_AsString(bytes.ptr()), size);
  }
}

// Copies a result of exactly the declared dtype into memory of ONNX Runtime.
inline void write_tensor(ort::Value* out, PyArrayObject* array, const Dtype& dtype) {
  const npy_intp bytes = PyArray_NBYTES(array);
  if (bytes == 0) return;
  if (dtype.bits == 0) {
    write_strings(out, array);
    return;
  }
  void* memory = memory_of(out);
  bool contiguous = PyArray_IS_C_CONTIGUOUS(array);
  if (dtype.bits < 8) {
    Ref elements = in_a_row(array);
    pack(static_cast<uint8_t*>(PyArray_DATA(as_array(elements))), static_cast<uint8_t*>(memory),
         PyArray_SIZE(array), dtype.bits);
  } else if (contiguous) {
    copy_out(memory, PyArray_DATA(array), bytes);
  } else {
    Ref view = new_array(dtype, PyArray_NDIM(array), PyArray_DIMS(array), memory, NPY_ARRAY_CARRAY);
    check(PyArray_CopyInto(as_array(view), array) == 0);
  }
}

}  // namespace pyopnb
