// CANN's feed-forward operator in its three versions, for floats: act(x W1 + b1) W2 + b2, for each
// expert's rows or for all.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "aclnnop/aclnn_ffn.h"
#include "aclnnop/aclnn_ffn_v2.h"
#include "aclnnop/aclnn_ffn_v3.h"
#include "base/strings.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"
#include "cann/src/gmm/activation.h"
#include "cann/src/gmm/group_list.h"
#include "cann/src/gmm/matrix_product.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxExperts = 256;
constexpr int64_t kMaxExtent = 65536;

using Function = float (*)(float);
struct NamedActivation {
  const char* name;
  Function function;
  bool is_gated;  // the left half of the columns times the activated right half
};
constexpr NamedActivation kActivations[] = {
    {"fastgelu", FastGelu, false}, {"gelu", GeluTanh, false}, {"relu", Relu, false},
    {"silu", Silu, false},         {"geglu", GeluTanh, true}, {"swiglu", Silu, true},
    {"reglu", Relu, true},
};

struct Arguments {
  const aclTensor* x;
  const aclTensor* weight1;
  const aclTensor* weight2;
  const aclIntArray* host_tokens;
  const aclTensor* tokens;
  const aclTensor* bias1;
  const aclTensor* bias2;
  bool has_quantization;
  const char* activation;
  int64_t inner_precise;
  bool tokens_are_sums;
  const aclTensor* y;
};

struct Operands {
  Index x, weight1, weight2, tokens, bias1, bias2, y;
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
  call.Param(w1.rank() == rank && w2.rank() == rank, "weights must be [K,N], with experts [E,K,N]",
             w1.Describe(), " and ", w2.Describe());
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
  const auto check_bias = [&](Index bias, int64_t columns) {
    if (bias == kAbsent) return;
    call.Param(call[bias].num_elements() == operands.experts * columns,
               "a bias must be [E,N] or [N]", call[bias].Describe());
  };
  check_bias(operands.bias1, operands.hidden);
  check_bias(operands.bias2, operands.in);
}

// The rows of one expert through both products; activations stay f32.
void RunExpert(const Run& run, const Operands& operands, const RowGroup& group) {
  const auto matrix = [&](Index weight, int64_t rows, int64_t columns) {
    const DType dtype = ToDType(run[weight].dtype);
    const auto skip = static_cast<size_t>(group.weight * rows * columns) * ByteSize(dtype);
    return ConstTensorView(run.data(weight) + skip, dtype, Shape{rows, columns});
  };
  const auto bias = [&](Index index, int64_t columns) {
    if (index == kAbsent) return std::vector<float>{};
    const std::vector<float> all = run.Floats(index);
    return std::vector<float>(all.begin() + group.weight * columns,
                              all.begin() + (group.weight + 1) * columns);
  };
  const DType dtype = ToDType(run[operands.x].dtype);
  const auto skip = static_cast<size_t>(group.begin * operands.in) * ByteSize(dtype);
  const int64_t rows = group.size();
  std::vector<float> hidden(static_cast<size_t>(rows * operands.hidden));
  MultiplyFloats(
      run.context(), ConstTensorView(run.data(operands.x) + skip, dtype, Shape{rows, operands.in}),
      matrix(operands.weight1, operands.in, operands.hidden), bias(operands.bias1, operands.hidden),
      TensorView(hidden.data(), Shape{rows, operands.hidden}));
  std::vector<float> inner(static_cast<size_t>(rows * operands.inner));
  for (int64_t i = 0; i < rows * operands.inner; ++i) {
    const int64_t row = i / operands.inner, column = i % operands.inner;
    const int64_t first = row * operands.hidden + column;
    const float left = hidden[static_cast<size_t>(first)];
    inner[static_cast<size_t>(i)] =
        operands.activation->is_gated
            ? left *
                  operands.activation->function(hidden[static_cast<size_t>(first + operands.inner)])
            : operands.activation->function(left);
  }
  MultiplyFloats(run.context(), ConstTensorView(inner.data(), Shape{rows, operands.inner}),
                 matrix(operands.weight2, operands.inner, operands.in),
                 bias(operands.bias2, operands.in),
                 TensorView(run.data(operands.y) + skip, dtype, Shape{rows, operands.in}));
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

aclnnStatus Prepare(const char* name, const Arguments& arguments, uint64_t* workspace_size,
                    aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    Operands operands;
    operands.x = call.Input("x", arguments.x, kFloats);
    operands.weight1 = call.Input("weight1", arguments.weight1, kFloats);
    operands.weight2 = call.Input("weight2", arguments.weight2, kFloats);
    operands.tokens = call.Input("expertTokens", arguments.tokens, kI64, Need::kOptional);
    operands.bias1 = call.Input("bias1", arguments.bias1, kFloats, Need::kOptional);
    operands.bias2 = call.Input("bias2", arguments.bias2, kFloats, Need::kOptional);
    operands.y = call.Output("y", arguments.y, kFloats);
    operands.activation = FindActivation(call, arguments.activation);
    operands.host_tokens = call.IntArray("expertTokens", arguments.host_tokens);
    operands.has_experts = operands.tokens != kAbsent || arguments.host_tokens != nullptr;
    operands.tokens_are_sums = arguments.tokens_are_sums;
    call.CheckOperands();
    for (const Index index : {operands.weight1, operands.weight2, operands.y}) {
      call.SameDType(index, operands.x);
    }
    call.Param(!arguments.has_quantization, "scales of quantised layers must be null", "a tensor");
    call.Param(arguments.inner_precise == 0 || arguments.inner_precise == 1,
               "innerPrecise must be 0 or 1", arguments.inner_precise);
    CheckShapes(call, operands);
    return [=](Run& run) { RunLayer(run, operands); };
  });
}

bool Any(std::initializer_list<const aclTensor*> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const aclTensor* t) { return t; });
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
  const bool is_quantized = Any(
      {scaleOptional, offsetOptional, deqScale1Optional, deqScale2Optional, antiquantScale1Optional,
       antiquantScale2Optional, antiquantOffset1Optional, antiquantOffset2Optional});
  return Prepare("aclnnFFN",
                 {x, weight1, weight2, expertTokensOptional, nullptr, bias1Optional, bias2Optional,
                  is_quantized, activation, innerPrecise, false, y},
                 workspaceSize, executor);
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
  const bool is_quantized = Any(
      {scaleOptional, offsetOptional, deqScale1Optional, deqScale2Optional, antiquantScale1Optional,
       antiquantScale2Optional, antiquantOffset1Optional, antiquantOffset2Optional});
  return Prepare("aclnnFFNV2",
                 {x, weight1, weight2, expertTokensOptional, nullptr, bias1Optional, bias2Optional,
                  is_quantized, activation, innerPrecise, tokensIndexFlag, y},
                 workspaceSize, executor);
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
  const bool is_quantized = Any(
      {scaleOptional, offsetOptional, deqScale1Optional, deqScale2Optional, antiquantScale1Optional,
       antiquantScale2Optional, antiquantOffset1Optional, antiquantOffset2Optional});
  return Prepare("aclnnFFNV3",
                 {x, weight1, weight2, nullptr, expertTokensOptional, bias1Optional, bias2Optional,
                  is_quantized, activation, innerPrecise, tokensIndexFlag, y},
                 workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnFFN)
OPST_CANN_LAUNCH(aclnnFFNV2)
OPST_CANN_LAUNCH(aclnnFFNV3)
