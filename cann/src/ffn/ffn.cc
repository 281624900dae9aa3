// CANN's feed-forward operator in its three versions: act(x W1 + b1) W2 + b2, for each expert's
// rows or for all; floats, int8 throughout, or floats with integer weights.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "aclnnop/aclnn_ffn.h"
#include "aclnnop/aclnn_ffn_v2.h"
#include "aclnnop/aclnn_ffn_v3.h"
#include "base/strings.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/gmm/group_list.h"
#include "cann/src/gmm/group_quantization.h"
#include "cann/src/moe/quantize.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr std::array kWeights = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT8, ACL_INT4};
constexpr std::array kBiases = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32};
constexpr std::array kDeqScales = {ACL_FLOAT, ACL_BF16, ACL_INT64, ACL_UINT64};
constexpr int64_t kMaxExperts = 256;
constexpr int64_t kMaxExtent = 65536;

struct NamedActivation {
  const char* name;
  Activation activation;
  bool is_gated;  // the left half of the columns times the activated right half
};
constexpr NamedActivation kActivations[] = {
    {"fastgelu", Activation::kQuickGelu, false}, {"gelu", Activation::kGeluTanh, false},
    {"relu", Activation::kRelu, false},          {"silu", Activation::kSilu, false},
    {"geglu", Activation::kGeluTanh, true},      {"swiglu", Activation::kSilu, true},
    {"reglu", Activation::kRelu, true},
};

// What every version hands over.
struct Arguments {
  const aclTensor *x, *weight1, *weight2;
  const aclTensor *bias1, *bias2;
  const aclTensor *scale, *offset, *deq_scale1, *deq_scale2;
  const aclTensor *antiquant_scale1, *antiquant_scale2, *antiquant_offset1, *antiquant_offset2;
  const char* activation;
  int64_t inner_precise;
  const aclTensor* y;
  const aclIntArray* host_tokens = nullptr;  // V1 and V2
  const aclTensor* tokens = nullptr;         // V3
  bool tokens_are_sums = false;
};

struct Operands {
  Index x, weight1, weight2, tokens, scale, offset, y;
  GroupQuantization first, second;  // of the two products
  std::vector<int64_t> host_tokens;
  bool has_experts = false;
  const NamedActivation* activation = nullptr;
  bool tokens_are_sums = false;
  int64_t rows = 0, in = 0, hidden = 0, inner = 0,
          experts = 1;  // x [rows,in], W1 [in,hidden], W2 [inner,in]
};

const NamedActivation* FindActivation(const Call& call, const char* name) {
  call.RequirePointer("activation", name);
  const std::string lower = ToLower(name);
  for (const NamedActivation& row : kActivations) {
    if (lower == row.name) return &row;
  }
  call.Param(false, "activation must be fastgelu, gelu, relu, silu, geglu, swiglu or reglu", name);
  return nullptr;
}

void CheckShapes(const Call& call, Operands& operands) {
  const Operand& x = call[operands.x];
  const Operand& w1 = call[operands.weight1];
  const Operand& w2 = call[operands.weight2];
  const size_t rank = operands.has_experts ? 3 : 2;
  call.Param(x.rank() >= 2 && x.rank() <= 8, "x must have 2 to 8 dims", x.Describe());
  call.Param(w1.rank() == rank && w2.rank() == rank && !w1.is_fractal() && !w2.is_fractal(),
             "weights must be [K,N], with experts [E,K,N], in format ND", w1.Describe(), " and ",
             w2.Describe());
  operands.in = x.dims.back();
  operands.rows = operands.in == 0 ? 0 : x.num_elements() / operands.in;
  operands.hidden = w1.dims.back();
  operands.inner = w2.dim(rank - 2);
  const bool is_gated = operands.activation->is_gated;
  call.Param(w1.dim(rank - 2) == operands.in && w2.dims.back() == operands.in &&
                 operands.hidden == operands.inner * (is_gated ? 2 : 1) &&
                 std::max(operands.hidden, operands.in) < kMaxExtent,
             "weight1 must be [K,N1] and weight2 [N1,K], or [N1/2,K] with a gate, below 65536",
             w1.Describe(), " and ", w2.Describe());
  call.Param(call[operands.y].dims == x.dims, "y must have the dims of x",
             call[operands.y].Describe());
  if (operands.has_experts) {
    operands.experts = w1.dim(0);
    call.Param(w2.dim(0) == operands.experts && operands.experts <= kMaxExperts && !is_gated,
               "both weights must have the same experts, at most 256, without a gate",
               w1.Describe(), " and ", w2.Describe());
  }
  CheckNumbers(call, operands.first, {operands.weight1});
  CheckNumbers(call, operands.second, {operands.weight2});
  if (operands.scale == kAbsent) return;
  const int64_t scales = call[operands.scale].num_elements();
  call.Param(scales == operands.experts || scales == operands.experts * operands.inner,
             "scale must be one number or [N1] an expert", call[operands.scale].Describe());
  call.Param(call[operands.offset].num_elements() == operands.experts,
             "offset must be one number an expert", call[operands.offset].Describe());
}

