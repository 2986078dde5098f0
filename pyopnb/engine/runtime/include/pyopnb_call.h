/* One call of a compiled op: the whole interface between ONNX Runtime and the function that
 * computes. Plain C.
 *
 * Struct pyopnb_call only ever grows at its end, and its numbers keep their meaning. All memory
 * belongs to the caller and is valid during the call. The function may be called on many threads at
 * once, and it must not throw.
 */
#ifndef PYOPNB_CALL_H
#define PYOPNB_CALL_H

#include <stdint.h>

#define PYOPNB_CALL_VERSION 1

/* Before a function that others find by its name in the library. */
#ifdef _WIN32
#define PYOPNB_EXPORT __declspec(dllexport)
#else
#define PYOPNB_EXPORT __attribute__((visibility("default")))
#endif

/* What the function returns. */
enum {
  PYOPNB_DONE = 0,
  PYOPNB_FAILED = 1,  /* after fail(), or after output() has given no memory */
  PYOPNB_DECLINED = 2 /* nothing was computed that counts: let the op's Python form do this call */
};

/* The Python exception that fail() asks for. */
enum {
  PYOPNB_RUNTIME_ERROR = 0,
  PYOPNB_VALUE_ERROR = 1,
  PYOPNB_TYPE_ERROR = 2,
  PYOPNB_INDEX_ERROR = 3,
  PYOPNB_OVERFLOW_ERROR = 4,
  PYOPNB_MEMORY_ERROR = 5
};

/* An input: contiguous, the last dimension first in memory. */
typedef struct {
  const void* data; /* not to be written to */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype; /* the ONNX number: 1 float, 7 int64, 11 double, ...; 0: the input is left out */
} pyopnb_tensor;

/* The kinds of attrs: what the data are. */
enum {
  PYOPNB_INT = 1 /* int64_t */,
  PYOPNB_FLOAT = 2 /* double */,
  PYOPNB_TEXT = 3 /* char, with a zero behind the last */
};

/* An attr, in the order of the op's schema. */
typedef struct {
  const void* data;
  int64_t count; /* 1, or as many as the list or the text has */
  int32_t kind;
} pyopnb_attr;

typedef struct pyopnb_call {
  int32_t version; /* PYOPNB_CALL_VERSION of the caller, which has at least the fields of that
                      version */
  int32_t input_count, output_count, attr_count;
  const pyopnb_tensor* inputs;
  const pyopnb_attr* attrs;
  /* The memory of an output of that dtype and shape, uninitialized; NULL where the node cannot give
   * that output: return PYOPNB_FAILED at once, the caller knows why. To be called once for each
   * output. */
  void* (*output)(struct pyopnb_call*, int32_t index, int32_t dtype, const int64_t* shape,
                  int32_t rank);
  /* Says what is wrong; the text is copied. Then return PYOPNB_FAILED. */
  void (*fail)(struct pyopnb_call*, int32_t error, const char* text);
} pyopnb_call;

typedef int32_t (*pyopnb_function)(pyopnb_call*);

#endif
