// The enums of both languages side by side: equal values, and the last value of each. No functions.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CAPI_ENUMS_H_
#define OPST_CAPI_ENUMS_H_

#include <cstdint>

#include "opst/context.h"
#include "opst/convert.h"
#include "opst/dtype.h"
#include "opst/engine.h"
#include "opst/moe_layer.h"
#include "opst/ops/activation.h"
#include "opst/ops/gating.h"
#include "opst/ops/loss.h"
#include "opst/ops/output_mode.h"
#include "opst/ops/permute.h"
#include "opst/opst.h"
#include "opst/packed_weights.h"
#include "opst/routing_plan.h"

namespace opst::capi {

// The largest value that C may pass for an enum.
template <typename Enum>
inline constexpr int32_t kLastValue = -1;

#define OPST_LAST_VALUE(cpp_last, c_last)                           \
  template <>                                                       \
  inline constexpr int32_t kLastValue<decltype(cpp_last)> = c_last; \
  static_assert(static_cast<int32_t>(cpp_last) == (c_last))
#define OPST_SAME_VALUE(cpp_value, c_value) \
  static_assert(static_cast<int32_t>(cpp_value) == (c_value))

OPST_LAST_VALUE(DType::kBool, OPST_BOOL);
OPST_SAME_VALUE(DType::kF32, OPST_F32);
OPST_SAME_VALUE(DType::kF16, OPST_F16);
OPST_SAME_VALUE(DType::kBf16, OPST_BF16);
OPST_SAME_VALUE(DType::kF64, OPST_F64);
OPST_SAME_VALUE(DType::kI8, OPST_I8);
OPST_SAME_VALUE(DType::kU8, OPST_U8);
OPST_SAME_VALUE(DType::kI16, OPST_I16);
OPST_SAME_VALUE(DType::kI32, OPST_I32);
OPST_SAME_VALUE(DType::kI64, OPST_I64);

OPST_LAST_VALUE(LogLevel::kDebug, OPST_LOG_DEBUG);
OPST_SAME_VALUE(LogLevel::kError, OPST_LOG_ERROR);
OPST_SAME_VALUE(LogLevel::kWarning, OPST_LOG_WARNING);
OPST_SAME_VALUE(LogLevel::kInfo, OPST_LOG_INFO);

OPST_LAST_VALUE(WeightFormat::kMxfp4, OPST_WEIGHTS_MXFP4);
OPST_SAME_VALUE(WeightFormat::kInt4, OPST_WEIGHTS_INT4);
OPST_SAME_VALUE(WeightFormat::kF16, OPST_WEIGHTS_F16);
OPST_SAME_VALUE(WeightFormat::kInt8, OPST_WEIGHTS_INT8);
OPST_SAME_VALUE(WeightFormat::kF32, OPST_WEIGHTS_F32);
OPST_SAME_VALUE(WeightFormat::kBf16, OPST_WEIGHTS_BF16);

OPST_LAST_VALUE(PanelOrder::kGateUp, OPST_PANELS_GATE_UP);
OPST_SAME_VALUE(PanelOrder::kPlain, OPST_PANELS_PLAIN);

OPST_LAST_VALUE(ScoreFunction::kSoftmaxOfChosen, OPST_SCORES_SOFTMAX_OF_CHOSEN);
OPST_SAME_VALUE(ScoreFunction::kSoftmax, OPST_SCORES_SOFTMAX);
OPST_SAME_VALUE(ScoreFunction::kSigmoid, OPST_SCORES_SIGMOID);
OPST_SAME_VALUE(ScoreFunction::kSparsemixer, OPST_SCORES_SPARSEMIXER);

OPST_LAST_VALUE(GroupScore::kSumOfTopTwo, OPST_GROUPS_BY_TOP_TWO);
OPST_SAME_VALUE(GroupScore::kMax, OPST_GROUPS_BY_MAX);

OPST_LAST_VALUE(SelectionRule::kEntropy, OPST_SELECT_ENTROPY);
OPST_SAME_VALUE(SelectionRule::kTopK, OPST_SELECT_TOP_K);
OPST_SAME_VALUE(SelectionRule::kThreshold, OPST_SELECT_THRESHOLD);
OPST_SAME_VALUE(SelectionRule::kTopP, OPST_SELECT_TOP_P);

OPST_LAST_VALUE(OutputMode::kAdd, OPST_ADD);
OPST_SAME_VALUE(OutputMode::kOverwrite, OPST_OVERWRITE);

OPST_LAST_VALUE(DropOrder::kByWeight, OPST_DROP_BY_WEIGHT);
OPST_SAME_VALUE(DropOrder::kByChoice, OPST_DROP_BY_CHOICE);
OPST_SAME_VALUE(DropOrder::kByToken, OPST_DROP_BY_TOKEN);

OPST_LAST_VALUE(RowQuantization::kDynamic, OPST_QUANTIZE_DYNAMIC);
OPST_SAME_VALUE(RowQuantization::kStatic, OPST_QUANTIZE_STATIC);

OPST_LAST_VALUE(SummationOrder::kBySlot, OPST_SUM_BY_SLOT);
OPST_SAME_VALUE(SummationOrder::kByExpert, OPST_SUM_BY_EXPERT);

OPST_LAST_VALUE(Activation::kQuickGelu, OPST_QUICK_GELU);
OPST_SAME_VALUE(Activation::kClampedSwiglu, OPST_CLAMPED_SWIGLU);
OPST_SAME_VALUE(Activation::kGelu, OPST_GELU);
OPST_SAME_VALUE(Activation::kSilu, OPST_SILU);
OPST_SAME_VALUE(Activation::kGeluTanh, OPST_GELU_TANH);
OPST_SAME_VALUE(Activation::kRelu, OPST_RELU);

OPST_LAST_VALUE(RouterValues::kProbabilities, OPST_PROBABILITIES);
OPST_SAME_VALUE(RouterValues::kSoftmaxLogits, OPST_SOFTMAX_LOGITS);
OPST_SAME_VALUE(RouterValues::kSigmoidLogits, OPST_SIGMOID_LOGITS);

OPST_LAST_VALUE(BalanceCount::kPerToken, OPST_COUNT_PER_TOKEN);
OPST_SAME_VALUE(BalanceCount::kPerChoice, OPST_COUNT_PER_CHOICE);
OPST_SAME_VALUE(BalanceCount::kFirstChoice, OPST_COUNT_FIRST_CHOICE);

OPST_LAST_VALUE(StopReason::kCancelled, OPST_STOP_CANCELLED);
OPST_SAME_VALUE(StopReason::kEndToken, OPST_STOP_END_TOKEN);
OPST_SAME_VALUE(StopReason::kStopString, OPST_STOP_STRING);
OPST_SAME_VALUE(StopReason::kMaxNewTokens, OPST_STOP_MAX_NEW_TOKENS);
OPST_SAME_VALUE(StopReason::kContextLength, OPST_STOP_CONTEXT_LENGTH);

OPST_LAST_VALUE(MoeOfDenseOptions::Kind::kSplit, OPST_MOE_OF_DENSE_SPLIT);
OPST_SAME_VALUE(MoeOfDenseOptions::Kind::kNone, OPST_MOE_OF_DENSE_NONE);
OPST_SAME_VALUE(MoeOfDenseOptions::Kind::kUpcycle, OPST_MOE_OF_DENSE_UPCYCLE);

#undef OPST_LAST_VALUE
#undef OPST_SAME_VALUE

// opst/dtype.h names the types of model tensors; arrays of C have two more.
template <typename T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;

}  // namespace opst::capi

#endif  // OPST_CAPI_ENUMS_H_
