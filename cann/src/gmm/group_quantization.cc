// The modes of a grouped product: which one the dtypes mean, and its formula.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/group_quantization.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cann/src/descriptors/descriptors.h"
#include "cann/src/gmm/activation.h"
#include "cann/src/gmm/matrix_product.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

bool IsFloat(aclDataType dtype) {
  return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16;
}

// The numbers of one group in a list of one tensor for all groups, or one a group. 64-bit scales
// hold the bits of a float.
std::vector<float> OfGroup(const Run& run, const std::vector<Index>& list, int64_t group,
                           int64_t num_groups) {
  if (list.empty()) return {};
  const Index tensor = list.size() == 1 ? list[0] : list[static_cast<size_t>(group)];
  std::vector<float> all;
  if (run[tensor].dtype == ACL_INT64 || run[tensor].dtype == ACL_UINT64) {
    for (const int64_t bits : run.Span<const int64_t>(tensor)) {
      all.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
  } else if (run[tensor].dtype == ACL_INT32) {
    for (const int64_t value : run.Ints(tensor)) all.push_back(static_cast<float>(value));
  } else {
    all = run.Floats(tensor);
  }
  if (list.size() > 1) return all;
  const auto part = static_cast<int64_t>(all.size()) / num_groups;
  return {all.begin() + group * part, all.begin() + (group + 1) * part};
}

// How many groups share a list's one tensor.
int64_t SharedBy(const Run& run, const GroupProduct& product) {
  return run[product.weight].rank() == 3 ? run[product.weight].dim(0) : 1;
}

std::vector<int8_t> IntWeight(const Run& run, const GroupProduct& product) {
  const int64_t count = product.inner * product.columns;
  const int64_t first = product.weight_slice * count;
  if (run[product.weight].dtype == ACL_INT4) {
    return UnpackInt4(run.data(product.weight) + first / 2, count);
  }
  const int8_t* const data = reinterpret_cast<const int8_t*>(run.data(product.weight)) + first;
  return {data, data + count};
}

// (W + offset) · scale, per column or per group of rows and column.
std::vector<float> Dequantized(const Run& run, const GroupQuantization& quantization,
                               const GroupProduct& product) {
  const int64_t shared = SharedBy(run, product);
  const auto scale = OfGroup(run, quantization.antiquant_scale, product.group, shared);
  const auto offset = OfGroup(run, quantization.antiquant_offset, product.group, shared);
  const std::vector<int8_t> weight = IntWeight(run, product);
  const int64_t scale_rows = static_cast<int64_t>(scale.size()) / product.columns;
  std::vector<float> result(weight.size());
  for (int64_t k = 0; k < product.inner; ++k) {
    const int64_t line = k * scale_rows / product.inner * product.columns;
    for (int64_t n = 0; n < product.columns; ++n) {
      const auto at = static_cast<size_t>(line + n);
      const auto index = static_cast<size_t>(k * product.columns + n);
      const float shift = offset.empty() ? 0.0f : offset[at];
      result[index] = (static_cast<float>(weight[index]) + shift) * scale[at];
    }
  }
  return result;
}

void MultiplyByFloats(const Run& run, const GroupQuantization& quantization,
                      const GroupProduct& product) {
  const Operand& weight = run[product.weight];
  const auto bias = OfGroup(run, quantization.bias, product.group, SharedBy(run, product));
  const ConstTensorView x(product.x_data, ToDType(run[product.x].dtype),
                          Shape{product.rows, product.inner});
  const TensorView out(product.out_data, ToDType(run[product.out].dtype),
                       Shape{product.rows, product.columns});
  const Shape shape{product.inner, product.columns};
  if (IsFloat(weight.dtype)) {
    const auto bytes = static_cast<size_t>(product.weight_slice * shape.num_elements()) *
                       aclDataTypeSize(weight.dtype);
    const ConstTensorView matrix(run.data(product.weight) + bytes, ToDType(weight.dtype), shape);
    return MultiplyFloats(run.context(), x, matrix, bias, out);
  }
  const std::vector<float> matrix = Dequantized(run, quantization, product);
  MultiplyFloats(run.context(), x, ConstTensorView(matrix.data(), shape), bias, out);
}

float Activate(int64_t activation, float x) {
  switch (activation) {
    case 1:
      return Relu(x);
    case 2:
      return GeluTanh(x);
    case 4:
      return FastGelu(x);
    case 5:
      return Silu(x);
    default:
      return x;
  }
}

void Store(const std::vector<float>& values, aclDataType dtype, std::byte* out) {
  if (dtype != ACL_INT8) {
    return ConvertFromFloat(values.data(), values.size(), ToDType(dtype), out);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const float rounded = std::clamp(std::nearbyint(values[i]), -128.0f, 127.0f);
    out[i] = static_cast<std::byte>(static_cast<int8_t>(rounded));
  }
}

// Integer sums, then the scales.
void MultiplyByInts(const Run& run, const GroupQuantization& quantization,
                    const GroupProduct& product) {
  const int64_t shared = SharedBy(run, product);
  const std::vector<int8_t> weight = IntWeight(run, product);
  const auto scale = OfGroup(run, quantization.scale, product.group, shared);
  const auto bias = OfGroup(run, quantization.bias, product.group, shared);
  const auto per_token =
      quantization.per_token.empty() ? std::vector<float>{} : run.Floats(quantization.per_token[0]);
  const bool has_int_bias =
      !quantization.bias.empty() && run[quantization.bias[0]].dtype == ACL_INT32;
  const aclDataType out_dtype = run[product.out].dtype;
  const size_t row_bytes = static_cast<size_t>(product.columns) * aclDataTypeSize(out_dtype);
  MultiplyInts(
      run.context(), reinterpret_cast<const int8_t*>(product.x_data), weight.data(), product.rows,
      product.inner, product.columns, [&](int64_t row, std::span<const int32_t> sums) {
        std::byte* const out = product.out_data + static_cast<size_t>(row) * row_bytes;
        const float token =
            per_token.empty() ? 1.0f : per_token[static_cast<size_t>(product.first_row + row)];
        std::vector<float> values(sums.size());
        for (size_t n = 0; n < sums.size(); ++n) {
          const int64_t sum = sums[n] + (has_int_bias ? static_cast<int64_t>(bias[n]) : 0);
          if (out_dtype == ACL_INT32) {
            reinterpret_cast<int32_t*>(out)[n] = static_cast<int32_t>(sum);
            continue;
          }
          const float scaled = static_cast<float>(sum) * (scale.empty() ? 1.0f : scale[n]) * token;
          const float shift = bias.empty() || has_int_bias ? 0.0f : bias[n];
          values[n] = Activate(quantization.activation, scaled + shift);
        }
        if (out_dtype != ACL_INT32) Store(values, out_dtype, out);
      });
}

}  // namespace

