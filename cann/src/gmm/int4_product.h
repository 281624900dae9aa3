// Products with four-bit weights as CANN scales them: by column or group of rows, and for int8
// inputs of x - 8, the rest being expected in the bias.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_INT4_PRODUCT_H_
#define OPST_CANN_GMM_INT4_PRODUCT_H_

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cann/src/execution/run.h"
#include "cann/src/gmm/matrix_product.h"

namespace opst::cann {

// int4, or eight of them in an int32.
inline constexpr std::array kInt4Weights = {ACL_INT4, ACL_INT32};
// 64-bit scales hold the bits of a float.
inline constexpr std::array kScaleBits = {ACL_INT64, ACL_UINT64};

inline bool IsInt4(aclDataType dtype) { return dtype == ACL_INT4 || dtype == ACL_INT32; }
inline bool IsScaleBits(aclDataType dtype) { return dtype == ACL_INT64 || dtype == ACL_UINT64; }

// Numbers of any float dtype, or in 64 bits. An absent operand has none.
std::vector<float> ReadScales(const Run& run, Index tensor);

// The numbers of one expert's columns.
struct Int4Columns {
  std::vector<float> scale;   // [parts,N]: each for inner / parts rows of the weight
  std::vector<float> bias;    // [N], or empty
  std::vector<float> offset;  // [N], or empty
  bool subtracts_eight = true;
};

// Gives each row's v[n] = Σ_part scale[part,n] · Σ_k (x[k] - 8) · W[k,n] + bias[n]
// + offset[n] · Σ_k x[k] to `finish`, which may run on any worker; without the 8 if so asked.
//   x [R,K] and weight [K,N]: int8, contiguous; product.parts is that of the scales
void MultiplyInt4(const Context& context, const int8_t* x, const int8_t* weight,
                  const IntProduct& product, const Int4Columns& columns,
                  const std::function<void(int64_t row, std::span<const float> values)>& finish);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_INT4_PRODUCT_H_
