// CANN's dispatch in its three versions: every rank shows its tokens to the others and takes those
// of its experts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "aclnnop/aclnn_moe_distribute_dispatch.h"
#include "aclnnop/aclnn_moe_distribute_dispatch_v2.h"
#include "aclnnop/aclnn_moe_distribute_dispatch_v3.h"
#include "cann/src/communication/elastic_info.h"
#include "cann/src/communication/placement.h"
#include "cann/src/descriptors/descriptors.h"
#include "cann/src/moe/quantize.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr std::array kTokens = {ACL_FLOAT16, ACL_BF16};
constexpr std::array kRows = {ACL_FLOAT16, ACL_BF16, ACL_INT8};
constexpr int64_t kMaxChoices = 16;
constexpr int64_t kInfoPerRow = 3;  // source rank, token, choice

struct Arguments {
  const aclTensor *x, *expert_ids, *scales, *mask, *expert_scales, *elastic;
  int64_t quant_mode, token_nums_type;
  const aclTensor *expand_x, *dynamic_scales, *info, *token_nums, *ep_counts, *tp_counts,
      *expand_scales;
};

struct Operands {
  Index x, expert_ids, scales, mask, expert_scales, elastic;
  Index out, out_scales, info, token_nums, ep_counts, tp_counts, expand_scales;
  bool quantizes = false;
  bool counts_are_sums = false;
  bool info_is_index = false;  // the first version: how many earlier slots chose the same expert
};

// What a rank shows to the others.
struct Shipment {
  std::string error;
  SourceRouting routing;
  std::vector<std::byte> tokens;
  std::vector<float> scales;  // smooth factors, shared experts first
};

// Throws for all ranks when one of them has nothing to show.
template <typename T>
void CheckAll(const Run& run, const std::vector<std::shared_ptr<const T>>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    run.Value(all[rank]->error.empty(), "all ranks must have valid arguments", all[rank]->error,
              " on rank ", rank);
  }
}

std::shared_ptr<Shipment> MakeShipment(const Run& run, const Operands& operands,
                                       const Placement& placement) {
  auto shipment = std::make_shared<Shipment>();
  try {
    shipment->routing = ReadRouting(run, operands.expert_ids, operands.mask, placement);
    const std::byte* const data = run.data(operands.x);
    shipment->tokens.assign(data, data + run[operands.x].num_bytes());
    shipment->scales = run.Floats(operands.scales);
  } catch (const std::exception& error) {
    shipment->error = error.what();
  }
  return shipment;
}

// The rows of this rank's experts: expert, then source rank, then slot.
struct Received {
  struct Row {
    int32_t source;
    SentSlot slot;
    int64_t group;
  };
  std::vector<Row> rows;
  std::vector<int64_t> ends;    // running sums over (group, source)
  std::vector<int64_t> counts;  // of groups
};

Received Receive(const std::vector<std::shared_ptr<const Shipment>>& all,
                 const Placement& placement) {
  Received received;
  for (int64_t group = 0; group < placement.groups_of(placement.rank); ++group) {
    const auto before = static_cast<int64_t>(received.rows.size());
    for (int64_t source = 0; source < placement.ranks; ++source) {
      const SourceRouting& routing = all[static_cast<size_t>(source)]->routing;
      for (const SentSlot& slot : SlotsFor(routing, placement, source, placement.rank, group)) {
        received.rows.push_back({static_cast<int32_t>(source), slot, group});
      }
      received.ends.push_back(static_cast<int64_t>(received.rows.size()));
    }
    received.counts.push_back(static_cast<int64_t>(received.rows.size()) - before);
  }
  return received;
}

// Row of the smooth factors: shared experts first, then all others.
int64_t ScaleRow(const Placement& placement, const Received::Row& row) {
  if (placement.is_shared(placement.rank)) {
    return placement.ranks_per_shared == 0 ? 0 : placement.rank / placement.ranks_per_shared;
  }
  const int64_t shared =
      placement.ranks_per_shared == 0 ? 0 : placement.shared_ranks / placement.ranks_per_shared;
  return shared + (placement.rank - placement.shared_ranks) * placement.local_experts + row.group;
}

