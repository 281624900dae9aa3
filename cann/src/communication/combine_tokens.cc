// Each rank shows its expert rows; a token adds its own by choice, then shared experts with
// weight 1.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/communication/combine_tokens.h"

#include <algorithm>
#include <cmath>

#include "cann/src/communication/elastic_info.h"
#include "cann/src/descriptors/descriptors.h"
#include "kernels/rows.h"

namespace opst::cann {
namespace {

constexpr std::array kTokens = {ACL_FLOAT16, ACL_BF16};
constexpr size_t kQuantizedTogether = 8;

// A rank's rows, rounded to the dtype in which they travel, and the running sums that divide them.
struct Returned {
  std::string error;
  std::vector<float> rows;
  std::vector<int64_t> ends;
};

float RoundTo(DType dtype, float value) {
  return dtype == DType::kF16 ? ToFloat(ToF16(value)) : ToFloat(ToBf16(value));
}

// What int8 on the way does to a row: eight elements share a scale.
void QuantizeOnTheWay(DType dtype, float* row, size_t width) {
  for (size_t first = 0; first < width; first += kQuantizedTogether) {
    const size_t count = std::min(kQuantizedTogether, width - first);
    float largest = 0;
    for (size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(row[first + i]));
    const float scale = RoundTo(dtype, largest * (1.0f / 127.0f));
    for (size_t i = 0; i < count; ++i) {
      float& value = row[first + i];
      if (scale == 0) {
        value = 0;
        continue;
      }
      const float q = std::clamp(std::nearbyint(ToFloat(ToF16(value / scale))), -128.0f, 127.0f);
      value = RoundTo(dtype, q * scale);
    }
  }
}

// Rows of this rank's experts. With a tensor parallel partner, whose rows for this rank stand
// behind its own, both halves are added.
std::shared_ptr<Returned> OwnRows(const Run& run, const CombineOperands& operands,
                                  const Placement& placement) {
  auto own = std::make_shared<Returned>();
  const auto groups = static_cast<size_t>(placement.ranks * placement.groups_of(placement.rank));
  std::vector<int64_t> counts = run.Ints(operands.counts);
  counts.resize(groups);
  const int64_t capacity = run[operands.rows].dim(0) / placement.tp_ranks();
  if (!std::is_sorted(counts.begin(), counts.end()) || counts.front() < 0 ||
      counts.back() > capacity) {
    own->error = "epSendCounts must be running sums of at most the rows of expandX";
    return own;
  }
  own->ends = counts;
  own->rows = run.Floats(operands.rows);
  return own;
}

void AddPartner(const CombineOperands& operands, const Placement& placement, DType dtype,
                Returned& own) {
  const auto width = static_cast<size_t>(operands.width);
  const auto all = placement.tp->ExchangeAs<Returned>(static_cast<int32_t>(placement.tp_rank),
                                                      std::make_shared<const Returned>(own));
  const Returned& partner = *all[static_cast<size_t>(1 - placement.tp_rank)];
  if (!own.error.empty()) return;
  if (!partner.error.empty()) {
    own.error = partner.error;
    return;
  }
  const size_t first = static_cast<size_t>(partner.ends.back()) * width;
  for (size_t i = 0; i < static_cast<size_t>(own.ends.back()) * width; ++i) {
    if (first + i >= partner.rows.size()) break;
    own.rows[i] = RoundTo(dtype, own.rows[i] + partner.rows[first + i]);
  }
}

// Where the rows for this rank begin in group `group` of rank `target`.
int64_t FirstRow(const Returned& from, const Placement& placement, int64_t group) {
  const int64_t at = group * placement.ranks + placement.rank;
  return at == 0 ? 0 : from.ends[static_cast<size_t>(at) - 1];
}

// Adds, in the order of choices, what each token gets.
class TokenSums {
 public:
  TokenSums(const Run& run, const CombineOperands& operands, const Placement& placement,
            const std::vector<std::shared_ptr<const Returned>>& all)
      : run_(run),
        operands_(operands),
        placement_(placement),
        all_(all),
        routing_(ReadRouting(run, operands.expert_ids, operands.mask, placement)),
        scales_(run.Floats(operands.expert_scales)),
        width_(static_cast<size_t>(operands.width)),
        result_{std::vector<float>(static_cast<size_t>(operands.tokens) * width_, 0.0f),
                routing_.token_is_active},
        rows_(routing_.expert_ids.size(), nullptr) {}

