// Wires router, store, exchange and shared expert; every computation is an operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/moe_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "base/out_of_memory.h"
#include "base/scratch_pool.h"
#include "kernels/norm.h"
#include "kernels/rows.h"
#include "ops/gating/check_options.h"
#include "opst/ops/grouped_matmul.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "moe_layer";

// Plain panels of gate_up are those of experts without a gate.
void CheckExperts(const FfnRecipe& ffn, int64_t width, const PanelLayout& gate_up,
                  const PanelLayout& down) {
  const bool has_gate = gate_up.order == PanelOrder::kGateUp;
  const int64_t rows = has_gate ? 2 * width : width;
  OPST_CHECK_ARG(gate_up.out == rows && gate_up.in == ffn.hidden, kWhere,
                 Concat("gate_up must be [", rows, ",", ffn.hidden, "]"), gate_up.ToString());
  OPST_CHECK_ARG(has_gate || ffn.activation != Activation::kClampedSwiglu, kWhere,
                 "clamped SwiGLU must have a gate", gate_up.ToString());
  OPST_CHECK_ARG(down.out == ffn.hidden && down.in == width, kWhere,
                 Concat("down must be [", ffn.hidden, ",", width, "]"), down.ToString());
}

// Router logits that a worker's share of one chunk fills. 4 MB are at least 16 tasks of the product
// (128 rows x 512 columns), so that the last ones leave few workers idle; more would only leave the
// caches before the gate reads it.
constexpr size_t kLogitsBytesPerWorker = size_t{4} << 20;
// Tokens that run through the shared expert at a time, and what the plan of one takes: ids, weights
// and both index maps. A chunk this long is bound by arithmetic, not by reading weights again.
constexpr size_t kMaxSharedTokens = 16384;
constexpr size_t kSharedPlanBytes = 6 * sizeof(int32_t);

// Tokens per chunk when one takes `token_bytes`: within `bytes`, but never none.
int64_t ChunkTokens(size_t bytes, size_t token_bytes) {
  return static_cast<int64_t>(std::max<size_t>(bytes / token_bytes, 1));
}

size_t WorkspaceBytes(const Context& context) {
  return context.config().GetBytes("stage1_buffer_size");
}

// Rows [first, first + count).
ConstTensorView Rows(ConstTensorView x, int64_t first, int64_t count) {
  return {x.row(first), x.dtype(), Shape{count, x.dim(1)}, x.row_stride()};
}
TensorView Rows(TensorView x, int64_t first, int64_t count) {
  return {x.mutable_row(first), x.dtype(), Shape{count, x.dim(1)}, x.row_stride()};
}

// A plan that sends every token to expert 0 of 1 with the given weights: the shared expert.
RoutingPlan EveryTokenPlan(const Context& context, std::vector<float> weights) {
  std::vector<int32_t> ids(weights.size(), 0);
  return BuildRoutingPlan(context, std::move(ids), std::move(weights), 1, 1);
}

// Experts per token when some are masked; checks the override.
int64_t ChosenTopK(const RoutingRecipe& routing, const RoutingOverride& changes) {
  OPST_CHECK_ARG(changes.top_k >= 0 && changes.top_k <= routing.num_experts, kWhere,
                 Concat("active experts must be 1..", routing.num_experts), changes.top_k);
  std::vector<bool> is_masked(static_cast<size_t>(routing.num_experts), false);
  for (const int32_t expert : changes.masked_experts) {
    OPST_CHECK_ARG(expert >= 0 && expert < routing.num_experts, kWhere,
                   Concat("masked experts must be 0..", routing.num_experts - 1), expert);
    is_masked[static_cast<size_t>(expert)] = true;
  }
  const int64_t num_left = std::count(is_masked.begin(), is_masked.end(), false);
  OPST_CHECK_ARG(num_left > 0, kWhere, "a mask must leave at least one expert", "all ",
                 routing.num_experts, " masked");
  return std::min(changes.top_k > 0 ? changes.top_k : routing.top_k, num_left);
}

void MaskLogits(std::span<const int32_t> experts, const TensorView& logits) {
  for (int64_t token = 0; token < (experts.empty() ? 0 : logits.dim(0)); ++token) {
    auto* row = reinterpret_cast<float*>(logits.mutable_row(token));
    for (const int32_t expert : experts) row[expert] = -std::numeric_limits<float>::infinity();
  }
}

