// How one group's product is scaled, by the dtypes of its operands: floats, int8 by int8 or int4,
// int4 by int4, floats by int8 or int4.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_GROUP_QUANTIZATION_H_
#define OPST_CANN_GMM_GROUP_QUANTIZATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {

// Each list has one tensor [E,...] for all groups, one a group, or none.
struct GroupQuantization {
  std::vector<Index> bias;
  std::vector<Index> scale;
  std::vector<Index> offset;  // of int8 by int4
  std::vector<Index> antiquant_scale;
  std::vector<Index> antiquant_offset;
  std::vector<Index> per_token;  // [M]
  int64_t activation = 0;        // 0 none, 1 relu, 2 gelu tanh, 4 fast gelu, 5 silu
};

// Bias, scale, offset and antiquant lists have a tensor for each weight, as large as its columns
// and matrices ask for (161002).
void CheckNumbers(const Call& call, const GroupQuantization& quantization,
                  const std::vector<Index>& weight);

// Contiguous rows of one group: where they are, and which weight they meet.
struct GroupProduct {
  Index weight;
  int64_t weight_slice;  // of a tensor [E,K,N]
  int64_t group;
  int64_t first_row;  // in perTokenScale
  aclDataType x_dtype;
  const std::byte* x;  // int4 a number a byte
  aclDataType out_dtype;
  std::byte* out;
  int64_t rows;
  int64_t inner;
  int64_t columns;
};

void MultiplyWith(const Run& run, const GroupQuantization& quantization,
                  const GroupProduct& product);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_GROUP_QUANTIZATION_H_