// The three kinds of layers: floats, int8 throughout, floats with integer weights.
void CheckDTypes(const Call& call, const Operands& operands) {
  const Operand& x = call[operands.x];
  const Operand& weight = call[operands.weight1];
  const bool is_int = x.dtype == ACL_INT8, has_int_weight = weight.dtype != x.dtype;
  call.SameDType(operands.weight2, operands.weight1);
  call.Param(is_int ? !has_int_weight
                    : !has_int_weight || weight.dtype == ACL_INT8 || weight.dtype == ACL_INT4,
             "x and weights must be floats alike, int8 by int8, or floats by int8 or int4",
             x.Describe(), " and ", weight.Describe());
  const aclDataType out = call[operands.y].dtype;
  call.Param(is_int ? out != ACL_FLOAT : out == x.dtype,
             "y must have the dtype of x, or be f16 or bf16 for int8", call[operands.y].Describe());
  const auto are = [&](bool is_expected, std::initializer_list<bool> present, const char* names) {
    for (const bool is_present : present) {
      call.Param(is_present == is_expected,
                 Concat(names, is_expected ? " must be there" : " must be null"), x.Describe(),
                 " and ", weight.Describe());
    }
  };
  are(is_int,
      {operands.scale != kAbsent, operands.offset != kAbsent, !operands.first.scale.empty(),
       !operands.second.scale.empty()},
      "scale, offset, deqScale1 and deqScale2");
  are(has_int_weight,
      {!operands.first.antiquant_scale.empty(), !operands.second.antiquant_scale.empty()},
      "antiquantScale1 and antiquantScale2");
  for (const GroupQuantization* product : {&operands.first, &operands.second}) {
    for (const Index bias : product->bias) {
      call.Param((call[bias].dtype == ACL_INT32) == is_int,
                 "biases must be int32 with int8, else floats", call[bias].Describe());
    }
  }
  if (is_int) call.SameDType(operands.second.scale[0], operands.first.scale[0]);
}

// What stands between the products, in f32: hidden [R,N1] → [R,N1] or [R,N1/2].
std::vector<float> Activated(const NamedActivation& row, std::vector<float> hidden, int64_t rows,
                             int64_t inner) {
  if (!row.is_gated) {
    ElementActivation(row.activation, hidden.data(), hidden.size());
    return hidden;
  }
  const auto half = static_cast<size_t>(inner);
  std::vector<float> result(static_cast<size_t>(rows) * half);
  for (size_t at = 0; at < result.size(); at += half) {
    const float* const left = hidden.data() + 2 * at;
    std::copy_n(left + half, half, result.begin() + static_cast<std::ptrdiff_t>(at));
    ElementActivation(row.activation, result.data() + at, half);
    for (size_t n = 0; n < half; ++n) result[at + n] *= left[n];
  }
  return result;
}

// Rows of the second product in int8, with one scale for the expert or one a column.
std::vector<int8_t> Quantized(const Run& run, const Operands& operands, int64_t expert,
                              const std::vector<float>& values) {
  const std::vector<float> scales = run.Floats(operands.scale);
  const float offset = run.Floats(operands.offset)[static_cast<size_t>(expert)];
  const size_t part = scales.size() / static_cast<size_t>(operands.experts);
  const float* const scale = scales.data() + static_cast<size_t>(expert) * part;
  std::vector<int8_t> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    QuantizeStatic({&values[i], 1}, scale[part == 1 ? 0 : i % part], offset, &result[i]);
  }
  return result;
}