  Combined Sum() {
    FindExpertRows();
    const std::vector<float> ori = run_.Floats(operands_.ori_x);
    const std::vector<float> alpha1 = run_.Floats(operands_.alpha1);
    const std::vector<float> alpha2 = run_.Floats(operands_.alpha2);
    const std::vector<float> constants = run_.Floats(operands_.const_v);
    for (size_t slot = 0; slot < routing_.expert_ids.size(); ++slot) {
      if (routing_.is_active[slot] == 0) continue;
      const size_t token = slot / static_cast<size_t>(operands_.k);
      const int64_t id = routing_.expert_ids[slot];
      if (rows_[slot] != nullptr) Add(token, scales_[slot], rows_[slot]);
      if (id < operands_.copy_begin) continue;
      const float* const source = ori.data() + token * width_;
      if (id < operands_.const_begin) {
        Add(token, scales_[slot], source);
        continue;
      }
      const auto c = static_cast<size_t>(id - operands_.const_begin);
      std::vector<float> row(width_);
      for (size_t h = 0; h < width_; ++h) {
        row[h] = alpha1[c] * source[h] + alpha2[c] * constants[c * width_ + h];
      }
      Add(token, scales_[slot], row.data());
    }
    AddShared();
    return std::move(result_);
  }

 private:
  void Add(size_t token, float weight, const float* row) {
    ScaledAccumulate(weight, row, width_, result_.sums.data() + token * width_);
  }
  const float* RowOf(int64_t target, int64_t group, size_t position) const {
    const Returned& from = *all_[static_cast<size_t>(target)];
    const auto row = static_cast<size_t>(FirstRow(from, placement_, group)) + position;
    run_.Value(row < static_cast<size_t>(from.ends.back()),
               "epSendCounts must be those of the dispatch with the same expertIds", row,
               " on rank ", target);
    return from.rows.data() + row * width_;
  }
  void FindExpertRows() {
    for (int64_t target = placement_.shared_ranks; target < placement_.ranks; ++target) {
      for (int64_t group = 0; group < placement_.local_experts; ++group) {
        const auto slots = SlotsFor(routing_, placement_, placement_.rank, target, group);
        for (size_t i = 0; i < slots.size(); ++i) {
          rows_[static_cast<size_t>(slots[i].token * operands_.k + slots[i].choice)] =
              RowOf(target, group, i);
        }
      }
    }
  }
  void AddShared() {
    for (int64_t target = 0; target < placement_.shared_ranks; ++target) {
      const auto slots = SlotsFor(routing_, placement_, placement_.rank, target, 0);
      for (size_t i = 0; i < slots.size(); ++i) {
        Add(static_cast<size_t>(slots[i].token), 1.0f, RowOf(target, 0, i));
      }
    }
    const std::vector<float> shared = run_.Floats(operands_.shared_x);
    for (size_t token = 0; token < result_.is_active.size() && !shared.empty(); ++token) {
      if (result_.is_active[token] != 0) Add(token, 1.0f, shared.data() + token * width_);
    }
  }

