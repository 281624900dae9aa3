// The modes of a grouped product: which one the dtypes mean, and its formula.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/group_quantization.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "cann/src/descriptors/descriptors.h"
#include "cann/src/gmm/int4_product.h"
#include "cann/src/gmm/matrix_product.h"
#include "cann/src/gmm/weight_matrix.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

bool IsFloat(aclDataType dtype) {
  return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16;
}

// How many groups share a list's one tensor.
int64_t SharedBy(const Operand& weight) { return ShapeOfWeight(weight).num_matrices(); }

WeightShape ShapeOf(const GroupProduct& product) { return {0, product.inner, product.columns}; }

// The numbers of one group in a list of one tensor for all groups, or one a group.
template <typename Read>
auto OfGroup(const Run& run, const std::vector<Index>& list, const GroupProduct& product,
             const Read& read) -> decltype(read(list[0])) {
  if (list.empty()) return {};
  const auto all = read(list.size() == 1 ? list[0] : list[static_cast<size_t>(product.group)]);
  if (list.size() > 1) return all;
  const auto part = static_cast<int64_t>(all.size()) / SharedBy(run[product.weight]);
  return {all.begin() + product.group * part, all.begin() + (product.group + 1) * part};
}

std::vector<float> FloatsOfGroup(const Run& run, const std::vector<Index>& list,
                                 const GroupProduct& product) {
  return OfGroup(run, list, product, [&](Index tensor) { return ReadScales(run, tensor); });
}

std::vector<int8_t> IntWeight(const Run& run, const GroupProduct& product) {
  return ReadIntWeight(run, product.weight, ShapeOf(product), product.weight_slice);
}

// (W + offset) · scale, per column or per group of rows and column.
std::vector<float> Dequantized(const Run& run, const GroupQuantization& quantization,
                               const GroupProduct& product) {
  if (product.columns == 0) return {};
  const auto scale = FloatsOfGroup(run, quantization.antiquant_scale, product);
  const auto offset = FloatsOfGroup(run, quantization.antiquant_offset, product);
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
  const auto bias = FloatsOfGroup(run, quantization.bias, product);
  const ConstTensorView x(product.x, ToDType(product.x_dtype), Shape{product.rows, product.inner});
  const TensorView out(product.out, ToDType(product.out_dtype),
                       Shape{product.rows, product.columns});
  if (IsFloat(run[product.weight].dtype)) {
    std::vector<uint16_t> copy;
    return MultiplyFloats(
        run.context(), x,
        ReadFloatWeight(run, product.weight, ShapeOf(product), product.weight_slice, copy), bias,
        out);
  }
  const std::vector<float> matrix = Dequantized(run, quantization, product);
  MultiplyFloats(run.context(), x,
                 ConstTensorView(matrix.data(), Shape{product.inner, product.columns}), bias, out);
}

