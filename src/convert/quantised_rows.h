// Rows of matrices that safetensors checkpoints store quantised, expanded to f32; one function per
// storage scheme. Names and shapes are checked by the caller.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_QUANTISED_ROWS_H_
#define OPST_CONVERT_QUANTISED_ROWS_H_

#include <cstdint>

#include "io/sharded_checkpoint.h"

namespace opst {

// w [.., N, K] F8_E4M3 and scales [.., ⌈N/block_rows⌉, ⌈K/block_columns⌉] F32, BF16 or F16. Row r
// of all leading extents together.
struct Fp8Matrix {
  const ShardedCheckpoint* checkpoint;
  const SourceTensor* weights;
  const SourceTensor* scales;
  int64_t rows, columns;  // N, K
  int64_t block_rows, block_columns;
  void Rows(int64_t first, int64_t count, float* out) const;
};

// blocks [E, N, G, 16] and scales [E, N, G], U8; rows of the transpose [E, 32 G, N]. Byte i of a
// block holds values 2i (low half) and 2i + 1.
struct Mxfp4Matrix {
  const ShardedCheckpoint* checkpoint;
  const SourceTensor* blocks;
  const SourceTensor* scales;
  int64_t out, groups;  // N, G
  void Rows(int64_t first, int64_t count, float* out_rows) const;
};

// GPTQ: qweight [K/8, N] I32 (value k in bits 4(k mod 8)), qzeros [G, N/8] I32, scales [G, N],
// g_idx [K] I32 or none (then k / group_size): w[n, k] = scales[g, n] · (q - zero - zero_offset).
struct GptqMatrix {
  const ShardedCheckpoint* checkpoint;
  const SourceTensor* weights;
  const SourceTensor* zeros;
  const SourceTensor* scales;
  const SourceTensor* groups;  // nullptr without g_idx
  int64_t out, in, num_groups, group_size, zero_offset;
  void Rows(int64_t first, int64_t count, float* out_rows) const;
};

// AWQ: qweight [K, N/8] I32 and qzeros [G, N/8] I32, eight columns a word in the order 0 2 4 6 1 3
// 5 7, scales [G, N]: w[n, k] = scales[k / group_size, n] · (q - zero).
struct AwqMatrix {
  const ShardedCheckpoint* checkpoint;
  const SourceTensor* weights;
  const SourceTensor* zeros;
  const SourceTensor* scales;
  int64_t out, in, group_size;
  void Rows(int64_t first, int64_t count, float* out_rows) const;
};

}  // namespace opst

#endif  // OPST_CONVERT_QUANTISED_ROWS_H_