// The rows of one expert through both products.
void RunExpert(const Run& run, const Operands& operands, const RowGroup& group) {
  const aclDataType from = run[operands.x].dtype, to = run[operands.y].dtype;
  const auto skip = static_cast<size_t>(group.begin * operands.in);
  const int64_t rows = group.size(), expert = group.weight;
  std::vector<float> hidden(static_cast<size_t>(rows * operands.hidden));
  MultiplyWith(run, operands.first,
               {operands.weight1, expert, expert, group.begin, from,
                run.data(operands.x) + skip * aclDataTypeSize(from), ACL_FLOAT,
                reinterpret_cast<std::byte*>(hidden.data()), rows, operands.in, operands.hidden});
  const std::vector<float> inner =
      Activated(*operands.activation, std::move(hidden), rows, operands.inner);
  GroupProduct second{operands.weight2,
                      expert,
                      expert,
                      group.begin,
                      ACL_FLOAT,
                      reinterpret_cast<const std::byte*>(inner.data()),
                      to,
                      run.data(operands.y) + skip * aclDataTypeSize(to),
                      rows,
                      operands.inner,
                      operands.in};
  std::vector<int8_t> quantized;
  if (from == ACL_INT8) {
    quantized = Quantized(run, operands, expert, inner);
    second.x_dtype = ACL_INT8;
    second.x = reinterpret_cast<const std::byte*>(quantized.data());
  }
  MultiplyWith(run, operands.second, second);
}

void RunLayer(const Run& run, const Operands& operands) {
  if (operands.rows == 0) return;
  std::vector<RowGroup> groups = {{0, operands.rows, 0}};
  if (operands.has_experts) {
    const auto tokens =
        operands.tokens == kAbsent ? operands.host_tokens : run.Ints(operands.tokens);
    groups =
        ReadGroups(run, tokens,
                   operands.tokens_are_sums ? GroupListType::kRunningSums : GroupListType::kCounts,
                   operands.rows, operands.experts);
    run.Value(!groups.empty() && groups.back().end == operands.rows,
              "expertTokens must count all rows of x", groups.empty() ? 0 : groups.back().end,
              " of ", operands.rows);
  }
  for (const RowGroup& group : groups) {
    if (group.size() > 0) RunExpert(run, operands, group);
  }
}

Operands Declare(Call& call, const Arguments& arguments) {
  Operands operands;
  operands.x = call.Input("x", arguments.x, kFloatsOrInt8);
  operands.weight1 = call.Input("weight1", arguments.weight1, kWeights);
  operands.weight2 = call.Input("weight2", arguments.weight2, kWeights);
  operands.tokens = call.Input("expertTokens", arguments.tokens, kI64, Need::kOptional);
  operands.scale = call.Input("scale", arguments.scale, kF32, Need::kOptional);
  operands.offset = call.Input("offset", arguments.offset, kF32, Need::kOptional);
  const auto list = [&](const char* name, const aclTensor* tensor, DataTypes dtypes) {
    const Index index = call.Input(name, tensor, dtypes, Need::kOptional);
    return index == kAbsent ? std::vector<Index>{} : std::vector<Index>{index};
  };
  operands.first.bias = list("bias1", arguments.bias1, kBiases);
  operands.second.bias = list("bias2", arguments.bias2, kBiases);
  operands.first.scale = list("deqScale1", arguments.deq_scale1, kDeqScales);
  operands.second.scale = list("deqScale2", arguments.deq_scale2, kDeqScales);
  operands.first.antiquant_scale = list("antiquantScale1", arguments.antiquant_scale1, kFloats);
  operands.second.antiquant_scale = list("antiquantScale2", arguments.antiquant_scale2, kFloats);
  operands.first.antiquant_offset = list("antiquantOffset1", arguments.antiquant_offset1, kFloats);
  operands.second.antiquant_offset = list("antiquantOffset2", arguments.antiquant_offset2, kFloats);
  operands.y = call.Output("y", arguments.y, kFloats);
  operands.activation = FindActivation(call, arguments.activation);
  operands.host_tokens = call.IntArray("expertTokens", arguments.host_tokens);
  operands.has_experts = operands.tokens != kAbsent || arguments.host_tokens != nullptr;
  operands.tokens_are_sums = arguments.tokens_are_sums;
  call.CheckOperands();
  return operands;
}

