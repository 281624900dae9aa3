// Movement of rows by an index list: gather, and scatter-add with weights.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_SPARSE_ROWS_H_
#define OPST_C_SPARSE_ROWS_H_

#include "opst/c/context.h"
#include "opst/c/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether an operator writes its sum over the output or adds to it.
typedef int32_t opst_output_mode;
enum { OPST_OVERWRITE = 0, OPST_ADD = 1 };

// x [T, H] of any dtype, row_indices [R] i32, -1 = a row of zeros -> out [R, H].
OPST_API opst_status opst_sparse_gather(const opst_context* context, const opst_view* x,
                                        const opst_view* row_indices, const opst_view* out);

// rows [R, H], row_indices [R] i32, -1 = nowhere, weights [R] f32, NULL = all 1 -> out [T, H].
OPST_API opst_status opst_sparse_scatter_add(const opst_context* context, const opst_view* rows,
                                             const opst_view* row_indices, const opst_view* weights,
                                             opst_output_mode mode, const opst_view* out);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_SPARSE_ROWS_H_
