// The one implementation of CANN's grouped_matmul: row groups with a weight each, or groups of the
// inner dim that give an output each.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/gmm/grouped_call.h"

#include <algorithm>
#include <vector>

#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/gmm/group_list.h"
#include "cann/src/gmm/group_quantization.h"
#include "cann/src/gmm/int4_product.h"
#include "cann/src/gmm/product_kind.h"
#include "cann/src/gmm/weight_matrix.h"
#include "opst/ops/grouped_matmul.h"

namespace opst::cann {
namespace {

constexpr std::array kInputs = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT4, ACL_INT32};
constexpr std::array kWeights = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT4, ACL_INT32};
constexpr std::array kBiases = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32};
constexpr std::array kScales = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT64, ACL_UINT64};
constexpr std::array kOutputs = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT32};
constexpr int64_t kMaxGroups = 1024;
constexpr int64_t kMaxListed = 128;

using Indices = std::vector<Index>;

struct Operands {
  Indices x, weight, out;
  GroupQuantization quantization;
  Index groups = kAbsent;
  std::vector<int64_t> host_groups;
  bool has_host_groups = false;

  bool has_groups() const { return groups != kAbsent || has_host_groups; }
};

Operands Declare(Call& call, const GroupedArguments& arguments) {
  Operands operands;
  operands.x = call.Inputs("x", arguments.x, kInputs);
  operands.weight = call.Inputs("weight", arguments.weight, kWeights);
  GroupQuantization& quantization = operands.quantization;
  quantization.bias = call.Inputs("bias", arguments.bias, kBiases, Need::kOptional);
  quantization.scale = call.Inputs("scale", arguments.scale, kScales, Need::kOptional);
  quantization.offset = call.Inputs("offset", arguments.offset, kF32, Need::kOptional);
  quantization.antiquant_scale =
      call.Inputs("antiquantScale", arguments.antiquant_scale, kFloats, Need::kOptional);
  quantization.antiquant_offset =
      call.Inputs("antiquantOffset", arguments.antiquant_offset, kFloats, Need::kOptional);
  quantization.per_token =
      call.Inputs("perTokenScale", arguments.per_token_scale, kF32, Need::kOptional);
  operands.groups = call.Input("groupList", arguments.groups, kI64, Need::kOptional);
  operands.out = call.Outputs("out", arguments.out, kOutputs);
  operands.has_host_groups = arguments.host_groups != nullptr;
  operands.host_groups = call.IntArray("groupList", arguments.host_groups);
  quantization.activation = arguments.activation;
  call.CheckOperands();
  return operands;
}

int64_t Rows(const Operand& operand) {
  return operand.rank() == 0 ? 0
                             : operand.num_elements() / std::max<int64_t>(operand.dims.back(), 1);
}

// Weight g of a list, or matrix g of the one tensor [E,K,N].
struct WeightMatrix {
  Index tensor;
  int64_t slice;
  int64_t inner;
  int64_t columns;
};

class Weights {
 public:
  Weights(const Call& call, const Indices& tensors) : tensors_(tensors) {
    const Operand& first = call[tensors.front()];
    is_stacked_ = ShapeOfWeight(first).experts > 0;
    call.Param(!is_stacked_ || tensors.size() == 1, "weight must be one [E,K,N] or a list of [K,N]",
               first.Describe());
    for (const Index index : tensors) {
      const Operand& weight = call[index];
      call.Param(weight.dtype == first.dtype && weight.rank() == first.rank(),
                 "weights must be alike", weight.Describe());
      shapes_.push_back(ShapeOfWeight(weight));
      call.Param(shapes_.back().columns > 0 ||
                     (!weight.is_fractal() && (weight.rank() == 2 || is_stacked_)),
                 "weight must be [E,K,N] or [K,N], plain or in whole blocks of a fractal layout",
                 weight.Describe());
    }
    count_ = is_stacked_ ? shapes_[0].experts : static_cast<int64_t>(tensors.size());
  }
  int64_t count() const { return count_; }
  WeightMatrix operator[](int64_t group) const {
    const auto at = is_stacked_ ? 0 : static_cast<size_t>(group);
    return {tensors_[at], is_stacked_ ? group : 0, shapes_[at].inner, shapes_[at].columns};
  }

 private:
  Indices tensors_;
  bool is_stacked_ = false;
  int64_t count_ = 0;
  std::vector<WeightShape> shapes_;
};