struct Rows {
  std::vector<std::byte> data;
  std::vector<float> scales;
};

Rows BuildRows(const Run& run, const Operands& operands, const Placement& placement,
               const std::vector<std::shared_ptr<const Shipment>>& all, const Received& received) {
  const auto width = static_cast<size_t>(run[operands.x].dim(1));
  const aclDataType dtype = run[operands.x].dtype;
  const size_t row_bytes = width * aclDataTypeSize(dtype);
  Rows rows;
  std::vector<float> values(width);
  std::vector<int8_t> quantized(width);
  for (const Received::Row& row : received.rows) {
    const Shipment& from = *all[static_cast<size_t>(row.source)];
    const std::byte* const token =
        from.tokens.data() + static_cast<size_t>(row.slot.token) * row_bytes;
    if (!operands.quantizes) {
      rows.data.insert(rows.data.end(), token, token + row_bytes);
      continue;
    }
    ConvertToFloat(ToDType(dtype), token, width, values.data());
    const auto first = static_cast<size_t>(ScaleRow(placement, row)) * width;
    for (size_t h = 0; h < width && !from.scales.empty(); ++h) values[h] *= from.scales[first + h];
    rows.scales.push_back(QuantizeForDispatch(values, quantized.data()));
    const auto* const bytes = reinterpret_cast<const std::byte*>(quantized.data());
    rows.data.insert(rows.data.end(), bytes, bytes + width);
  }
  return rows;
}

// Earlier slots that chose the same expert, of every slot.
std::vector<int64_t> EarlierChoices(const SourceRouting& routing, const Placement& placement) {
  std::vector<int64_t> seen(static_cast<size_t>(placement.all_experts), 0), earlier;
  for (size_t slot = 0; slot < routing.expert_ids.size(); ++slot) {
    int64_t& count = seen[static_cast<size_t>(routing.expert_ids[slot])];
    earlier.push_back(count);
    count += routing.is_active[slot];
  }
  return earlier;
}

