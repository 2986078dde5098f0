// The part of the ONNX Runtime C interface that the bridge uses, declared here because no package
// carries the header.
//
// OrtApi is a table of function pointers that only ever grows: a slot keeps its number forever.
// The numbers below were read off with offsetof from the public header of API version 29, and are
// used with every ONNX Runtime that the tests install.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace ort {

struct Status;
struct Value;
struct KernelInfo;
struct KernelContext;
struct ShapeContext;
struct TypeInfo;
struct TensorInfo;
struct Allocator;
struct MemoryInfo;
struct OpAttr;
struct Options;
struct Domain;

// RegisterCustomOps is handed this; the second copy of the runtime in the wheel would give another
// one.
struct ApiBase {
  const void* const* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

// Of onnxruntime 1.25, the oldest that pyopnb claims and the first with slot 417.
constexpr uint32_t kApiVersion = 25;
constexpr uint32_t kOpVersion = 18;  // of struct CustomOp

// X(slot, name, return type, parameters...)
#define ORT_FUNCTIONS(X)                                                                           \
  X(0, CreateStatus, Status*, int, const char*)                                                    \
  X(2, GetErrorMessage, const char*, const Status*)                                                \
  X(26, CreateCustomOpDomain, Status*, const char*, Domain**)                                      \
  X(27, CustomOpDomain_Add, Status*, Domain*, const struct CustomOp*)                              \
  X(28, AddCustomOpDomain, Status*, Options*, Domain*)                                             \
  X(51, GetTensorMutableData, Status*, Value*, void**)                                             \
  X(53, GetStringTensorDataLength, Status*, const Value*, size_t*)                                 \
  X(54, GetStringTensorContent, Status*, const Value*, void*, size_t, size_t*, size_t)             \
  X(55, CastTypeInfoToTensorInfo, Status*, const TypeInfo*, const TensorInfo**)                    \
  X(57, CreateTensorTypeAndShapeInfo, Status*, TensorInfo**)                                       \
  X(58, SetTensorElementType, Status*, TensorInfo*, int)                                           \
  X(59, SetDimensions, Status*, TensorInfo*, const int64_t*, size_t)                               \
  X(60, GetTensorElementType, Status*, const TensorInfo*, int*)                                    \
  X(61, GetDimensionsCount, Status*, const TensorInfo*, size_t*)                                   \
  X(62, GetDimensions, Status*, const TensorInfo*, int64_t*, size_t)                               \
  X(63, GetSymbolicDimensions, Status*, const TensorInfo*, const char**, size_t)                   \
  X(65, GetTensorTypeAndShape, Status*, const Value*, TensorInfo**)                                \
  X(74, MemoryInfoGetType, Status*, const MemoryInfo*, int*)                                       \
  X(76, AllocatorFree, Status*, Allocator*, void*)                                                 \
  X(77, AllocatorGetInfo, Status*, const Allocator*, const MemoryInfo**)                           \
  X(78, GetAllocatorWithDefaultOptions, Status*, Allocator**)                                      \
  X(82, CreateValue, Status*, const Value* const*, size_t, int, Value**)                           \
  X(85, KernelInfoGetAttribute_float, Status*, const KernelInfo*, const char*, float*)             \
  X(86, KernelInfoGetAttribute_int64, Status*, const KernelInfo*, const char*, int64_t*)           \
  X(87, KernelInfoGetAttribute_string, Status*, const KernelInfo*, const char*, char*, size_t*)    \
  X(88, KernelContext_GetInputCount, Status*, const KernelContext*, size_t*)                       \
  X(89, KernelContext_GetOutputCount, Status*, const KernelContext*, size_t*)                      \
  X(90, KernelContext_GetInput, Status*, const KernelContext*, size_t, const Value**)              \
  X(91, KernelContext_GetOutput, Status*, KernelContext*, size_t, const int64_t*, size_t, Value**) \
  X(93, ReleaseStatus, void, Status*)                                                              \
  X(96, ReleaseValue, void, Value*)                                                                \
  X(98, ReleaseTypeInfo, void, TypeInfo*)                                                          \
  X(99, ReleaseTensorTypeAndShapeInfo, void, TensorInfo*)                                          \
  X(130, AddSessionConfigEntry, Status*, Options*, const char*, const char*)                       \
  X(132, ReleaseAllocator, void, Allocator*)                                                       \
  X(162, KernelInfoGetAttributeArray_float, Status*, const KernelInfo*, const char*, float*,       \
    size_t*)                                                                                       \
  X(163, KernelInfoGetAttributeArray_int64, Status*, const KernelInfo*, const char*, int64_t*,     \
    size_t*)                                                                                       \
  X(194, GetTensorMemoryInfo, Status*, const Value*, const MemoryInfo**)                           \
  X(230, KernelInfo_GetInputCount, Status*, const KernelInfo*, size_t*)                            \
  X(231, KernelInfo_GetOutputCount, Status*, const KernelInfo*, size_t*)                           \
  X(234, KernelInfo_GetInputTypeInfo, Status*, const KernelInfo*, size_t, TypeInfo**)              \
  X(235, KernelInfo_GetOutputTypeInfo, Status*, const KernelInfo*, size_t, TypeInfo**)             \
  X(236, KernelInfoGetAttribute_tensor, Status*, const KernelInfo*, const char*, Allocator*,       \
    Value**)                                                                                       \
  X(238, GetSessionConfigEntry, Status*, const Options*, const char*, char*, size_t*)              \
  X(244, KernelInfo_GetNodeName, Status*, const KernelInfo*, char*, size_t*)                       \
  X(252, GetResizedStringTensorElementBuffer, Status*, Value*, size_t, size_t, char**)             \
  X(267, ShapeInferContext_GetInputCount, Status*, const ShapeContext*, size_t*)                   \
  X(268, ShapeInferContext_GetInputTypeShape, Status*, const ShapeContext*, size_t, TensorInfo**)  \
  X(269, ShapeInferContext_GetAttribute, Status*, const ShapeContext*, const char*,                \
    const OpAttr**)                                                                                \
  X(270, ShapeInferContext_SetOutputTypeShape, Status*, const ShapeContext*, size_t,               \
    const TensorInfo*)                                                                             \
  X(271, SetSymbolicDimensions, Status*, TensorInfo*, const char**, size_t)                        \
  X(272, ReadOpAttr, Status*, const OpAttr*, int, void*, size_t, size_t*)                          \
  X(278, KernelInfoGetAllocator, Status*, const KernelInfo*, int, Allocator**)                     \
  X(390, TensorTypeAndShape_HasShape, bool, const TensorInfo*)                                     \
  X(414, GetTensorElementTypeAndShapeDataReference, Status*, const Value*, int*, const int64_t**,  \
    size_t*)                                                                                       \
  X(417, KernelInfoGetAttributeArray_string, Status*, const KernelInfo*, const char*, Allocator*,  \
    char***, size_t*)

struct Api {
#define ORT_DECLARE(slot, name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  ORT_FUNCTIONS(ORT_DECLARE)
#undef ORT_DECLARE

