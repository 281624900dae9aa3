// opst_moe_layer: the layer from its parts, its forward pass and its load tracker.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/moe_layer.h"

#include "capi/conversions.h"

namespace opst::capi {
namespace {

// Weights whose biases belong to the layer, so that the caller's may go.
struct OwnedExperts {
  ExpertWeights weights;
  Tensor gate_up_bias;
  Tensor down_bias;
};

Tensor CopyOf(const ConstTensorView& view) {
  if (view.rank() == 0) return {};
  Tensor copy(view.dtype(), view.shape());
  const size_t row_bytes =
      view.num_bytes() / static_cast<size_t>(std::max<int64_t>(view.dim(0), 1));
  for (int64_t row = 0; row < view.dim(0); ++row) {
    std::memcpy(copy.view().mutable_row(row), view.row(row), row_bytes);
  }
  return copy;
}

std::shared_ptr<OwnedExperts> Own(const ExpertWeights& weights) {
  auto owned = std::make_shared<OwnedExperts>();
  owned->gate_up_bias = CopyOf(weights.gate_up_bias);
  owned->down_bias = CopyOf(weights.down_bias);
  owned->weights = {weights.gate_up, weights.down, owned->gate_up_bias.view(),
                    owned->down_bias.view()};
  return owned;
}

std::vector<float> Vector(std::span<const float> values) { return {values.begin(), values.end()}; }

RouterWeights ToRouter(const Call& call, const opst_moe_layer_parts& parts) {
  RouterWeights router{
      .projection = call.Get(parts.router, "router"),
      .selection_bias = Vector(call.OptionalValues<float>(parts.selection_bias, "selection_bias")),
      .bias = Vector(call.OptionalValues<float>(parts.router_bias, "router_bias"))};
  if (parts.router_hidden != nullptr) router.hidden = parts.router_hidden->value;
  return router;
}

RoutingRecipe ToRouting(const Call& call, const opst_moe_layer_options& options,
                        const RouterWeights& router, int64_t num_experts) {
  return {.num_experts = num_experts,
          .top_k = options.top_k,
          .score_function = call.Choice<ScoreFunction>(options.score_function, "score_function"),
          .sparsemixer_epsilon = options.sparsemixer_epsilon,
          .has_bias = !router.bias.empty(),
          .hidden_dim = router.hidden ? router.hidden->layout().out : 0,
          .has_selection_bias = !router.selection_bias.empty(),
          .num_groups = options.num_groups,
          .num_kept_groups = options.num_kept_groups,
          .group_score = call.Choice<GroupScore>(options.group_score, "group_score"),
          .renormalizes = call.Claim(options.renormalizes, "renormalizes"),
          .scale = options.scale,
          .selection = ToSelection(call, options.selection).value_or(SelectionOptions{}),
          .load_balance_ratio = options.load_balance_ratio};
}

std::shared_ptr<const MoeLayer> MakeLayer(const Call& call, const opst_moe_layer_parts& parts,
                                          const opst_moe_layer_options& options) {
  const auto experts = Own(ToExpertWeights(call, parts.experts, "experts"));
  const auto shared =
      parts.shared == nullptr ? nullptr : Own(ToExpertWeights(call, parts.shared, "shared"));
  OPST_CHECK_CALL(call, shared != nullptr || parts.shared_gate == nullptr, "shared_gate",
                  "must have a shared expert", "NULL");
  RouterWeights router = ToRouter(call, parts);
  const RoutingRecipe routing =
      ToRouting(call, options, router, experts->weights.gate_up.num_experts());
  const FfnRecipe ffn{
      .hidden = experts->weights.gate_up.layout().in,
      .ffn = experts->weights.down.layout().in,
      .activation = call.Choice<Activation>(options.activation, "activation"),
      .limits = {.alpha = options.alpha, .limit = options.limit},
      .has_bias = parts.experts->gate_up_bias != nullptr || parts.experts->down_bias != nullptr,
      .shared_ffn = shared ? shared->weights.down.layout().in : 0,
      .has_shared_gate = parts.shared_gate != nullptr};
  std::optional<SharedExpert> shared_expert;
  if (shared) {
    shared_expert = SharedExpert{shared->weights, {}};
    if (parts.shared_gate != nullptr) shared_expert->gate = parts.shared_gate->value;
  }
  auto layer = std::make_shared<MoeLayer>(routing, ffn, std::move(router),
                                          std::make_shared<LocalExpertStore>(experts->weights),
                                          std::move(shared_expert));
  // The copied biases live as long as the layer.
  struct LayerWithBiases {
    std::shared_ptr<MoeLayer> layer;
    std::shared_ptr<OwnedExperts> experts, shared;
  };
  auto all = std::make_shared<LayerWithBiases>(LayerWithBiases{layer, experts, shared});
  return std::shared_ptr<const MoeLayer>(all, layer.get());
}

}  // namespace
}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Use;

opst_status opst_moe_layer_create(const opst_moe_layer_parts* parts,
                                  const opst_moe_layer_options* options, opst_moe_layer** layer) {
  return Make(__func__, layer, [&](const Call& call) {
    const auto given =
        call.Required(parts, opst_moe_layer_parts OPST_MOE_LAYER_PARTS_DEFAULT, "parts");
    call.Create(layer,
                opst::capi::MakeLayer(
                    call, given,
                    call.Options(options, opst_moe_layer_options OPST_MOE_LAYER_OPTIONS_DEFAULT)));
  });
}

opst_status opst_moe_layer_destroy(opst_moe_layer* layer) {
  return opst::capi::Destroy(__func__, layer);
}

opst_status opst_moe_layer_forward(const opst_context* context, const opst_moe_layer* layer,
                                   const opst_view* x, const opst_routing_override* changes,
                                   const opst_view* out, opst_routing_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return opst::capi::Run(__func__, [&](const Call& call) {
    const auto given =
        call.Options(changes, opst_routing_override OPST_ROUTING_OVERRIDE_DEFAULT, "changes");
    const auto masked =
        call.Array(given.masked_experts, given.num_masked_experts, "masked_experts");
    const opst::RoutingOverride routing{.top_k = given.top_k,
                                        .masked_experts = {masked.begin(), masked.end()},
                                        .selection = ToSelection(call, given.selection)};
    opst::RoutingPlan used =
        call.Get(layer, "layer")
            ->Forward(Use(call, context), call.In(x, "x"), call.Out(out, "out"), routing);
    if (plan != nullptr) call.Create(plan, std::move(used));
  });
}

opst_status opst_moe_layer_load_tracker(const opst_moe_layer* layer, opst_load_tracker** tracker) {
  return Make(__func__, tracker, [&](const Call& call) {
    const auto& owner = call.Get(layer, "layer");
    OPST_CHECK_CALL(call, owner->load_tracker() != nullptr, "layer",
                    "must have a load_balance_ratio above 0", owner->routing().load_balance_ratio);
    call.Create(tracker, std::shared_ptr<opst::LoadTracker>(owner, owner->load_tracker()));
  });
}