aclnnStatus Prepare(const char* name, const Arguments& arguments, uint64_t* workspace_size,
                    aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    Operands operands = Declare(call, arguments);
    call.Param(arguments.inner_precise == 0 || arguments.inner_precise == 1,
               "innerPrecise must be 0 or 1", arguments.inner_precise);
    CheckDTypes(call, operands);
    CheckShapes(call, operands);
    return [=](Run& run) { RunLayer(run, operands); };
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnFFNGetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight1, const aclTensor* weight2,
    const aclIntArray* expertTokensOptional, const aclTensor* bias1Optional,
    const aclTensor* bias2Optional, const aclTensor* scaleOptional, const aclTensor* offsetOptional,
    const aclTensor* deqScale1Optional, const aclTensor* deqScale2Optional,
    const aclTensor* antiquantScale1Optional, const aclTensor* antiquantScale2Optional,
    const aclTensor* antiquantOffset1Optional, const aclTensor* antiquantOffset2Optional,
    const char* activation, int64_t innerPrecise, const aclTensor* y, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  Arguments arguments{x,
                      weight1,
                      weight2,
                      bias1Optional,
                      bias2Optional,
                      scaleOptional,
                      offsetOptional,
                      deqScale1Optional,
                      deqScale2Optional,
                      antiquantScale1Optional,
                      antiquantScale2Optional,
                      antiquantOffset1Optional,
                      antiquantOffset2Optional,
                      activation,
                      innerPrecise,
                      y};
  arguments.host_tokens = expertTokensOptional;
  return Prepare("aclnnFFN", arguments, workspaceSize, executor);
}

aclnnStatus aclnnFFNV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight1, const aclTensor* weight2,
    const aclIntArray* expertTokensOptional, const aclTensor* bias1Optional,
    const aclTensor* bias2Optional, const aclTensor* scaleOptional, const aclTensor* offsetOptional,
    const aclTensor* deqScale1Optional, const aclTensor* deqScale2Optional,
    const aclTensor* antiquantScale1Optional, const aclTensor* antiquantScale2Optional,
    const aclTensor* antiquantOffset1Optional, const aclTensor* antiquantOffset2Optional,
    const char* activation, int64_t innerPrecise, bool tokensIndexFlag, const aclTensor* y,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  Arguments arguments{x,
                      weight1,
                      weight2,
                      bias1Optional,
                      bias2Optional,
                      scaleOptional,
                      offsetOptional,
                      deqScale1Optional,
                      deqScale2Optional,
                      antiquantScale1Optional,
                      antiquantScale2Optional,
                      antiquantOffset1Optional,
                      antiquantOffset2Optional,
                      activation,
                      innerPrecise,
                      y};
  arguments.host_tokens = expertTokensOptional;
  arguments.tokens_are_sums = tokensIndexFlag;
  return Prepare("aclnnFFNV2", arguments, workspaceSize, executor);
}

aclnnStatus aclnnFFNV3GetWorkspaceSize(
    const aclTensor* x, const aclTensor* weight1, const aclTensor* weight2,
    const aclTensor* expertTokensOptional, const aclTensor* bias1Optional,
    const aclTensor* bias2Optional, const aclTensor* scaleOptional, const aclTensor* offsetOptional,
    const aclTensor* deqScale1Optional, const aclTensor* deqScale2Optional,
    const aclTensor* antiquantScale1Optional, const aclTensor* antiquantScale2Optional,
    const aclTensor* antiquantOffset1Optional, const aclTensor* antiquantOffset2Optional,
    const char* activation, int64_t innerPrecise, bool tokensIndexFlag, const aclTensor* y,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  Arguments arguments{x,
                      weight1,
                      weight2,
                      bias1Optional,
                      bias2Optional,
                      scaleOptional,
                      offsetOptional,
                      deqScale1Optional,
                      deqScale2Optional,
                      antiquantScale1Optional,
                      antiquantScale2Optional,
                      antiquantOffset1Optional,
                      antiquantOffset2Optional,
                      activation,
                      innerPrecise,
                      y};
  arguments.tokens = expertTokensOptional;
  arguments.tokens_are_sums = tokensIndexFlag;
  return Prepare("aclnnFFNV3", arguments, workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnFFN)
OPST_CANN_LAUNCH(aclnnFFNV2)
OPST_CANN_LAUNCH(aclnnFFNV3)