void WriteBookkeeping(const Run& run, const Operands& operands, const Placement& placement,
                      const SourceRouting& mine, const Received& received) {
  if (operands.info_is_index) {
    run.SetInts(operands.info, EarlierChoices(mine, placement));
  } else {
    auto next = run.Span<int32_t>(operands.info).begin();
    for (const Received::Row& row : received.rows) {
      *next++ = row.source;
      *next++ = row.slot.token;
      *next++ = row.slot.choice;
    }
  }
  std::vector<int64_t> counts = received.counts;
  if (operands.counts_are_sums) {
    for (size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
  }
  run.SetInts(operands.token_nums, counts);
}

// What a tensor parallel partner needs.
struct Partner {
  std::string error;
  Rows rows;
  std::vector<int64_t> ends;
};

void RunDispatch(const Run& run, const Operands& operands, const Placement& planned) {
  const Placement placement = PlacementNow(run, operands.elastic, planned);
  const auto all = placement.ep->ExchangeAs<Shipment>(static_cast<int32_t>(placement.rank),
                                                      MakeShipment(run, operands, placement));
  CheckAll(run, all);
  const Received received = Receive(all, placement);
  const int64_t capacity = run[operands.out].dim(0) / placement.tp_ranks();
  auto mine = std::make_shared<Partner>();
  mine->ends = received.ends;
  const auto count = static_cast<int64_t>(received.rows.size());
  if (count > capacity) {
    mine->error = Concat("expandX must have a row for every token; got ", capacity, " for ", count);
  } else {
    mine->rows = BuildRows(run, operands, placement, all, received);
  }
  std::vector<std::shared_ptr<const Partner>> parts = {mine};
  if (placement.tp != nullptr) {
    parts = placement.tp->ExchangeAs<Partner>(static_cast<int32_t>(placement.tp_rank), mine);
    std::swap(parts[0], parts[static_cast<size_t>(placement.tp_rank)]);  // own rows first
  }
  CheckAll(run, parts);
  std::byte* out = run.data(operands.out);
  auto counts = run.Span<int32_t>(operands.ep_counts).begin();
  std::vector<float> scales;
  for (const auto& part : parts) {
    out = std::copy(part->rows.data.begin(), part->rows.data.end(), out);
    scales.insert(scales.end(), part->rows.scales.begin(), part->rows.scales.end());
    for (const int64_t end : part->ends) *counts++ = static_cast<int32_t>(end);
  }
  if (operands.quantizes) {
    std::copy(scales.begin(), scales.end(), run.Span<float>(operands.out_scales).begin());
  }
  if (placement.tp != nullptr && operands.tp_counts != kAbsent) {
    const auto tp_counts = run.Span<int32_t>(operands.tp_counts);
    const auto own = static_cast<size_t>(placement.tp_rank);
    tp_counts[own] = static_cast<int32_t>(parts[0]->ends.back());
    tp_counts[1 - own] = static_cast<int32_t>(parts[1]->ends.back());
  }
  WriteBookkeeping(run, operands, placement, all[static_cast<size_t>(placement.rank)]->routing,
                   received);
}

Operands Declare(Call& call, const Arguments& arguments, const DistributeAttributes& attributes) {
  const auto need = [](bool is_needed) { return is_needed ? Need::kRequired : Need::kOptional; };
  Operands operands{};
  operands.x = call.Input("x", arguments.x, kTokens);
  operands.expert_ids = call.Input("expertIds", arguments.expert_ids, kI32);
  operands.scales = call.Input("scales", arguments.scales, kF32, Need::kOptional);
  operands.mask = call.Input("xActiveMask", arguments.mask, kBools, Need::kOptional);
  operands.expert_scales =
      call.Input("expertScales", arguments.expert_scales, kF32, Need::kOptional);
  operands.elastic = call.Input("elasticInfo", arguments.elastic, kI32, Need::kOptional);
  operands.out = call.Output("expandXOut", arguments.expand_x, kRows);
  operands.out_scales = call.Output("dynamicScalesOut", arguments.dynamic_scales, kF32,
                                    need(arguments.quant_mode != 0));
  operands.info = call.Output("assistInfoForCombineOut", arguments.info, kI32);
  operands.token_nums = call.Output("expertTokenNumsOut", arguments.token_nums, kI64);
  operands.ep_counts = call.Output("epRecvCountsOut", arguments.ep_counts, kI32);
  operands.tp_counts =
      call.Output("tpRecvCountsOut", arguments.tp_counts, kI32, need(attributes.tp_size == 2));
  operands.expand_scales =
      call.Output("expandScalesOut", arguments.expand_scales, kF32, Need::kOptional);
  CheckNames(call, attributes);
  call.CheckOperands();
  operands.quantizes = arguments.quant_mode == 2;
  operands.counts_are_sums = arguments.token_nums_type == 0;
  operands.info_is_index = attributes.divides_shared_tokens;
  return operands;
}

void CheckShapes(const Call& call, const Arguments& arguments, const Operands& operands,
                 const Placement& placement) {
  call.RankIs(operands.x, 2);
  call.RankIs(operands.expert_ids, 2);
  const int64_t tokens = call[operands.x].dim(0), width = call[operands.x].dim(1);
  const int64_t k = call[operands.expert_ids].dim(1);
  call.ShapeIs(operands.expert_ids, {tokens, k});
  call.Shape(k >= 1 && k <= kMaxChoices, "a token must have 1 to 16 experts", k);
  call.Shape(arguments.quant_mode == 0 || arguments.quant_mode == 2, "quantMode must be 0 or 2",
             arguments.quant_mode);
  call.Shape(arguments.token_nums_type == 0 || arguments.token_nums_type == 1,
             "expertTokenNumsType must be 0 or 1", arguments.token_nums_type);
  CheckElasticInfo(call, operands.elastic, placement);
  call.Param(call[operands.out].dtype == (operands.quantizes ? ACL_INT8 : call[operands.x].dtype),
             "expandXOut must have the dtype of x, with quantMode 2 int8",
             call[operands.out].Describe());
  const Operand& out = call[operands.out];
  call.Shape(out.rank() == 2 && out.dim(1) == width && out.dim(0) % placement.tp_ranks() == 0,
             "expandXOut must be [A,H], with tensor parallel ranks [2A,H]", out.Describe());
  const int64_t groups = placement.groups_of(placement.rank);
  const int64_t capacity = out.dim(0) / placement.tp_ranks();
  if (operands.info_is_index) {
    call.CountIs(operands.info, tokens * k);
  } else {
    call.Shape(call[operands.info].num_elements() >= capacity * kInfoPerRow,
               "assistInfoForCombineOut must have 3 numbers a row", call[operands.info].Describe());
  }
  call.ShapeIs(operands.token_nums, {groups});
  call.Shape(
      call[operands.ep_counts].num_elements() >= placement.ranks * groups * placement.tp_ranks(),
      "epRecvCountsOut must have a count for each rank and expert",
      call[operands.ep_counts].Describe());
  if (operands.quantizes) {
    call.Shape(call[operands.out_scales].num_elements() >= out.dim(0),
               "dynamicScalesOut must have one scale a row", call[operands.out_scales].Describe());
  }
  if (placement.tp != nullptr) call.CountIs(operands.tp_counts, placement.tp_ranks());
  const int64_t shared =
      placement.ranks_per_shared == 0 ? 0 : placement.shared_ranks / placement.ranks_per_shared;
  call.ShapeIs(operands.scales, {shared + placement.moe_experts, width});
  if (operands.mask == kAbsent) return;
  const auto& mask = call[operands.mask].dims;
  call.Shape(mask == std::vector<int64_t>{tokens} || mask == std::vector<int64_t>{tokens, k},
             "xActiveMask must be [Bs] or [Bs,K]", call[operands.mask].Describe());
}

aclnnStatus Prepare(const char* name, const Arguments& arguments,
                    const DistributeAttributes& attributes, uint64_t* workspace_size,
                    aclOpExecutor** executor) {
  return PrepareCall(name, workspace_size, executor, [&](Call& call) -> Body {
    const Operands operands = Declare(call, arguments, attributes);
    const int64_t tokens = call[operands.x].rank() == 2 ? call[operands.x].dim(0) : 0;
    const Placement placement = CheckPlacement(call, attributes, tokens);
    CheckShapes(call, arguments, operands, placement);
    return [=](Run& run) { RunDispatch(run, operands, placement); };
  });
}

}  // namespace
}  // namespace opst::cann

