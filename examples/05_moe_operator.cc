// Example 5: a MoE operator as a loop over experts with masks, beside the fused layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/ops/gating.h>
#include <opst/ops/grouped_matmul.h>
#include <opst/ops/moe_ffn.h>
#include <opst/ops/sparse_rows.h>
#include <opst/pack.h>

#include <cmath>
#include <cstdio>
#include <cstring>

namespace {
using opst::Context, opst::Tensor, opst::DType, opst::Shape, opst::PanelOrder, opst::RoutingPlan;
constexpr int64_t kTokens = 40, kHidden = 64, kFfn = 48, kExperts = 8;

RoutingPlan TopKRouting(const Context& context, const Tensor& scores, int64_t top_k) {
  return opst::Route(context, scores, {.top_k = top_k});
}

// The tokens that one expert serves, and with what weights.
struct ExpertMask {
  std::vector<int32_t> tokens = {};
  std::vector<float> weights = {};
  Shape shape() const { return {static_cast<int64_t>(tokens.size())}; }
};

ExpertMask operator==(const RoutingPlan& plan, int64_t expert) {
  ExpertMask mask;
  for (size_t slot = 0; slot < plan.expert_ids.size(); ++slot) {
    if (plan.expert_ids[slot] != expert) continue;
    mask.tokens.push_back(static_cast<int32_t>(slot / static_cast<size_t>(plan.top_k)));
    mask.weights.push_back(plan.expert_weights[slot]);
  }
  return mask;
}

Tensor SparseGather(const Context& context, const Tensor& x, const ExpertMask& mask) {
  Tensor rows(DType::kF32, {mask.shape()[0], x.shape()[1]});
  opst::SparseGather(context, x, {mask.tokens.data(), mask.shape()}, rows);
  return rows;
}

void SparseScatterAdd(const Context& context, const Tensor& rows, const Tensor& out,
                      const ExpertMask& mask) {
  opst::SparseScatterAdd(context, rows, {mask.tokens.data(), mask.shape()},
                         {mask.weights.data(), mask.shape()}, opst::OutputMode::kAdd, out);
}

struct MoEOperator {
  const Context& context;
  opst::PackedWeights router;
  opst::ExpertWeights experts;
  RoutingPlan Forward(const Tensor& x, const Tensor& out) const {
    const Tensor scores(DType::kF32, {kTokens, kExperts});
    opst::Matmul(context, x, router, scores);
    RoutingPlan expert_ids = TopKRouting(context, scores, 2);
    for (int64_t i = 0; i < kExperts; ++i) {
      const ExpertMask expert_mask = expert_ids == i;
      const Tensor expert_input = SparseGather(context, x, expert_mask);
      const Tensor expert_output(DType::kF32, expert_input.shape());
      // A layer of one expert, to which every row goes with weight 1.
      const RoutingPlan all =
          opst::Route(context, Tensor(DType::kF32, {expert_input.shape()[0], 1}), {.top_k = 1});
      opst::MoeFfn(context, expert_input, all, Expert(i), {}, expert_output);
      SparseScatterAdd(context, expert_output, out, expert_mask);
    }
    return expert_ids;
  }
  opst::ExpertWeights Expert(int64_t i) const {
    return {{experts.gate_up.layout(), 1, experts.gate_up.expert(i)},
            {experts.down.layout(), 1, experts.down.expert(i)}};
  }
};

Tensor Waves(const Shape& shape, double pitch) {
  Tensor tensor(DType::kF32, shape);
  for (int i = 0; i < shape.num_elements(); ++i)
    tensor.as<float>()[i] = float(std::sin(pitch * i * i));
  return tensor;
}
}  // namespace

int main() {
  const Context context;
  const auto pack = [&](const Shape& shape, double pitch, PanelOrder order) {
    return opst::PackExperts(context, Waves(shape, pitch), opst::WeightFormat::kF32, order);
  };
  const MoEOperator moe{context,
                        pack({1, kExperts, kHidden}, 1.3, PanelOrder::kPlain),
                        {pack({kExperts, 2 * kFfn, kHidden}, 1.7, PanelOrder::kGateUp),
                         pack({kExperts, kHidden, kFfn}, 2.1, PanelOrder::kPlain)}};
  const Tensor x = Waves({kTokens, kHidden}, 0.9);
  const Tensor out(DType::kF32, x.shape()), fused(DType::kF32, x.shape());
  opst::MoeFfn(context, x, moe.Forward(x, out), moe.experts, {}, fused);
  const bool is_same = std::memcmp(out.as<float>(), fused.as<float>(), out.view().num_bytes()) == 0;
  std::printf("%g ...: %s\n", out.as<float>()[0], is_same ? "the same bits" : "different bits");
  return is_same ? 0 : 1;
}