// out rows = x rows · weight, in the way that the dtypes ask for.
void MultiplyGroup(const Run& run, const Operands& operands, const WeightMatrix& weight,
                   int64_t group, Index x, int64_t x_row, Index out, int64_t out_row,
                   int64_t rows) {
  if (rows == 0) return;
  const aclDataType from = IsInt4(run[x].dtype) ? ACL_INT4 : run[x].dtype, to = run[out].dtype;
  const int64_t first = x_row * weight.inner;
  std::vector<int8_t> unpacked;
  const std::byte* x_data = run.data(x) + static_cast<size_t>(first) * aclDataTypeSize(from);
  if (from == ACL_INT4) {
    unpacked = UnpackInt4(run.data(x), first, rows * weight.inner);
    x_data = reinterpret_cast<const std::byte*>(unpacked.data());
  }
  const auto out_bytes = static_cast<size_t>(out_row * weight.columns) * aclDataTypeSize(to);
  const GroupProduct product{
      weight.tensor, weight.slice,  group, x_row, from, x_data, to, run.data(out) + out_bytes, rows,
      weight.inner,  weight.columns};
  MultiplyWith(run, operands.quantization, product);
}

std::vector<RowGroup> GroupsOf(const Run& run, const Operands& operands, GroupListType type,
                               int64_t rows, int64_t num_weights) {
  const std::vector<int64_t> list =
      operands.groups == kAbsent ? operands.host_groups : run.Ints(operands.groups);
  return ReadGroups(run, list, type, rows, num_weights);
}

// The argument of WeightNz says what the dims of antiquantScale say; 0 = nothing.
void CheckGroupSize(const Call& call, const Operands& operands, const Weights& weights,
                    int64_t group_size) {
  const Indices& scale = operands.quantization.antiquant_scale;
  if (group_size == 0 || scale.empty()) return;
  const int64_t matrices = scale.size() > 1 ? 1 : weights.count();
  const WeightMatrix weight = weights[0];
  call.Param(
      group_size > 0 && weight.inner % group_size == 0 &&
          call[scale[0]].num_elements() == matrices * weight.columns * (weight.inner / group_size),
      "quantGroupSize must be the rows of a group of antiquantScale", group_size, " for ",
      call[scale[0]].Describe());
}

// Every x[i] with its own weight[i].
Body NoSplit(const Call& call, const Operands& operands, const Weights& weights) {
  call.Param(
      operands.x.size() == operands.weight.size() && (operands.out.size() == operands.x.size()),
      "without split x, weight and out must be lists of one length", operands.x.size(), ", ",
      operands.weight.size(), ", ", operands.out.size());
  call.Param(!operands.has_groups(), "without split groupList must be null", "a list");
  for (size_t i = 0; i < operands.x.size(); ++i) {
    const Operand& x = call[operands.x[i]];
    const WeightMatrix weight = weights[static_cast<int64_t>(i)];
    std::vector<int64_t> dims = x.dims;
    call.Param(x.rank() >= 2 && x.rank() <= 6 && InnerOf(x) == weight.inner,
               "x must be [...,K] for weight [K,N]", x.Describe());
    dims.back() = weight.columns;
    call.Param(call[operands.out[i]].dims == dims, "out must be [...,N]",
               call[operands.out[i]].Describe());
  }
  return [=](Run& run) {
    for (size_t i = 0; i < operands.x.size(); ++i) {
      MultiplyGroup(run, operands, weights[static_cast<int64_t>(i)], static_cast<int64_t>(i),
                    operands.x[i], 0, operands.out[i], 0, Rows(run[operands.x[i]]));
    }
  };
}

// Rows in groups. x and out are one tensor each, or lists with one entry a group.
Body SplitRows(const Call& call, const Operands& operands, const Weights& weights,
               GroupListType type) {
  const bool one_x = operands.x.size() == 1, one_out = operands.out.size() == 1;
  const auto num_groups = static_cast<size_t>(weights.count());
  call.Param(
      (one_x || operands.x.size() == num_groups) && (one_out || operands.out.size() == num_groups),
      "x and out must be one tensor or one for each weight", operands.x.size(), " and ",
      operands.out.size(), " for ", num_groups);
  call.Param(weights.count() <= (operands.weight.size() > 1 ? kMaxListed : kMaxGroups),
             "there must be at most 1024 groups, or 128 listed weights", num_groups);
  call.Param(operands.has_groups() || (!one_x || num_groups == 1),
             "groupList must say which rows of x belong together", "none");
  int64_t rows = 0;
  for (const Index index : operands.x) {
    call.Param(call[index].rank() == 2 && InnerOf(call[index]) == weights[0].inner,
               "x must be [M,K] for weight [K,N]", call[index].Describe());
    rows += call[index].dim(0);
  }
  int64_t out_rows = 0;
  for (const Index index : operands.out) {
    call.Param(call[index].rank() == 2 && call[index].dim(1) == weights[0].columns,
               "out must be [M,N]", call[index].Describe());
    out_rows += call[index].dim(0);
  }
  call.Param(out_rows == rows, "out must have the rows of x", out_rows, " for ", rows);
  return [=](Run& run) {
    std::vector<RowGroup> groups;
    if (operands.has_groups()) {
      groups = GroupsOf(run, operands, type, rows, weights.count());
    } else {
      for (size_t i = 0; i < operands.x.size(); ++i) {
        const int64_t begin = groups.empty() ? 0 : groups.back().end;
        groups.push_back({begin, begin + run[operands.x[i]].dim(0), static_cast<int64_t>(i)});
      }
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      const RowGroup& group = groups[i];
      const Index x = one_x ? operands.x[0] : operands.x[i];
      const Index out = one_out ? operands.out[0] : operands.out[i];
      run.Value(
          (one_x || group.size() == run[x].dim(0)) && (one_out || group.size() == run[out].dim(0)),
          "listed tensors must have the rows of their groups", group.size(), " rows");
      MultiplyGroup(run, operands, weights[group.weight], group.weight, x, one_x ? group.begin : 0,
                    out, one_out ? group.begin : 0, group.size());
    }
  };
}