using namespace opst;        // NOLINT: only the C functions follow
using namespace opst::cann;  // NOLINT

aclnnStatus aclnnMoeDistributeDispatchGetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIds, const aclTensor* scalesOptional,
    const aclTensor* xActiveMaskOptional, const aclTensor* expertScalesOptional,
    const char* groupEp, int64_t epWorldSize, int64_t epRankId, int64_t moeExpertNum,
    const char* groupTp, int64_t tpWorldSize, int64_t tpRankId, int64_t expertShardType,
    int64_t sharedExpertNum, int64_t sharedExpertRankNum, int64_t quantMode, int64_t globalBs,
    int64_t expertTokenNumsType, aclTensor* expandXOut, aclTensor* dynamicScalesOut,
    aclTensor* expandIdxOut, aclTensor* expertTokenNumsOut, aclTensor* epRecvCountsOut,
    aclTensor* tpRecvCountsOut, aclTensor* expandScalesOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  DistributeAttributes attributes{groupEp,         epWorldSize,         epRankId, moeExpertNum,
                                  groupTp,         tpWorldSize,         tpRankId, expertShardType,
                                  sharedExpertNum, sharedExpertRankNum, globalBs};
  attributes.divides_shared_tokens = true;
  return Prepare("aclnnMoeDistributeDispatch",
                 {x, expertIds, scalesOptional, xActiveMaskOptional, expertScalesOptional, nullptr,
                  quantMode, expertTokenNumsType, expandXOut, dynamicScalesOut, expandIdxOut,
                  expertTokenNumsOut, epRecvCountsOut, tpRecvCountsOut, expandScalesOut},
                 attributes, workspaceSize, executor);
}