std::optional<Activation> FindActivation(int64_t act_type) {
  switch (act_type) {
    case 1:
      return Activation::kRelu;
    case 2:
      return Activation::kGeluTanh;
    case 4:
      return Activation::kQuickGelu;
    case 5:
      return Activation::kSilu;
    default:
      return std::nullopt;
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
  const std::vector<int8_t> weight = IntWeight(run, product);
  const auto scale = FloatsOfGroup(run, quantization.scale, product);
  const bool has_int_bias =
      !quantization.bias.empty() && run[quantization.bias[0]].dtype == ACL_INT32;
  const auto int_bias = OfGroup(run, has_int_bias ? quantization.bias : std::vector<Index>{},
                                product, [&](Index tensor) { return run.Ints(tensor); });
  const auto bias =
      FloatsOfGroup(run, has_int_bias ? std::vector<Index>{} : quantization.bias, product);
  const auto per_token =
      quantization.per_token.empty() ? std::vector<float>{} : run.Floats(quantization.per_token[0]);
  const std::optional<Activation> activation = FindActivation(quantization.activation);
  const size_t row_bytes =
      static_cast<size_t>(product.columns) * aclDataTypeSize(product.out_dtype);
  MultiplyInts(
      run.context(), reinterpret_cast<const int8_t*>(product.x), weight.data(),
      {product.rows, product.inner, product.columns},
      [&](int64_t row, std::span<const int32_t> sums) {
        std::byte* const out = product.out + static_cast<size_t>(row) * row_bytes;
        const float token =
            per_token.empty() ? 1.0f : per_token[static_cast<size_t>(product.first_row + row)];
        std::vector<float> values(sums.size());
        for (size_t n = 0; n < sums.size(); ++n) {
          const int64_t sum = sums[n] + (has_int_bias ? int_bias[n] : 0);
          if (product.out_dtype == ACL_INT32) {
            reinterpret_cast<int32_t*>(out)[n] = static_cast<int32_t>(sum);
            continue;
          }
          const float scaled = static_cast<float>(sum) * (scale.empty() ? 1.0f : scale[n]) * token;
          values[n] = scaled + (bias.empty() ? 0.0f : bias[n]);
        }
        if (product.out_dtype == ACL_INT32) return;
        if (activation) ElementActivation(*activation, values.data(), values.size());
        Store(values, product.out_dtype, out);
      });
}

// int8 or int4 inputs with int4 weights.
void MultiplyByInt4(const Run& run, const GroupQuantization& quantization,
                    const GroupProduct& product) {
  if (product.columns == 0) return;
  const std::vector<int8_t> weight = IntWeight(run, product);
  const Int4Columns columns{FloatsOfGroup(run, quantization.scale, product),
                            FloatsOfGroup(run, quantization.bias, product),
                            FloatsOfGroup(run, quantization.offset, product),
                            product.x_dtype == ACL_INT8};
  const auto per_token =
      quantization.per_token.empty() ? std::vector<float>{} : run.Floats(quantization.per_token[0]);
  const size_t row_bytes =
      static_cast<size_t>(product.columns) * aclDataTypeSize(product.out_dtype);
  const int64_t parts = static_cast<int64_t>(columns.scale.size()) / product.columns;
  MultiplyInt4(run.context(), reinterpret_cast<const int8_t*>(product.x), weight.data(),
               {product.rows, product.inner, product.columns, parts}, columns,
               [&](int64_t row, std::span<const float> sums) {
                 std::vector<float> values(sums.begin(), sums.end());
                 const auto at = static_cast<size_t>(product.first_row + row);
                 for (float& value : values) value *= per_token.empty() ? 1.0f : per_token[at];
                 Store(values, product.out_dtype,
                       product.out + static_cast<size_t>(row) * row_bytes);
               });
}

}  // namespace

void CheckNumbers(const Call& call, const GroupQuantization& quantization,
                  const std::vector<Index>& weight) {
  const auto check = [&](const std::vector<Index>& list, bool has_groups) {
    call.Param(list.empty() || list.size() == weight.size(),
               "lists must have a tensor for each weight", list.size(), " for ", weight.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const WeightShape matrix = ShapeOfWeight(call[weight[i]]);
      const int64_t once = matrix.columns * matrix.num_matrices();
      const int64_t count = call[list[i]].num_elements();
      if (!has_groups || once == 0) {
        call.Param(count == once, Concat(call[list[i]].name, " must be [N] a group"),
                   call[list[i]].Describe(), " for ", once, " numbers");
        continue;
      }
      call.Param(count > 0 && count % once == 0 && matrix.inner % (count / once) == 0,
                 Concat(call[list[i]].name, " must be [N] or [G,N] a group, G dividing K"),
                 call[list[i]].Describe(), " for ", call[weight[i]].Describe());
    }
  };
  check(quantization.bias, false);
  check(quantization.scale, IsInt4(call[weight[0]].dtype));
  check(quantization.offset, false);
  check(quantization.antiquant_scale, true);
  check(quantization.antiquant_offset, true);
  for (size_t i = 0; i < quantization.antiquant_offset.size(); ++i) {
    call.Param(!quantization.antiquant_scale.empty() &&
                   call[quantization.antiquant_offset[i]].num_elements() ==
                       call[quantization.antiquant_scale[i]].num_elements(),
               "antiquantOffset must have the dims of antiquantScale",
               call[quantization.antiquant_offset[i]].Describe());
  }
}

void MultiplyWith(const Run& run, const GroupQuantization& quantization,
                  const GroupProduct& product) {
  const bool is_int = product.x_dtype == ACL_INT8 || product.x_dtype == ACL_INT4;
  if (is_int && IsInt4(run[product.weight].dtype)) {
    MultiplyByInt4(run, quantization, product);
  } else if (is_int) {
    MultiplyByInts(run, quantization, product);
  } else {
    MultiplyByFloats(run, quantization, product);
  }
}

}  // namespace opst::cann