// Groups of the inner dim: out[g] = x[:, group] · weight[group, :], x [M,K] being a view of [K,M].
void SumOverGroups(const Run& run, const Operands& operands, GroupListType type) {
  const Index x = operands.x[0], weight = operands.weight[0], out = operands.out[0];
  const int64_t rows = run[x].dim(0), inner = run[x].dim(1), columns = run[weight].dim(1);
  const auto groups = GroupsOf(run, operands, type, inner, run[out].dim(0));
  const std::vector<float> values = run.Floats(x);
  std::vector<float> transposed(values.size());
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t k = 0; k < inner; ++k) {
      transposed[static_cast<size_t>(k * rows + m)] = values[static_cast<size_t>(m * inner + k)];
    }
  }
  std::vector<int64_t> offsets = {0};
  for (const RowGroup& group : groups) offsets.push_back(group.end);
  const int64_t used = offsets.back(), count = static_cast<int64_t>(groups.size());
  std::vector<float> sums(static_cast<size_t>(count * rows * columns), 0.0f);
  if (sums.empty()) return;
  GroupedMatmulWeightGradient(
      run.context(),
      ConstTensorView(run.data(weight), run.In(weight, inner, columns).dtype(),
                      Shape{used, columns}),
      ConstTensorView(transposed.data(), Shape{used, rows}), offsets, OutputMode::kOverwrite,
      TensorView(sums.data(), Shape{count, rows, columns}));
  run.SetFloats(out, sums);
}

Body SplitInner(const Call& call, const Operands& operands, GroupListType type) {
  call.Param(operands.x.size() == 1 && operands.weight.size() == 1 && operands.out.size() == 1 &&
                 operands.has_groups(),
             "groups of the inner dim must have one x, weight and out, and a groupList",
             operands.x.size(), ", ", operands.weight.size(), ", ", operands.out.size());
  const Operand& x = call[operands.x[0]];
  const Operand& weight = call[operands.weight[0]];
  const Operand& out = call[operands.out[0]];
  call.Param(x.rank() == 2 && weight.rank() == 2 && out.rank() == 3 && x.dim(1) == weight.dim(0) &&
                 out.dim(1) == x.dim(0) && out.dim(2) == weight.dim(1) &&
                 operands.quantization.bias.empty(),
             "x [M,K], weight [K,N] and out [E,M,N] must fit, without bias", x.Describe(), ", ",
             weight.Describe(), ", ", out.Describe());
  call.Param(x.dtype == weight.dtype && x.dtype == out.dtype && x.dtype != ACL_INT8 &&
                 !IsInt4(x.dtype) && !weight.is_fractal(),
             "x, weight and out must have one float dtype, in format ND", x.Describe());
  return [=](Run& run) { SumOverGroups(run, operands, type); };
}

}  // namespace

aclnnStatus PrepareGroupedMatmul(const char* name, const GroupedArguments& arguments,
                                 uint64_t* workspace_size, aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    const Operands operands = Declare(call, arguments);
    call.Param(arguments.activation_inputs == nullptr && arguments.reserved_outputs == nullptr,
               "arguments that CANN reserves must be null", "a list");
    call.Param(!operands.x.empty() && !operands.weight.empty() && !operands.out.empty(),
               "x, weight and out must not be empty lists", "an empty one");
    call.Param(arguments.split_item >= 0 && arguments.split_item <= 3, "splitItem must be 0 to 3",
               arguments.split_item);
    call.Param(arguments.split_item < 2 || operands.out.size() == 1,
               "with splitItem 2 or 3 out must be one tensor", operands.out.size());
    call.Param(arguments.group_list_type >= 0 && arguments.group_list_type <= 2,
               "groupListType must be 0, 1 or 2", arguments.group_list_type);
    const auto type = static_cast<GroupListType>(arguments.group_list_type);
    if (arguments.group_type == 2) return SplitInner(call, operands, type);
    const Weights weights(call, operands.weight);
    CheckQuantization(call, operands.quantization, operands.x, operands.weight, operands.out);
    CheckGroupSize(call, operands, weights, arguments.quant_group_size);
    if (arguments.group_type == -1) return NoSplit(call, operands, weights);
    call.Param(arguments.group_type == 0, "groupType must be -1, 0 or 2", arguments.group_type);
    return SplitRows(call, operands, weights, type);
  });
}

}  // namespace opst::cann