// Of the recipe, with another number of experts per token.
GatingOptions OptionsOf(const RoutingRecipe& routing, const RouterWeights& router, int64_t top_k) {
  return {.top_k = top_k,
          .score_function = routing.score_function,
          .selection = routing.selection,
          .selection_bias = router.selection_bias,
          .num_groups = routing.num_groups,
          .num_kept_groups = routing.num_kept_groups,
          .group_score = routing.group_score,
          .sparsemixer_epsilon = routing.sparsemixer_epsilon,
          .renormalizes = routing.renormalizes,
          .scale = routing.scale};
}

// A rule that names more experts than a call uses names as many as that.
void LimitEntropySteps(int64_t top_k, SelectionOptions& selection) {
  std::vector<EntropyThreshold>& steps = selection.entropy_thresholds;
  std::erase_if(steps, [&](const EntropyThreshold& step) { return step.num_experts >= top_k; });
  if (selection.rule == SelectionRule::kEntropy && steps.empty()) {
    selection.rule = SelectionRule::kTopK;
  }
}

}  // namespace

MoeLayer::MoeLayer(RoutingRecipe routing, FfnRecipe ffn, RouterWeights router,
                   std::shared_ptr<ExpertStore> experts, std::optional<SharedExpert> shared,
                   std::shared_ptr<ExpertExchange> exchange)
    : routing_(std::move(routing)),
      ffn_(ffn),
      router_(std::move(router)),
      experts_(std::move(experts)),
      shared_(std::move(shared)),
      exchange_(std::move(exchange)) {
  if (exchange_ == nullptr) exchange_ = std::make_shared<LocalExpertExchange>();
  CheckRouter();
  if (routing_.load_balance_ratio > 0) {
    load_tracker_ = std::make_unique<LoadTracker>(routing_.num_experts);
  }
  GatingOptions options = OptionsOf(routing_, router_, routing_.top_k);
  const std::vector<float> utilization(static_cast<size_t>(routing_.num_experts), 1.0f);
  options.load_balance_ratio = routing_.load_balance_ratio;
  options.utilization = utilization;
  CheckGatingOptions(options, routing_.num_experts);
  OPST_CHECK_ARG(experts_ != nullptr, kWhere, "a store of experts must be given", "none");
  OPST_CHECK_ARG(experts_->num_experts() == routing_.num_experts, kWhere,
                 "the store must hold every expert of the recipe", experts_->num_experts(), " of ",
                 routing_.num_experts);
  CheckExperts(ffn_, ffn_.ffn, experts_->gate_up_layout(), experts_->down_layout());
  OPST_CHECK_ARG(shared_.has_value() == (ffn_.shared_ffn > 0), kWhere,
                 "a shared expert must be given exactly when the recipe has one", "shared_ffn ",
                 ffn_.shared_ffn);
  if (!shared_) return;
  CheckExperts(ffn_, ffn_.shared_ffn, shared_->weights.gate_up.layout(),
               shared_->weights.down.layout());
  OPST_CHECK_ARG(shared_->gate.has_value() == ffn_.has_shared_gate, kWhere,
                 "a shared gate must be given exactly when the recipe has one", "has_shared_gate ",
                 ffn_.has_shared_gate);
}

void MoeLayer::CheckRouter() const {
  const int64_t inputs = routing_.hidden_dim > 0 ? routing_.hidden_dim : ffn_.hidden;
  const PanelLayout& projection = router_.projection.layout();
  OPST_CHECK_ARG(projection.out == routing_.num_experts && projection.in == inputs, kWhere,
                 Concat("router must be [", routing_.num_experts, ",", inputs, "]"),
                 projection.ToString());
  OPST_CHECK_ARG(router_.hidden.has_value() == (routing_.hidden_dim > 0), kWhere,
                 "a hidden router layer must be given exactly when the recipe has one",
                 "hidden_dim ", routing_.hidden_dim);
  if (router_.hidden) {
    const PanelLayout& hidden = router_.hidden->layout();
    OPST_CHECK_ARG(
        hidden.out == routing_.hidden_dim && hidden.in == ffn_.hidden, kWhere,
        Concat("hidden router layer must be [", routing_.hidden_dim, ",", ffn_.hidden, "]"),
        hidden.ToString());
  }
  const auto is_given = [&](const std::vector<float>& bias, bool is_wanted) {
    return bias.size() == (is_wanted ? static_cast<size_t>(routing_.num_experts) : 0);
  };
  OPST_CHECK_ARG(is_given(router_.selection_bias, routing_.has_selection_bias), kWhere,
                 "a selection bias must be given exactly when the recipe has one",
                 router_.selection_bias.size(), " values");
  OPST_CHECK_ARG(is_given(router_.bias, routing_.has_bias), kWhere,
                 "a router bias must be given exactly when the recipe has one", router_.bias.size(),
                 " values");
}

