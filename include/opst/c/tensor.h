// opst_view: memory of the caller as a typed tensor. The library owns no tensor of this API.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_TENSOR_H_
#define OPST_C_TENSOR_H_

#include "opst/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t opst_dtype;
enum {
  OPST_F32 = 0,
  OPST_F16 = 1,
  OPST_BF16 = 2,
  OPST_F64 = 3,
  OPST_I8 = 4,
  OPST_U8 = 5,
  OPST_I16 = 6,
  OPST_I32 = 7,
  OPST_I64 = 8,
  OPST_BOOL = 9
};

#define OPST_MAX_RANK 4

// Row-major, outermost dimension first; elements of a row are contiguous. Passed by pointer: inputs
// are never written, whatever `data` allows. Optional arguments are NULL, not empty views.
// Checked before anything else: a known dtype, 0 <= rank <= 4, extents that are not negative and
// whose product fits, data that is not NULL (unless there are no elements) and aligned to its
// element.
typedef struct opst_view {
  void* data;
  opst_dtype dtype;
  int32_t rank;
  int64_t shape[OPST_MAX_RANK];  // members at `rank` and above do not count
  int64_t row_stride;            // elements from row to row of a matrix; 0 = contiguous
} opst_view;

#define OPST_NO_VIEW \
  { .data = NULL, .dtype = 0, .rank = 0, .shape = {0, 0, 0, 0}, .row_stride = 0 }

// Contiguous views in one line.
static inline opst_view opst_vector(opst_dtype dtype, const void* data, int64_t length) {
  opst_view view = {(void*)data, dtype, 1, {length, 0, 0, 0}, 0};
  return view;
}
static inline opst_view opst_matrix(opst_dtype dtype, const void* data, int64_t rows,
                                    int64_t columns) {
  opst_view view = {(void*)data, dtype, 2, {rows, columns, 0, 0}, 0};
  return view;
}
static inline opst_view opst_matrices(opst_dtype dtype, const void* data, int64_t count,
                                      int64_t rows, int64_t columns) {
  opst_view view = {(void*)data, dtype, 3, {count, rows, columns, 0}, 0};
  return view;
}

// "f32", "bf16", ...
OPST_API opst_status opst_dtype_name(opst_dtype dtype, const char** name);
OPST_API opst_status opst_dtype_size(opst_dtype dtype, size_t* num_bytes);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_TENSOR_H_
