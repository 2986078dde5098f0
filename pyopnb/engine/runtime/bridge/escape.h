// An input view escaped: compute kept something that reaches memory of ONNX Runtime, which is about
// to be reused.
//
// Everything that can legitimately reach the memory of array x holds a reference to x, so
// Py_REFCNT(x) says exactly that something was kept, but not what: x itself, a view of it, or a
// memoryview, a DLPack capsule or a torch tensor that hides a raw pointer. No code is asked and
// nothing is searched. The run fails, and what was kept can still be read: x is given a copy of its
// own, and for all that holds a pointer of its own, what owns the old memory lives as long as x
// does. That is the tensor, and the arena that it was allocated from; it is not the session, whose
// kernels may hold what was kept.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "references.h"
#include "tensors.h"

namespace pyopnb {

using Arena = std::shared_ptr<ort::Allocator>;

inline bool is_arena(const ort::MemoryInfo* memory) {
  constexpr int kArena = 1;
  int type = 0;
  check(api.MemoryInfoGetType(memory, &type));
  return type == kArena;
}

inline bool is_in_arena(const ort::Value* value) {
  const ort::MemoryInfo* memory = nullptr;
  check(api.GetTensorMemoryInfo(value, &memory));
  return is_arena(memory);
}

// The arena that a session's tensors are allocated from; null where it has none, and their memory
// is gone with the run.
inline Arena arena_of(const ort::KernelInfo* info) {
  constexpr int kDefaultMemory = 0;
  ort::Allocator* allocator = nullptr;
  if (absent(api.KernelInfoGetAllocator(info, kDefaultMemory, &allocator)) || !allocator)
    return nullptr;
  Arena arena(allocator, api.ReleaseAllocator);
  const ort::MemoryInfo* memory = nullptr;
  check(api.AllocatorGetInfo(allocator, &memory));
  return is_arena(memory) ? arena : nullptr;
}

// The Python halves of the kernels whose inputs are kept, one for each EscapedMemory: their
// addresses.
inline auto& kept_by = *new std::vector<const PyObject*>;  // guarded by `tables`; never destroyed

// What owns the memory of an array that escaped: the array's base, a Python object, so that it goes
// with the array.
class EscapedMemory {
 public:
  EscapedMemory(const ort::Value* value, Arena arena, nb::handle kernel)
      : arena_(std::move(arena)), kernel_(kernel.ptr()) {
    constexpr int kSequence = 2;
    check(api.CreateValue(&value, 1, kSequence, &owner_));  // it shares the tensor
    nb::ft_lock_guard guard(tables);
    kept_by.push_back(kernel_);
  }
  EscapedMemory(const EscapedMemory&) = delete;
  ~EscapedMemory() {
    {
      nb::ft_lock_guard guard(tables);
      kept_by.erase(std::find(kept_by.begin(), kept_by.end(), kernel_));
    }
    if (may_release()) api.ReleaseValue(owner_);  // of a feed, it releases an array
  }

  // The array's own, what it shows from now on, and what else can own the memory.
  nb::object base, copy, feeds;

 private:
  ort::Value* owner_ = nullptr;
  Arena arena_;
  const PyObject* const kernel_;
};

// Makes an array over memory of ONNX Runtime, and all that was made from it, safe to keep. Its
// elements are not changed.
inline void keep_memory(const Ref& array, const ort::Value* value, const Arena& arena,
                        nb::handle kernel, nb::handle feeds) {
  auto* fields = reinterpret_cast<PyArrayObject_fields*>(array.ptr());
  nb::object owner =
      nb::cast(new EscapedMemory(value, arena, kernel), nb::rv_policy::take_ownership);
  auto& memory = *nb::inst_ptr<EscapedMemory>(owner);
  memory.base = nb::steal(std::exchange(fields->base, owner.release().ptr()));
  memory.feeds = nb::borrow(feeds);
  if (!PyArray_IS_C_CONTIGUOUS(as_array(array))) return;  // compute gave it other strides
  memory.copy = own(PyArray_NewCopy(as_array(array), NPY_CORDER));
  fields->data = PyArray_BYTES(as_array(memory.copy));
}

}  // namespace pyopnb