void CheckQuantization(const Call& call, const GroupQuantization& quantization,
                       const std::vector<Index>& x, const std::vector<Index>& weight,
                       const std::vector<Index>& out, int64_t num_groups) {
  const aclDataType from = call[x[0]].dtype, by = call[weight[0]].dtype, to = call[out[0]].dtype;
  const bool is_int = from == ACL_INT8;
  call.Param(is_int ? by == ACL_INT8 : (by == from || by == ACL_INT8 || by == ACL_INT4),
             "x and weight must be floats alike, int8 by int8, or floats by int8 or int4",
             call[x[0]].Describe(), " and ", call[weight[0]].Describe());
  call.Param(is_int || to == from, "out must have the dtype of x", call[out[0]].Describe());
  call.Param(!is_int || to != ACL_FLOAT, "int8 products must become f16, bf16, int8 or int32",
             call[out[0]].Describe());
  call.Param(!is_int || to == ACL_INT32 || !quantization.scale.empty(),
             "int8 products must have a scale", "none");
  call.Param(is_int || by == from || !quantization.antiquant_scale.empty(),
             "integer weights must have an antiquantScale", "none");
  const int64_t activation = quantization.activation;
  call.Param(activation >= 0 && activation <= 5 && activation != 3,
             "actType must be 0, 1, 2, 4 or 5", activation);
  call.Param(activation == 0 || !quantization.per_token.empty(),
             "an activation must come with perTokenScale", activation);
  const int64_t columns = call[weight[0]].dims.back();
  for (const auto* list : {&quantization.bias, &quantization.scale}) {
    for (const Index index : *list) {
      const int64_t count = columns * (list->size() == 1 ? num_groups : 1);
      call.Param(call[index].num_elements() == count, "bias and scale must be [N] a group",
                 call[index].Describe(), " for ", count, " numbers");
    }
    call.Param(list->size() <= 1 || static_cast<int64_t>(list->size()) == num_groups,
               "lists must have one tensor, or one a group", list->size(), " for ", num_groups);
  }
  for (const auto* list : {&quantization.antiquant_scale, &quantization.antiquant_offset}) {
    for (const Index index : *list) {
      const int64_t count = columns * (list->size() == 1 ? num_groups : 1);
      call.Param(
          count > 0 && call[index].num_elements() % count == 0 &&
              call[index].num_elements() == call[quantization.antiquant_scale[0]].num_elements(),
          "antiquant lists must be [N] or [G,N] a group", call[index].Describe());
    }
  }
  if (quantization.per_token.empty()) return;
  call.Param(quantization.per_token.size() == 1 && x.size() == 1 &&
                 call[quantization.per_token[0]].num_elements() == call[x[0]].dim(0),
             "perTokenScale must be [M] for one x", call[quantization.per_token[0]].Describe());
}

void MultiplyWith(const Run& run, const GroupQuantization& quantization,
                  const GroupProduct& product) {
  if (run[product.x].dtype == ACL_INT8) {
    MultiplyByInts(run, quantization, product);
  } else {
    MultiplyByFloats(run, quantization, product);
  }
}

}  // namespace opst::cann