  const Run& run_;
  const CombineOperands& operands_;
  const Placement& placement_;
  const std::vector<std::shared_ptr<const Returned>>& all_;
  const SourceRouting routing_;
  const std::vector<float> scales_;
  const size_t width_;
  Combined result_;
  std::vector<const float*> rows_;  // of each slot
};

}  // namespace

CombineOperands DeclareCombine(Call& call, const CombineArguments& arguments,
                               const DistributeAttributes& attributes) {
  const auto need = [](bool is_needed) { return is_needed ? Need::kRequired : Need::kOptional; };
  const bool uses_ori = attributes.copy_experts > 0 || attributes.const_experts > 0;
  const auto for_const = need(attributes.const_experts > 0);
  CombineOperands operands;
  operands.rows = call.Input("expandX", arguments.expand_x, kTokens);
  operands.expert_ids = call.Input("expertIds", arguments.expert_ids, kI32);
  call.Input("assistInfoForCombine", arguments.info, kI32);
  operands.counts = call.Input("epSendCounts", arguments.send_counts, kI32);
  operands.expert_scales = call.Input("expertScales", arguments.expert_scales, kF32);
  operands.tp_counts =
      call.Input("tpSendCounts", arguments.tp_counts, kI32, need(attributes.tp_size == 2));
  operands.mask = call.Input("xActiveMask", arguments.mask, kBools, Need::kOptional);
  operands.shared_x = call.Input("sharedExpertX", arguments.shared_x, kTokens, Need::kOptional);
  operands.ori_x = call.Input("oriX", arguments.ori_x, kTokens, need(uses_ori));
  operands.alpha1 = call.Input("constExpertAlpha1", arguments.alpha1, kFloats, for_const);
  operands.alpha2 = call.Input("constExpertAlpha2", arguments.alpha2, kFloats, for_const);
  operands.const_v = call.Input("constExpertV", arguments.const_v, kFloats, for_const);
  operands.elastic = call.Input("elasticInfo", arguments.elastic, kI32, Need::kOptional);
  operands.quantizes = arguments.comm_quant_mode == 2;
  operands.copy_begin = attributes.moe_experts + attributes.zero_experts;
  operands.const_begin = operands.copy_begin + attributes.copy_experts;
  CheckNames(call, attributes);
  return operands;
}

Placement CheckCombine(Call& call, const CombineArguments& arguments,
                       const DistributeAttributes& attributes, CombineOperands& operands) {
  call.Shape(arguments.activation_scale == nullptr && arguments.weight_scale == nullptr &&
                 arguments.group_list == nullptr,
             "activationScale, weightScale and groupList must be null", "a tensor");
  call.Shape(arguments.comm_quant_mode == 0 || (operands.quantizes && attributes.tp_size < 2),
             "commQuantMode must be 0, or 2 without tensor parallel ranks",
             arguments.comm_quant_mode);
  call.RankIs(operands.expert_ids, 2);
  call.RankIs(operands.rows, 2);
  operands.tokens = call[operands.expert_ids].dim(0);
  operands.k = call[operands.expert_ids].dim(1);
  operands.width = call[operands.rows].dim(1);
  Placement placement = CheckPlacement(call, attributes, operands.tokens);
  CheckElasticInfo(call, operands.elastic, placement);
  call.ShapeIs(operands.expert_scales, {operands.tokens, operands.k});
  call.Shape(
      call[operands.counts].num_elements() >= placement.ranks * placement.groups_of(placement.rank),
      "epSendCounts must have a count for each rank and expert", call[operands.counts].Describe());
  for (const Index index : {operands.shared_x, operands.ori_x}) {
    call.CountIs(index, operands.tokens * operands.width);
    call.SameDType(index, operands.rows);
  }
  call.Shape(operands.shared_x == kAbsent || attributes.shared_ranks == 0,
             "sharedExpertX must come without ranks for shared experts", attributes.shared_ranks);
  for (const Index index : {operands.alpha1, operands.alpha2}) {
    call.CountIs(index, attributes.const_experts);
  }
  call.CountIs(operands.const_v, attributes.const_experts * operands.width);
  if (operands.mask != kAbsent) {
    const auto& mask = call[operands.mask].dims;
    call.Shape(mask == std::vector<int64_t>{operands.tokens} ||
                   mask == std::vector<int64_t>{operands.tokens, operands.k},
               "xActiveMask must be [Bs] or [Bs,K]", call[operands.mask].Describe());
  }
  return placement;
}

Combined CombineTokens(const Run& run, const CombineOperands& given, const Placement& planned) {
  const Placement placement = PlacementNow(run, given.elastic, planned);
  CombineOperands operands = given;  // experts without a rank stand behind those that are left
  operands.copy_begin -= planned.moe_experts - placement.moe_experts;
  operands.const_begin -= planned.moe_experts - placement.moe_experts;
  const DType dtype = ToDType(run[operands.rows].dtype);
  const auto own = OwnRows(run, operands, placement);
  if (placement.tp != nullptr) AddPartner(operands, placement, dtype, *own);
  const auto width = static_cast<size_t>(operands.width);
  for (size_t first = 0; operands.quantizes && first < own->rows.size(); first += width) {
    QuantizeOnTheWay(dtype, own->rows.data() + first, width);
  }
  const auto all = placement.ep->ExchangeAs<Returned>(static_cast<int32_t>(placement.rank), own);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    run.Value(all[rank]->error.empty(), "all ranks must have valid arguments", all[rank]->error,
              " on rank ", rank);
  }
  return TokenSums(run, operands, placement, all).Sum();
}

}  // namespace opst::cann
