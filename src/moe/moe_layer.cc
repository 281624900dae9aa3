// Wires router, store, exchange and shared expert; every computation is an operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/moe_layer.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/scratch_pool.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "moe_layer";

void CheckExperts(const FfnRecipe& ffn, int64_t width, const PanelLayout& gate_up,
                  const PanelLayout& down) {
  OPST_CHECK_ARG(gate_up.out == 2 * width && gate_up.in == ffn.hidden, kWhere,
                 Concat("gate_up must be [", 2 * width, ",", ffn.hidden, "]"), gate_up.ToString());
  OPST_CHECK_ARG(down.out == ffn.hidden && down.in == width, kWhere,
                 Concat("down must be [", ffn.hidden, ",", width, "]"), down.ToString());
}

// A plan that sends every token to expert 0 of 1 with the given weights: the shared expert.
RoutingPlan EveryTokenPlan(const Context& context, const std::vector<float>& weights) {
  const std::vector<int32_t> ids(weights.size(), 0);
  const Shape shape{static_cast<int64_t>(weights.size()), 1};
  return BuildRoutingPlan(context, ConstTensorView(ids.data(), shape),
                          ConstTensorView(weights.data(), shape), 1);
}

}  // namespace

MoeLayer::MoeLayer(RoutingRecipe routing, FfnRecipe ffn, RouterWeights router,
                   std::shared_ptr<ExpertStore> experts, std::optional<SharedExpert> shared,
                   std::shared_ptr<ExpertExchange> exchange)
    : routing_(routing),
      ffn_(ffn),
      router_(std::move(router)),
      experts_(std::move(experts)),
      shared_(std::move(shared)),
      exchange_(std::move(exchange)) {
  if (exchange_ == nullptr) exchange_ = std::make_shared<LocalExpertExchange>();
  const PanelLayout& projection = router_.projection.layout();
  OPST_CHECK_ARG(projection.out == routing_.num_experts && projection.in == ffn_.hidden, kWhere,
                 Concat("router must be [", routing_.num_experts, ",", ffn_.hidden, "]"),
                 projection.ToString());
  OPST_CHECK_ARG(experts_->num_experts() == routing_.num_experts, kWhere,
                 "the store must hold every expert of the recipe", experts_->num_experts(), " of ",
                 routing_.num_experts);
  CheckExperts(ffn_, ffn_.ffn, experts_->gate_up_layout(), experts_->down_layout());
  OPST_CHECK_ARG(shared_.has_value() == (ffn_.shared_ffn > 0), kWhere,
                 "a shared expert must be given exactly when the recipe has one", "shared_ffn ",
                 ffn_.shared_ffn);
  OPST_CHECK_ARG(router_.selection_bias.empty() != routing_.has_selection_bias, kWhere,
                 "a selection bias must be given exactly when the recipe has one",
                 router_.selection_bias.size(), " values");
  if (!shared_) return;
  CheckExperts(ffn_, ffn_.shared_ffn, shared_->weights.gate_up.layout(),
               shared_->weights.down.layout());
  OPST_CHECK_ARG(shared_->gate.has_value() == ffn_.has_shared_gate, kWhere,
                 "a shared gate must be given exactly when the recipe has one", "has_shared_gate ",
                 ffn_.has_shared_gate);
}

RoutingPlan MoeLayer::RouteTokens(const Context& context, ConstTensorView x) const {
  const ScratchPool::Lease arena = context.scratch().Borrow();
  const Shape shape{x.dim(0), routing_.num_experts};
  auto* memory = arena->Take<float>(static_cast<size_t>(shape.num_elements()));
  const TensorView logits(memory, shape);
  Matmul(context, x, router_.projection, logits);
  const GatingOptions options{.top_k = routing_.top_k,
                              .score_function = routing_.score_function,
                              .selection_bias = router_.selection_bias,
                              .num_groups = routing_.num_groups,
                              .num_kept_groups = routing_.num_kept_groups,
                              .group_score = routing_.group_score,
                              .renormalizes = routing_.renormalizes,
                              .scale = routing_.scale};
  return Route(context, logits, options);
}

void MoeLayer::AddShared(const Context& context, ConstTensorView x, TensorView out) const {
  std::vector<float> weights(static_cast<size_t>(x.dim(0)), 1.0f);
  if (shared_->gate) {
    Matmul(context, x, *shared_->gate, TensorView(weights.data(), Shape{x.dim(0), 1}));
    for (float& weight : weights) weight = 1.0f / (1.0f + std::exp(-weight));
  }
  const MoeFfnOptions options{.activation = ffn_.activation, .output_mode = OutputMode::kAdd};
  MoeFfn(context, x, EveryTokenPlan(context, weights), shared_->weights, options, out);
}

RoutingPlan MoeLayer::Forward(const Context& context, ConstTensorView x, TensorView out) const {
  OPST_CHECK_ARG(x.rank() == 2 && x.dim(1) == ffn_.hidden && IsModelFloat(x.dtype()), kWhere,
                 Concat("input must be [T,", ffn_.hidden, "] f32, bf16 or f16"), x.ToString());
  RoutingPlan plan = RouteTokens(context, x);
  const auto compute = [&](ConstTensorView local_x, const RoutingPlan& local_plan,
                           TensorView local_out) {
    const ExpertWeights weights = experts_->Acquire(local_plan);
    MoeFfn(context, local_x, local_plan, weights, {.activation = ffn_.activation}, local_out);
  };
  exchange_->Run(context, x, plan, compute, out);
  if (shared_) AddShared(context, x, out);
  return plan;
}

}  // namespace opst