aclnnStatus aclnnMoeDistributeDispatchV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIds, const aclTensor* scalesOptional,
    const aclTensor* xActiveMaskOptional, const aclTensor* expertScalesOptional,
    const char* groupEp, int64_t epWorldSize, int64_t epRankId, int64_t moeExpertNum,
    const char* groupTp, int64_t tpWorldSize, int64_t tpRankId, int64_t expertShardType,
    int64_t sharedExpertNum, int64_t sharedExpertRankNum, int64_t quantMode, int64_t globalBs,
    int64_t expertTokenNumsType, const char* /*commAlg*/, aclTensor* expandXOut,
    aclTensor* dynamicScalesOut, aclTensor* assistInfoForCombineOut, aclTensor* expertTokenNumsOut,
    aclTensor* epRecvCountsOut, aclTensor* tpRecvCountsOut, aclTensor* expandScalesOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const DistributeAttributes attributes{
      groupEp,  epWorldSize,     epRankId,        moeExpertNum,        groupTp, tpWorldSize,
      tpRankId, expertShardType, sharedExpertNum, sharedExpertRankNum, globalBs};
  return Prepare(
      "aclnnMoeDistributeDispatchV2",
      {x, expertIds, scalesOptional, xActiveMaskOptional, expertScalesOptional, nullptr, quantMode,
       expertTokenNumsType, expandXOut, dynamicScalesOut, assistInfoForCombineOut,
       expertTokenNumsOut, epRecvCountsOut, tpRecvCountsOut, expandScalesOut},
      attributes, workspaceSize, executor);
}

aclnnStatus aclnnMoeDistributeDispatchV3GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIds, const aclTensor* scalesOptional,
    const aclTensor* xActiveMaskOptional, const aclTensor* expertScalesOptional,
    const aclTensor* elasticInfoOptional, const char* groupEp, int64_t epWorldSize,
    int64_t epRankId, int64_t moeExpertNum, const char* groupTp, int64_t tpWorldSize,
    int64_t tpRankId, int64_t expertShardType, int64_t sharedExpertNum, int64_t sharedExpertRankNum,
    int64_t quantMode, int64_t globalBs, int64_t expertTokenNumsType, const char* /*commAlg*/,
    int64_t zeroExpertNum, int64_t copyExpertNum, int64_t constExpertNum, aclTensor* expandXOut,
    aclTensor* dynamicScalesOut, aclTensor* assistInfoForCombineOut, aclTensor* expertTokenNumsOut,
    aclTensor* epRecvCountsOut, aclTensor* tpRecvCountsOut, aclTensor* expandScalesOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  const DistributeAttributes attributes{
      groupEp,     epWorldSize,   epRankId,        moeExpertNum,    groupTp,
      tpWorldSize, tpRankId,      expertShardType, sharedExpertNum, sharedExpertRankNum,
      globalBs,    zeroExpertNum, copyExpertNum,   constExpertNum};
  return Prepare(
      "aclnnMoeDistributeDispatchV3",
      {x, expertIds, scalesOptional, xActiveMaskOptional, expertScalesOptional, elasticInfoOptional,
       quantMode, expertTokenNumsType, expandXOut, dynamicScalesOut, assistInfoForCombineOut,
       expertTokenNumsOut, epRecvCountsOut, tpRecvCountsOut, expandScalesOut},
      attributes, workspaceSize, executor);
}

OPST_CANN_LAUNCH(aclnnMoeDistributeDispatch)
OPST_CANN_LAUNCH(aclnnMoeDistributeDispatchV2)
OPST_CANN_LAUNCH(aclnnMoeDistributeDispatchV3)