void MoeLayer::ComputeLogits(const Context& context, ConstTensorView x, TensorView logits) const {
  if (!router_.hidden) {
    Matmul(context, x, router_.projection, logits);
  } else {
    const ScratchPool::Lease arena = context.scratch().Borrow();
    const Shape shape{x.dim(0), routing_.hidden_dim};
    const TensorView hidden(arena->Take<float>(static_cast<size_t>(shape.num_elements())), shape);
    Matmul(context, x, *router_.hidden, hidden);
    std::for_each_n(hidden.mutable_as<float>(), shape.num_elements(),
                    [](float& value) { value = std::tanh(value); });
    Matmul(context, hidden, router_.projection, logits);
  }
  if (router_.bias.empty()) return;
  for (int64_t token = 0; token < logits.dim(0); ++token) {
    AddTo(router_.bias.data(), router_.bias.size(),
          reinterpret_cast<float*>(logits.mutable_row(token)));
  }
}

// Gates chunk by chunk, so that the logits stay small; the plan is then built over all tokens.
RoutingPlan MoeLayer::RouteTokens(const Context& context, ConstTensorView x,
                                  const RoutingOverride& changes) const {
  const int64_t top_k = ChosenTopK(routing_, changes);
  GatingOptions options = OptionsOf(routing_, router_, top_k);
  if (changes.selection) options.selection = *changes.selection;
  LimitEntropySteps(top_k, options.selection);
  // One utilization for the whole call, so that the bits do not depend on its chunks.
  const std::vector<float> utilization =
      load_tracker_ ? load_tracker_->Utilization() : std::vector<float>();
  options.load_balance_ratio = routing_.load_balance_ratio;
  options.utilization = utilization;
  const int64_t num_tokens = x.dim(0);
  const size_t wanted_bytes = kLogitsBytesPerWorker * static_cast<size_t>(context.num_threads());
  const int64_t chunk_tokens = std::min(
      ChunkTokens(std::min(wanted_bytes, WorkspaceBytes(context)),
                  static_cast<size_t>(routing_.num_experts + routing_.hidden_dim) * sizeof(float)),
      num_tokens);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* memory = arena->Take<float>(static_cast<size_t>(chunk_tokens * routing_.num_experts));
  GatingResult all;
  all.expert_ids.reserve(static_cast<size_t>(num_tokens * top_k));
  all.expert_weights.reserve(static_cast<size_t>(num_tokens * top_k));
  int64_t first = 0;
  do {  // once even without tokens: options are checked
    const int64_t count = std::min(chunk_tokens, num_tokens - first);
    const TensorView logits(memory, Shape{count, routing_.num_experts});
    ComputeLogits(context, Rows(x, first, count), logits);
    MaskLogits(changes.masked_experts, logits);
    const GatingResult chunk = Gate(context, logits, options);
    all.expert_ids.insert(all.expert_ids.end(), chunk.expert_ids.begin(), chunk.expert_ids.end());
    all.expert_weights.insert(all.expert_weights.end(), chunk.expert_weights.begin(),
                              chunk.expert_weights.end());
    all.num_empty_rows += chunk.num_empty_rows;
    first += chunk_tokens;
  } while (first < num_tokens);
  RoutingPlan plan = BuildRoutingPlan(context, std::move(all.expert_ids),
                                      std::move(all.expert_weights), top_k, routing_.num_experts);
  plan.num_empty_rows = all.num_empty_rows;
  if (load_tracker_) load_tracker_->Observe(plan.expert_counts);
  return plan;
}

// The routed experts: out is overwritten.
void MoeLayer::RunExperts(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                          size_t workspace_bytes, TensorView out) const {
  const auto compute = [&](ConstTensorView local_x, const RoutingPlan& local_plan,
                           TensorView local_out) {
    const ExpertWeights weights = experts_->Acquire(local_plan);
    MoeFfn(
        context, local_x, local_plan, weights,
        {.activation = ffn_.activation, .limits = ffn_.limits, .workspace_bytes = workspace_bytes},
        local_out);
  };
  exchange_->Run(context, x, plan, compute, out);
}

