// CANN's combine in its three versions, and with residual and RMS norm in two.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "aclnnop/aclnn_moe_distribute_combine.h"
#include "aclnnop/aclnn_moe_distribute_combine_add_rms_norm.h"
#include "aclnnop/aclnn_moe_distribute_combine_add_rms_norm_v2.h"
#include "aclnnop/aclnn_moe_distribute_combine_v2.h"
#include "aclnnop/aclnn_moe_distribute_combine_v3.h"
#include "cann/src/communication/combine_tokens.h"
#include "cann/src/descriptors/descriptors.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr std::array kTokens = {ACL_FLOAT16, ACL_BF16};
constexpr std::array kBf16 = {ACL_BF16};

aclnnStatus PrepareCombine(const char* name, const CombineArguments& arguments,
                           const DistributeAttributes& attributes, const aclTensor* x,
                           uint64_t* workspace_size, aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    CombineOperands operands = DeclareCombine(call, arguments, attributes);
    const Index out = call.Output("xOut", x, kTokens);
    call.CheckOperands();
    call.SameDType(out, operands.rows);
    const Placement placement = CheckCombine(call, arguments, attributes, operands);
    call.CountIs(out, operands.tokens * operands.width);
    return [=](Run& run) {
      const Combined combined = CombineTokens(run, operands, placement);
      const TensorView rows = run.Out(out, operands.tokens, operands.width);
      const auto width = static_cast<size_t>(operands.width);
      for (size_t token = 0; token < combined.is_active.size(); ++token) {
        if (combined.is_active[token] == 0) continue;  // such rows stay as they are
        ConvertFromFloat(combined.sums.data() + token * width, width, rows.dtype(),
                         rows.mutable_row(static_cast<int64_t>(token)));
      }
    };
  });
}

struct NormOperands {
  Index residual = kAbsent, gamma = kAbsent, y = kAbsent, rstd = kAbsent, x = kAbsent;
  float eps = 0;
};

float InBf16(float value) { return ToFloat(ToBf16(value)); }

// s = combined + residual in f32; x = bf16(s); y = bf16(bf16(s · rstd) · gamma).
void NormaliseToken(std::vector<float>& s, const std::vector<float>& gamma, float eps, Bf16* y,
                    float* rstd) {
  const float share = 1.0f / static_cast<float>(s.size());
  float sum = 0;
  for (const float value : s) sum += value * value * share;
  *rstd = 1.0f / std::sqrt(sum + eps);
  for (size_t h = 0; h < s.size(); ++h) y[h] = ToBf16(InBf16(s[h] * *rstd) * gamma[h]);
}

void RunNorm(const Run& run, const CombineOperands& operands, const NormOperands& norm,
             const Placement& placement) {
  const Combined combined = CombineTokens(run, operands, placement);
  const std::vector<float> residual = run.Floats(norm.residual), gamma = run.Floats(norm.gamma);
  const auto width = static_cast<size_t>(operands.width);
  const auto y = run.Span<Bf16>(norm.y), x = run.Span<Bf16>(norm.x);
  const auto rstd = run.Span<float>(norm.rstd);
  std::vector<float> s(width);
  for (size_t token = 0; token < combined.is_active.size(); ++token) {
    if (combined.is_active[token] == 0) continue;
    const size_t first = token * width;
    for (size_t h = 0; h < width; ++h) {
      s[h] = combined.sums[first + h] + residual[first + h];
      x[first + h] = ToBf16(s[h]);
    }
    NormaliseToken(s, gamma, norm.eps, &y[first], &rstd[token]);
  }
}

struct NormArguments {
  const aclTensor *residual, *gamma;
  float eps;
  const aclTensor *y, *rstd, *x;
};

