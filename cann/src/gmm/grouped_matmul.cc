// The versions of CANN's grouped_matmul: each fills the arguments of the newest one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_grouped_matmul.h"
#include "aclnnop/aclnn_grouped_matmul_v2.h"
#include "aclnnop/aclnn_grouped_matmul_v3.h"
#include "aclnnop/aclnn_grouped_matmul_v4.h"
#include "aclnnop/aclnn_grouped_matmul_v5.h"
#include "aclnnop/aclnn_grouped_matmul_weight_nz.h"
#include "cann/src/execution/call.h"
#include "cann/src/gmm/grouped_call.h"

namespace opst::cann {
namespace {

GroupedArguments Lists(const aclTensorList* x, const aclTensorList* weight,
                       const aclTensorList* bias, const aclTensorList* scale,
                       const aclTensorList* offset, const aclTensorList* antiquant_scale,
                       const aclTensorList* antiquant_offset, const aclTensorList* out) {
  GroupedArguments arguments;
  arguments.x = x;
  arguments.weight = weight;
  arguments.bias = bias;
  arguments.scale = scale;
  arguments.offset = offset;
  arguments.antiquant_scale = antiquant_scale;
  arguments.antiquant_offset = antiquant_offset;
  arguments.out = out;
  return arguments;
}

const void* AnyOf(const void* first, const void* second, const void* third = nullptr) {
  if (first != nullptr) return first;
  return second != nullptr ? second : third;
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnGroupedMatmulGetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclIntArray* groupListOptional, int64_t splitItem, const aclTensorList* y,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  GroupedArguments arguments = Lists(x, weight, biasOptional, scaleOptional, offsetOptional,
                                     antiquantScaleOptional, antiquantOffsetOptional, y);
  arguments.host_groups = groupListOptional;
  arguments.split_item = splitItem;
  arguments.group_type = groupListOptional == nullptr ? -1 : 0;
  return PrepareGroupedMatmul("aclnnGroupedMatmul", arguments, workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulV2GetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclIntArray* groupListOptional, int64_t splitItem, int64_t groupType,
    const aclTensorList* y, uint64_t* workspaceSize, aclOpExecutor** executor) {
  GroupedArguments arguments = Lists(x, weight, biasOptional, scaleOptional, offsetOptional,
                                     antiquantScaleOptional, antiquantOffsetOptional, y);
  arguments.host_groups = groupListOptional;
  arguments.split_item = splitItem;
  arguments.group_type = groupType;
  return PrepareGroupedMatmul("aclnnGroupedMatmulV2", arguments, workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulV3GetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclTensor* groupListOptional, int64_t splitItem, int64_t groupType,
    const aclTensorList* y, uint64_t* workspaceSize, aclOpExecutor** executor) {
  GroupedArguments arguments = Lists(x, weight, biasOptional, scaleOptional, offsetOptional,
                                     antiquantScaleOptional, antiquantOffsetOptional, y);
  arguments.groups = groupListOptional;
  arguments.split_item = splitItem;
  arguments.group_type = groupType;
  return PrepareGroupedMatmul("aclnnGroupedMatmulV3", arguments, workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulV4GetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclTensorList* perTokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensorList* activationInputOptional, const aclTensorList* activationQuantScaleOptional,
    const aclTensorList* activationQuantOffsetOptional, int64_t splitItem, int64_t groupType,
    int64_t groupListType, int64_t actType, aclTensorList* out,
    aclTensorList* activationFeatureOutOptional, aclTensorList* dynQuantScaleOutOptional,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  GroupedArguments arguments = Lists(x, weight, biasOptional, scaleOptional, offsetOptional,
                                     antiquantScaleOptional, antiquantOffsetOptional, out);
  arguments.per_token_scale = perTokenScaleOptional;
  arguments.groups = groupListOptional;
  arguments.activation_inputs =
      AnyOf(activationInputOptional, activationQuantScaleOptional, activationQuantOffsetOptional);
  arguments.reserved_outputs = AnyOf(activationFeatureOutOptional, dynQuantScaleOutOptional);
  arguments.split_item = splitItem;
  arguments.group_type = groupType;
  arguments.group_list_type = groupListType;
  arguments.activation = actType;
  return PrepareGroupedMatmul("aclnnGroupedMatmulV4", arguments, workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulV5GetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclTensorList* perTokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensorList* activationInputOptional, const aclTensorList* activationQuantScaleOptional,
    const aclTensorList* activationQuantOffsetOptional, int64_t splitItem, int64_t groupType,
    int64_t groupListType, int64_t actType, aclIntArray* /*tuningConfigOptional*/,
    aclTensorList* out, aclTensorList* activationFeatureOutOptional,
    aclTensorList* dynQuantScaleOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  GroupedArguments arguments = Lists(x, weight, biasOptional, scaleOptional, offsetOptional,
                                     antiquantScaleOptional, antiquantOffsetOptional, out);
  arguments.per_token_scale = perTokenScaleOptional;
  arguments.groups = groupListOptional;
  arguments.activation_inputs =
      AnyOf(activationInputOptional, activationQuantScaleOptional, activationQuantOffsetOptional);
  arguments.reserved_outputs = AnyOf(activationFeatureOutOptional, dynQuantScaleOutOptional);
  arguments.split_item = splitItem;
  arguments.group_type = groupType;
  arguments.group_list_type = groupListType;
  arguments.activation = actType;
  return PrepareGroupedMatmul("aclnnGroupedMatmulV5", arguments, workspaceSize, executor);
}

aclnnStatus aclnnGroupedMatmulWeightNzGetWorkspaceSize(
    const aclTensorList* x, const aclTensorList* weight, const aclTensorList* biasOptional,
    const aclTensorList* scaleOptional, const aclTensorList* offsetOptional,
    const aclTensorList* antiquantScaleOptional, const aclTensorList* antiquantOffsetOptional,
    const aclTensorList* perTokenScaleOptional, const aclTensor* groupListOptional,
    const aclTensorList* activationInputOptional, const aclTensorList* activationQuantScaleOptional,
    const aclTensorList* activationQuantOffsetOptional, int64_t splitItem, int64_t groupType,
    int64_t groupListType, int64_t actType, aclIntArray* /*tuningConfigOptional*/,
    int64_t quantGroupSize, aclTensorList* out, aclTensorList* activationFeatureOutOptional,
    aclTensorList* dynQuantScaleOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
  GroupedArguments arguments = Lists(x, weight, biasOptional, scaleOptional, offsetOptional,
                                     antiquantScaleOptional, antiquantOffsetOptional, out);
  arguments.per_token_scale = perTokenScaleOptional;
  arguments.groups = groupListOptional;
  arguments.activation_inputs =
      AnyOf(activationInputOptional, activationQuantScaleOptional, activationQuantOffsetOptional);
  arguments.reserved_outputs = AnyOf(activationFeatureOutOptional, dynQuantScaleOutOptional);
  arguments.split_item = splitItem;
  arguments.group_type = groupType;
  arguments.group_list_type = groupListType;
  arguments.activation = actType;
  arguments.quant_group_size = quantGroupSize;
  return PrepareGroupedMatmul("aclnnGroupedMatmulWeightNz", arguments, workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnGroupedMatmul)
OPST_CANN_LAUNCH(aclnnGroupedMatmulV2)
OPST_CANN_LAUNCH(aclnnGroupedMatmulV3)
OPST_CANN_LAUNCH(aclnnGroupedMatmulV4)
OPST_CANN_LAUNCH(aclnnGroupedMatmulV5)
OPST_CANN_LAUNCH(aclnnGroupedMatmulWeightNz)