void MoeLayer::AddShared(const Context& context, ConstTensorView x, size_t workspace_bytes,
                         TensorView out) const {
  const MoeFfnOptions options{.activation = ffn_.activation,
                              .output_mode = OutputMode::kAdd,
                              .limits = ffn_.limits,
                              .workspace_bytes = workspace_bytes};
  // An eighth for the plan leaves the rest to the expert's own buffers.
  const size_t plan_bytes = std::min(workspace_bytes / 8, kMaxSharedTokens * kSharedPlanBytes);
  const int64_t chunk_tokens = ChunkTokens(plan_bytes, kSharedPlanBytes);
  for (int64_t first = 0; first < x.dim(0); first += chunk_tokens) {
    const int64_t count = std::min(chunk_tokens, x.dim(0) - first);
    const ConstTensorView tokens = Rows(x, first, count);
    std::vector<float> weights(static_cast<size_t>(count), 1.0f);
    if (shared_->gate) {
      Matmul(context, tokens, *shared_->gate, TensorView(weights.data(), Shape{count, 1}));
      for (float& weight : weights) weight = 1.0f / (1.0f + std::exp(-weight));
    }
    MoeFfn(context, tokens, EveryTokenPlan(context, std::move(weights)), shared_->weights, options,
           Rows(out, first, count));
  }
}

// 16-bit outputs: routed and shared experts meet in f32, chunk by chunk, and are rounded once.
void MoeLayer::RunWithShared16(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                               TensorView out) const {
  const auto width = static_cast<size_t>(ffn_.hidden);
  const size_t all_bytes = WorkspaceBytes(context);
  const int64_t chunk_tokens =
      std::min(ChunkTokens(all_bytes / 8, width * sizeof(float)), std::max<int64_t>(x.dim(0), 1));
  const size_t sum_bytes = static_cast<size_t>(chunk_tokens) * width * sizeof(float);
  // The chunk's sums, its plan, and one that is being built.
  const size_t kept_bytes =
      sum_bytes + 2 * static_cast<size_t>(chunk_tokens * plan.top_k) * kSharedPlanBytes;
  const size_t rest_bytes = all_bytes > kept_bytes ? all_bytes - kept_bytes : 1;
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* memory = arena->Take<float>(static_cast<size_t>(chunk_tokens) * width);
  for (int64_t first = 0; first < x.dim(0); first += chunk_tokens) {
    const int64_t count = std::min(chunk_tokens, x.dim(0) - first);
    const ConstTensorView tokens = Rows(x, first, count);
    const TensorView sums(memory, Shape{count, ffn_.hidden});
    const Shape slots{count, plan.top_k};
    const int64_t slot = first * plan.top_k;
    const RoutingPlan part = BuildRoutingPlan(
        context, ConstTensorView(plan.expert_ids.data() + slot, slots),
        ConstTensorView(plan.expert_weights.data() + slot, slots), plan.num_experts);
    RunExperts(context, tokens, part, rest_bytes, sums);
    AddShared(context, tokens, rest_bytes, sums);
    for (int64_t token = 0; token < count; ++token) {
      ConvertFromFloat(memory + static_cast<size_t>(token) * width, width, out.dtype(),
                       out.mutable_row(first + token));
    }
  }
}

RoutingPlan MoeLayer::Forward(const Context& context, ConstTensorView x, TensorView out,
                              const RoutingOverride& changes) const {
  return NamingOutOfMemory(kWhere, [&] {
    OPST_CHECK_ARG(x.rank() == 2 && x.dim(1) == ffn_.hidden && IsModelFloat(x.dtype()), kWhere,
                   Concat("input must be [T,", ffn_.hidden, "] f32, bf16 or f16"), x.ToString());
    OPST_CHECK_ARG(out.shape() == x.shape() && out.dtype() == x.dtype(), kWhere,
                   "output must have the input's shape and dtype", "output ", out.ToString(),
                   ", input ", x.ToString());
    OPST_CHECK_ARG(!out.Overlaps(x), kWhere, "output must not overlap the input", out.ToString());
    RoutingPlan plan = RouteTokens(context, x, changes);
    if (shared_ && out.dtype() != DType::kF32) {
      RunWithShared16(context, x, plan, out);
      return plan;
    }
    RunExperts(context, x, plan, WorkspaceBytes(context), out);
    if (shared_) AddShared(context, x, WorkspaceBytes(context), out);
    return plan;
  });
}

}  // namespace opst