  // False where the runtime is older than kApiVersion.
  bool load(const ApiBase* base) {
    const void* const* table = base->GetApi(kApiVersion);
    if (!table) return false;
#define ORT_TAKE(slot, name, result, ...) \
  name = reinterpret_cast<result (*)(__VA_ARGS__)>(const_cast<void*>(table[slot]));
    ORT_FUNCTIONS(ORT_TAKE)
#undef ORT_TAKE
    return true;
  }
};

enum ElementType { kUndefined = 0, kString = 8 };
enum AttrType { kInt = 1, kInts, kFloat, kFloats, kStringAttr, kStrings };
enum Characteristic { kSingle = 0, kOptional = 1 };
enum Code { kFail = 1 };

// A status made with the one function that every ONNX Runtime has, for when no table is loaded.
inline Status* refusal(const ApiBase* base, const char* message) {
  auto create =
      reinterpret_cast<Status* (*)(int, const char*)>(const_cast<void*>(base->GetApi(1)[0]));
  return create(kFail, message);
}

// What an op hands to the runtime: function pointers in this order, from byte 8 on.
struct CustomOp {
  uint32_t version;
  void* (*CreateKernel)(const CustomOp*, const void*, const KernelInfo*);
  const char* (*GetName)(const CustomOp*);
  const char* (*GetExecutionProviderType)(const CustomOp*);
  int (*GetInputType)(const CustomOp*, size_t);
  size_t (*GetInputTypeCount)(const CustomOp*);
  int (*GetOutputType)(const CustomOp*, size_t);
  size_t (*GetOutputTypeCount)(const CustomOp*);
  void (*KernelCompute)(void*, KernelContext*);
  void (*KernelDestroy)(void*);
  int (*GetInputCharacteristic)(const CustomOp*, size_t);
  int (*GetOutputCharacteristic)(const CustomOp*, size_t);
  int (*GetInputMemoryType)(const CustomOp*, size_t);
  int (*GetVariadicInputMinArity)(const CustomOp*);
  int (*GetVariadicInputHomogeneity)(const CustomOp*);
  int (*GetVariadicOutputMinArity)(const CustomOp*);
  int (*GetVariadicOutputHomogeneity)(const CustomOp*);
  Status* (*CreateKernelV2)(const CustomOp*, const void*, const KernelInfo*, void**);
  Status* (*KernelComputeV2)(void*, KernelContext*);
  Status* (*InferOutputShapeFn)(const CustomOp*, ShapeContext*);
  int (*GetStartVersion)(const CustomOp*);
  int (*GetEndVersion)(const CustomOp*);
  size_t (*GetMayInplace)(int**, int**);
  void (*ReleaseMayInplace)(int*, int*);
  size_t (*GetAliasMap)(int**, int**);
  void (*ReleaseAliasMap)(int*, int*);
};
static_assert(offsetof(CustomOp, InferOutputShapeFn) == 152 &&
                  offsetof(CustomOp, ReleaseAliasMap) == 200,
              "the layout of OrtCustomOp at version 18");

}  // namespace ort