aclnnStatus PrepareNorm(const char* name, const CombineArguments& arguments,
                        const DistributeAttributes& attributes, const NormArguments& given,
                        uint64_t* workspace_size, aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    CombineOperands operands = DeclareCombine(call, arguments, attributes);
    NormOperands norm;
    norm.residual = call.Input("residualX", given.residual, kBf16);
    norm.gamma = call.Input("gamma", given.gamma, kBf16);
    norm.y = call.Output("yOut", given.y, kBf16);
    norm.rstd = call.Output("rstdOut", given.rstd, kF32);
    norm.x = call.Output("xOut", given.x, kBf16);
    norm.eps = given.eps;
    call.CheckOperands();
    call.SameDType(operands.rows, norm.residual);
    const Placement placement = CheckCombine(call, arguments, attributes, operands);
    call.Shape(attributes.shared_ranks == 0 && !operands.quantizes,
               "sharedExpertRankNum and commQuantMode must be 0", attributes.shared_ranks);
    for (const Index index : {norm.residual, norm.y, norm.x}) {
      call.CountIs(index, operands.tokens * operands.width);
    }
    call.CountIs(norm.gamma, operands.width);
    call.CountIs(norm.rstd, operands.tokens);
    return [=](Run& run) { RunNorm(run, operands, norm, placement); };
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeDistributeCombineGetWorkspaceSize(
    const aclTensor* expandX, const aclTensor* expertIds, const aclTensor* expandIdx,
    const aclTensor* epSendCounts, const aclTensor* expertScales,
    const aclTensor* tpSendCountsOptional, const aclTensor* xActiveMaskOptional,
    const aclTensor* activationScaleOptional, const aclTensor* weightScaleOptional,
    const aclTensor* groupListOptional, const aclTensor* expandScalesOptional, const char* groupEp,
    int64_t epWorldSize, int64_t epRankId, int64_t moeExpertNum, const char* groupTp,
    int64_t tpWorldSize, int64_t tpRankId, int64_t expertShardType, int64_t sharedExpertNum,
    int64_t sharedExpertRankNum, int64_t globalBs, int64_t /*outDtype*/, int64_t commQuantMode,
    int64_t /*groupListType*/, aclTensor* x, uint64_t* workspaceSize, aclOpExecutor** executor) {
  CombineArguments arguments{expandX,
                             expertIds,
                             expandIdx,
                             epSendCounts,
                             expertScales,
                             tpSendCountsOptional,
                             xActiveMaskOptional,
                             activationScaleOptional,
                             weightScaleOptional,
                             groupListOptional,
                             expandScalesOptional};
  arguments.comm_quant_mode = commQuantMode;
  DistributeAttributes attributes{groupEp,         epWorldSize,         epRankId, moeExpertNum,
                                  groupTp,         tpWorldSize,         tpRankId, expertShardType,
                                  sharedExpertNum, sharedExpertRankNum, globalBs};
  attributes.divides_shared_tokens = true;
  return PrepareCombine("aclnnMoeDistributeCombine", arguments, attributes, x, workspaceSize,
                        executor);
}

aclnnStatus aclnnMoeDistributeCombineV2GetWorkspaceSize(
    const aclTensor* expandX, const aclTensor* expertIds, const aclTensor* assistInfoForCombine,
    const aclTensor* epSendCounts, const aclTensor* expertScales,
    const aclTensor* tpSendCountsOptional, const aclTensor* xActiveMaskOptional,
    const aclTensor* activationScaleOptional, const aclTensor* weightScaleOptional,
    const aclTensor* groupListOptional, const aclTensor* expandScalesOptional,
    const aclTensor* sharedExpertXOptional, const char* groupEp, int64_t epWorldSize,
    int64_t epRankId, int64_t moeExpertNum, const char* groupTp, int64_t tpWorldSize,
    int64_t tpRankId, int64_t expertShardType, int64_t sharedExpertNum, int64_t sharedExpertRankNum,
    int64_t globalBs, int64_t /*outDtype*/, int64_t commQuantMode, int64_t /*groupListType*/,
    const char* /*commAlg*/, aclTensor* xOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  CombineArguments arguments{expandX,
                             expertIds,
                             assistInfoForCombine,
                             epSendCounts,
                             expertScales,
                             tpSendCountsOptional,
                             xActiveMaskOptional,
                             activationScaleOptional,
                             weightScaleOptional,
                             groupListOptional,
                             expandScalesOptional};
  arguments.shared_x = sharedExpertXOptional;
  arguments.comm_quant_mode = commQuantMode;
  const DistributeAttributes attributes{
      groupEp,  epWorldSize,     epRankId,        moeExpertNum,        groupTp, tpWorldSize,
      tpRankId, expertShardType, sharedExpertNum, sharedExpertRankNum, globalBs};
  return PrepareCombine("aclnnMoeDistributeCombineV2", arguments, attributes, xOut, workspaceSize,
                        executor);
}

aclnnStatus aclnnMoeDistributeCombineV3GetWorkspaceSize(
    const aclTensor* expandX, const aclTensor* expertIds, const aclTensor* assistInfoForCombine,
    const aclTensor* epSendCounts, const aclTensor* expertScales,
    const aclTensor* tpSendCountsOptional, const aclTensor* xActiveMaskOptional,
    const aclTensor* activationScaleOptional, const aclTensor* weightScaleOptional,
    const aclTensor* groupListOptional, const aclTensor* expandScalesOptional,
    const aclTensor* sharedExpertXOptional, const aclTensor* elasticInfoOptional,
    const aclTensor* oriXOptional, const aclTensor* constExpertAlpha1Optional,
    const aclTensor* constExpertAlpha2Optional, const aclTensor* constExpertVOptional,
    const char* groupEp, int64_t epWorldSize, int64_t epRankId, int64_t moeExpertNum,
    const char* groupTp, int64_t tpWorldSize, int64_t tpRankId, int64_t expertShardType,
    int64_t sharedExpertNum, int64_t sharedExpertRankNum, int64_t globalBs, int64_t /*outDtype*/,
    int64_t commQuantMode, int64_t /*groupListType*/, const char* /*commAlg*/,
    int64_t zeroExpertNum, int64_t copyExpertNum, int64_t constExpertNum, aclTensor* xOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  CombineArguments arguments{expandX,
                             expertIds,
                             assistInfoForCombine,
                             epSendCounts,
                             expertScales,
                             tpSendCountsOptional,
                             xActiveMaskOptional,
                             activationScaleOptional,
                             weightScaleOptional,
                             groupListOptional,
                             expandScalesOptional};
  arguments.shared_x = sharedExpertXOptional;
  arguments.elastic = elasticInfoOptional;
  arguments.ori_x = oriXOptional;
  arguments.alpha1 = constExpertAlpha1Optional;
  arguments.alpha2 = constExpertAlpha2Optional;
  arguments.const_v = constExpertVOptional;
  arguments.comm_quant_mode = commQuantMode;
  const DistributeAttributes attributes{
      groupEp,     epWorldSize,   epRankId,        moeExpertNum,    groupTp,
      tpWorldSize, tpRankId,      expertShardType, sharedExpertNum, sharedExpertRankNum,
      globalBs,    zeroExpertNum, copyExpertNum,   constExpertNum};
  return PrepareCombine("aclnnMoeDistributeCombineV3", arguments, attributes, xOut, workspaceSize,
                        executor);
}

aclnnStatus aclnnMoeDistributeCombineAddRmsNormGetWorkspaceSize(
    const aclTensor* expandX, const aclTensor* expertIds, const aclTensor* assistInfoForCombine,
    const aclTensor* epSendCounts, const aclTensor* expertScales, const aclTensor* residualX,
    const aclTensor* gamma, const aclTensor* tpSendCountsOptional,
    const aclTensor* xActiveMaskOptional, const aclTensor* activationScaleOptional,
    const aclTensor* weightScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* expandScalesOptional, const aclTensor* sharedExpertXOptional,
    const char* groupEp, int64_t epWorldSize, int64_t epRankId, int64_t moeExpertNum,
    const char* groupTp, int64_t tpWorldSize, int64_t tpRankId, int64_t expertShardType,
    int64_t sharedExpertNum, int64_t sharedExpertRankNum, int64_t globalBs, int64_t /*outDtype*/,
    int64_t commQuantMode, int64_t /*groupListType*/, const char* /*commAlg*/, float normEps,
    aclTensor* yOut, aclTensor* rstdOut, aclTensor* xOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  CombineArguments arguments{expandX,
                             expertIds,
                             assistInfoForCombine,
                             epSendCounts,
                             expertScales,
                             tpSendCountsOptional,
                             xActiveMaskOptional,
                             activationScaleOptional,
                             weightScaleOptional,
                             groupListOptional,
                             expandScalesOptional};
  arguments.shared_x = sharedExpertXOptional;
  arguments.comm_quant_mode = commQuantMode;
  const DistributeAttributes attributes{
      groupEp,  epWorldSize,     epRankId,        moeExpertNum,        groupTp, tpWorldSize,
      tpRankId, expertShardType, sharedExpertNum, sharedExpertRankNum, globalBs};
  return PrepareNorm("aclnnMoeDistributeCombineAddRmsNorm", arguments, attributes,
                     {residualX, gamma, normEps, yOut, rstdOut, xOut}, workspaceSize, executor);
}

aclnnStatus aclnnMoeDistributeCombineAddRmsNormV2GetWorkspaceSize(
    const aclTensor* expandX, const aclTensor* expertIds, const aclTensor* assistInfoForCombine,
    const aclTensor* epSendCounts, const aclTensor* expertScales, const aclTensor* residualX,
    const aclTensor* gamma, const aclTensor* tpSendCountsOptional,
    const aclTensor* xActiveMaskOptional, const aclTensor* activationScaleOptional,
    const aclTensor* weightScaleOptional, const aclTensor* groupListOptional,
    const aclTensor* expandScalesOptional, const aclTensor* sharedExpertXOptional,
    const aclTensor* elasticInfoOptional, const aclTensor* oriXOptional,
    const aclTensor* constExpertAlpha1Optional, const aclTensor* constExpertAlpha2Optional,
    const aclTensor* constExpertVOptional, const char* groupEp, int64_t epWorldSize,
    int64_t epRankId, int64_t moeExpertNum, const char* groupTp, int64_t tpWorldSize,
    int64_t tpRankId, int64_t expertShardType, int64_t sharedExpertNum, int64_t sharedExpertRankNum,
    int64_t globalBs, int64_t /*outDtype*/, int64_t commQuantMode, int64_t /*groupListType*/,
    const char* /*commAlg*/, float normEps, int64_t zeroExpertNum, int64_t copyExpertNum,
    int64_t constExpertNum, aclTensor* yOut, aclTensor* rstdOut, aclTensor* xOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  CombineArguments arguments{expandX,
                             expertIds,
                             assistInfoForCombine,
                             epSendCounts,
                             expertScales,
                             tpSendCountsOptional,
                             xActiveMaskOptional,
                             activationScaleOptional,
                             weightScaleOptional,
                             groupListOptional,
                             expandScalesOptional};
  arguments.shared_x = sharedExpertXOptional;
  arguments.elastic = elasticInfoOptional;
  arguments.ori_x = oriXOptional;
  arguments.alpha1 = constExpertAlpha1Optional;
  arguments.alpha2 = constExpertAlpha2Optional;
  arguments.const_v = constExpertVOptional;
  arguments.comm_quant_mode = commQuantMode;
  const DistributeAttributes attributes{
      groupEp,     epWorldSize,   epRankId,        moeExpertNum,    groupTp,
      tpWorldSize, tpRankId,      expertShardType, sharedExpertNum, sharedExpertRankNum,
      globalBs,    zeroExpertNum, copyExpertNum,   constExpertNum};
  return PrepareNorm("aclnnMoeDistributeCombineAddRmsNormV2", arguments, attributes,
                     {residualX, gamma, normEps, yOut, rstdOut, xOut}, workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnMoeDistributeCombine)
OPST_CANN_LAUNCH(aclnnMoeDistributeCombineV2)
OPST_CANN_LAUNCH(aclnnMoeDistributeCombineV3)
OPST_CANN_LAUNCH(aclnnMoeDistributeCombineAddRmsNorm)
OPST_CANN_LAUNCH(aclnnMoeDistributeCombineAddRmsNormV2)
