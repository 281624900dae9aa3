// CANN's choice of expert replicas, with pruning.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "aclnnop/aclnn_moe_update_expert.h"
#include "cann/src/execution/call.h"
#include "cann/src/execution/run.h"

namespace opst::cann {
namespace {

constexpr int64_t kMaxTokens = 512;
constexpr int64_t kMaxChoices = 16;
constexpr int64_t kMaxExperts = 1024;

struct Update {
  Index ids = kAbsent, table = kAbsent, scales = kAbsent, threshold = kAbsent, mask = kAbsent;
  Index out = kAbsent, out_mask = kAbsent;
  int64_t rank = 0;
  int64_t world = 0;
  int64_t mode = 0;
};

// Column 0 of the table counts an expert's replicas, the columns from 1 on are their ids.
void ChooseReplicas(const Run& run, const Update& update) {
  const int64_t experts = run[update.table].dim(0), columns = run[update.table].dim(1);
  const int64_t k = run[update.ids].dim(1);
  const auto ids = run.Indices(update.ids, 0, experts - 1);
  const std::vector<int64_t> table = run.Ints(update.table);
  std::vector<int64_t> chosen;
  for (size_t slot = 0; slot < ids.size(); ++slot) {
    const int64_t count = table[static_cast<size_t>(ids[slot] * columns)];
    run.Value(count >= 1 && count < columns, "an expert must have a replica for each count", count,
              " of expert ", ids[slot]);
    int64_t column = 1;
    if (count > 1 && update.mode == 0) {
      column = update.rank / ((update.world + count - 1) / count) + 1;
    } else if (count > 1) {
      column = static_cast<int64_t>(slot) / k % count + 1;
    }
    chosen.push_back(table[static_cast<size_t>(ids[slot] * columns + column)]);
  }
  run.SetInts(update.out, chosen);
}

// A choice stays when its scale reaches its share of the token's scales.
void Prune(const Run& run, const Update& update) {
  const int64_t tokens = run[update.ids].dim(0), k = run[update.ids].dim(1);
  const std::vector<float> scales = run.Floats(update.scales);
  const std::vector<float> threshold = run.Floats(update.threshold);
  const auto out = run.Span<uint8_t>(update.out_mask);
  for (int64_t token = 0; token < tokens; ++token) {
    const bool is_active = update.mask == kAbsent ||
                           run.Span<const uint8_t>(update.mask)[static_cast<size_t>(token)] != 0;
    float sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += scales[static_cast<size_t>(token * k + j)];
    for (int64_t j = 0; j < k; ++j) {
      const auto slot = static_cast<size_t>(token * k + j);
      out[slot] = is_active && scales[slot] >= threshold[static_cast<size_t>(j)] * sum;
    }
  }
}

void CheckUpdate(const Call& call, const Update& update) {
  call.RankIs(update.ids, 2);
  call.RankIs(update.table, 2);
  const Operand& ids = call[update.ids];
  call.Shape(ids.dim(0) <= kMaxTokens && ids.dim(1) <= kMaxChoices,
             "expertIds must be at most [512,16]", ids.Describe());
  call.Shape(call[update.table].dim(0) <= kMaxExperts && call[update.table].dim(1) >= 2,
             "eplbTable must have at most 1024 experts with a count and an id",
             call[update.table].Describe());
  call.Shape(update.mode == 0 || update.mode == 1, "balanceMode must be 0 or 1", update.mode);
  call.Shape(update.mode == 1 ||
                 (update.world >= 2 && update.world <= 768 && update.rank >= 0 &&
                  update.rank < update.world && call[update.table].dim(1) <= update.world + 1),
             "with balanceMode 0 worldSize must be 2 to 768, localRankId one of them", update.rank,
             " of ", update.world);
  call.ShapeIs(update.out, {ids.dim(0), ids.dim(1)});
  call.Shape((update.scales == kAbsent) == (update.threshold == kAbsent),
             "expertScales and pruningThreshold must come together", "one of them");
  if (update.scales == kAbsent) return;
  call.ShapeIs(update.scales, {ids.dim(0), ids.dim(1)});
  call.CountIs(update.threshold, ids.dim(1));
  call.ShapeIs(update.mask, {ids.dim(0)});
  call.ShapeIs(update.out_mask, {ids.dim(0), ids.dim(1)});
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeUpdateExpertGetWorkspaceSize(
    const aclTensor* expertIds, const aclTensor* eplbTable, const aclTensor* expertScalesOptional,
    const aclTensor* pruningThresholdOptional, const aclTensor* activeMaskOptional,
    int64_t localRankId, int64_t worldSize, int64_t balanceMode, aclTensor* balancedExpertIds,
    aclTensor* balancedActiveMask, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return PrepareCall("aclnnMoeUpdateExpert", workspaceSize, executor, [&](Call& call) -> Body {
    const bool prunes = expertScalesOptional != nullptr && pruningThresholdOptional != nullptr;
    Update update;
    update.ids = call.Input("expertIds", expertIds, kI32OrI64);
    update.table = call.Input("eplbTable", eplbTable, kI32);
    update.scales = call.Input("expertScales", expertScalesOptional, kFloats, Need::kOptional);
    update.threshold =
        call.Input("pruningThreshold", pruningThresholdOptional, kF32, Need::kOptional);
    update.mask = call.Input("activeMask", activeMaskOptional, kBools, Need::kOptional);
    update.out = call.Output("balancedExpertIds", balancedExpertIds, kI32OrI64);
    update.out_mask = call.Output("balancedActiveMask", balancedActiveMask, kBools,
                                  prunes ? Need::kRequired : Need::kOptional);
    call.CheckOperands();
    call.SameDType(update.out, update.ids);
    update.rank = localRankId;
    update.world = worldSize;
    update.mode = balanceMode;
    CheckUpdate(call, update);
    return [=](Run& run) {
      ChooseReplicas(run, update);
      if (prunes) Prune(run, update);
    };
  });
}

OPST_CANN_LAUNCH(aclnnMoeUpdateExpert)
