// The checks of each kind of product.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/product_kind.h"

#include "cann/src/gmm/int4_product.h"

namespace opst::cann {
namespace {

bool IsFloat(aclDataType dtype) {
  return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16;
}

// Floats by floats, int8 or int4.
void CheckFloats(const Call& call, const GroupQuantization& quantization, const Operand& x,
                 const Operand& weight, const Operand& out) {
  call.Param(weight.dtype == x.dtype || !IsFloat(weight.dtype),
             "x and weight must be floats alike, int8 by int8 or int4, int4 by int4, or floats by "
             "int8 or int4",
             x.Describe(), " and ", weight.Describe());
  call.Param(out.dtype == x.dtype, "out must have the dtype of x", out.Describe());
  call.Param(weight.dtype == x.dtype || !quantization.antiquant_scale.empty(),
             "integer weights must have an antiquantScale", "none");
}

// int8 by int8.
void CheckInts(const Call& call, const GroupQuantization& quantization, const Operand& out) {
  call.Param(out.dtype != ACL_FLOAT, "int8 products must become f16, bf16, int8 or int32",
             out.Describe());
  call.Param(out.dtype == ACL_INT32 || !quantization.scale.empty(),
             "int8 products must have a scale", "none");
}

// int8 or int4 by int4.
void CheckInt4(const Call& call, const GroupQuantization& quantization, const Operand& x,
               const Operand& weight, const Operand& out) {
  const bool is_int8 = x.dtype == ACL_INT8;
  call.Param(out.dtype == ACL_FLOAT16 || out.dtype == ACL_BF16,
             "products with int4 must become f16 or bf16", out.Describe());
  call.Param(!quantization.scale.empty() && IsScaleBits(call[quantization.scale[0]].dtype),
             "products with int4 must have a scale of 64 bits",
             quantization.scale.empty() ? "none" : call[quantization.scale[0]].Describe());
  call.Param(quantization.antiquant_scale.empty() && quantization.activation == 0,
             "products with int4 must have neither antiquantScale nor an activation",
             quantization.activation);
  if (!is_int8) {
    call.Param(quantization.bias.empty() && quantization.offset.empty(),
               "int4 by int4 must have neither bias nor offset", x.Describe());
    return;
  }
  call.Param(!quantization.bias.empty() && call[quantization.bias[0]].dtype == ACL_FLOAT,
             "int8 by int4 must have the f32 bias that makes up for its shift",
             quantization.bias.empty() ? "none" : call[quantization.bias[0]].Describe());
  call.Param(!quantization.per_token.empty(), "int8 by int4 must have a perTokenScale",
             weight.Describe());
}

}  // namespace

void CheckQuantization(const Call& call, const GroupQuantization& quantization,
                       const std::vector<Index>& x, const std::vector<Index>& weight,
                       const std::vector<Index>& out) {
  const Operand& from = call[x[0]];
  const Operand& by = call[weight[0]];
  const Operand& to = call[out[0]];
  const bool is_int8 = from.dtype == ACL_INT8, is_int4 = IsInt4(from.dtype);
  call.Param(!(is_int8 || is_int4) || IsInt4(by.dtype) || (is_int8 && by.dtype == ACL_INT8),
             "integers must be int8 by int8 or int4, or int4 by int4", from.Describe(), " and ",
             by.Describe());
  if ((is_int8 || is_int4) && IsInt4(by.dtype)) {
    CheckInt4(call, quantization, from, by, to);
  } else if (is_int8) {
    CheckInts(call, quantization, to);
  } else {
    CheckFloats(call, quantization, from, by, to);
  }
  call.Param(quantization.offset.empty() || (is_int8 && IsInt4(by.dtype)),
             "offset must be null but for int8 by int4", from.Describe(), " and ", by.Describe());
  const int64_t activation = quantization.activation;
  call.Param(activation >= 0 && activation <= 5 && activation != 3,
             "actType must be 0, 1, 2, 4 or 5", activation);
  call.Param(activation == 0 || !quantization.per_token.empty(),
             "an activation must come with perTokenScale", activation);
  CheckNumbers(call, quantization, weight);
  if (quantization.per_token.empty()) return;
  call.Param(quantization.per_token.size() == 1 && x.size() == 1 && from.rank() == 2 &&
                 call[quantization.per_token[0]].num_elements() == from.dim(0),
             "perTokenScale must be [M] for one x", call[quantization.per_token[0]].Describe());
}

}  // namespace opst::cann
