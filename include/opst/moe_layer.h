// MoeLayer: router, routed experts and shared experts of one layer, and the recipes that say how.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MOE_LAYER_H_
#define OPST_MOE_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "opst/context.h"
#include "opst/expert_exchange.h"
#include "opst/expert_store.h"
#include "opst/ops/gating.h"
#include "opst/ops/load_balance.h"
#include "opst/ops/moe_ffn.h"
#include "opst/tensor.h"

namespace opst {

// Everything a model family decides about routing. Families differ in these values, not in code.
struct RoutingRecipe {
  int64_t num_experts = 0;
  int64_t top_k = 0;
  ScoreFunction score_function = ScoreFunction::kSoftmax;
  float sparsemixer_epsilon = 0.01f;  // of kSparsemixer only
  bool has_bias = false;              // of the router's product
  int64_t hidden_dim = 0;  // > 0: logits = W_r tanh(W_h x), W_h of so many rows; 0: W_r x
  bool has_selection_bias = false;
  int64_t num_groups = 1;
  int64_t num_kept_groups = 1;
  GroupScore group_score = GroupScore::kMax;
  bool renormalizes = true;
  float scale = 1.0f;
  SelectionOptions selection = {};  // how many of the top_k experts a token takes
  // Above 0, the layer keeps a LoadTracker of itself and passes busy experts over.
  float load_balance_ratio = 0;
};

// Everything a model family decides about its experts.
struct FfnRecipe {
  int64_t hidden = 0;  // H
  int64_t ffn = 0;     // F of a routed expert
  Activation activation = Activation::kSilu;
  ActivationLimits limits = {};
  bool has_bias = false;         // of gate, up and down of the routed experts
  int64_t shared_ffn = 0;        // F of the shared expert, 0 = none
  bool has_shared_gate = false;  // sigmoid(x · g) scales the shared expert's output
};

// What a caller changes in the recipe for one call.
struct RoutingOverride {
  int64_t top_k = 0;                               // experts per token; 0 = the recipe's
  std::vector<int32_t> masked_experts = {};        // never chosen, as if their logits were -inf
  std::optional<SelectionOptions> selection = {};  // none = the recipe's
};

struct RouterWeights {
  PackedWeights projection;                  // 1 x [E, H], or [E, hidden_dim]
  std::vector<float> selection_bias = {};    // [E] or empty
  std::vector<float> bias = {};              // [E] or empty
  std::optional<PackedWeights> hidden = {};  // 1 x [hidden_dim, H], when the recipe has one
};

struct SharedExpert {
  ExpertWeights weights;              // one expert of width shared_ffn
  std::optional<PackedWeights> gate;  // 1 x [1, H]
};

// Threads: immutable, so Forward may be called from several threads; each call spreads over the
// workers of its context.
class MoeLayer {
 public:
  // `experts` is shared with the caller; no `exchange` means that all experts are here. No weight
  // is copied. Experts whose gate_up is in plain panels, [F, H], have no gate; the shared expert
  // may differ in that. Errors (kInvalidArgument): no store; a number of experts or shapes that are
  // not the recipes'; a bias, hidden layer or gate that a recipe asks for and that is missing, or
  // the other way round; a selection bias that is NaN or Inf; options that gating refuses.
  MoeLayer(RoutingRecipe routing, FfnRecipe ffn, RouterWeights router,
           std::shared_ptr<ExpertStore> experts, std::optional<SharedExpert> shared = {},
           std::shared_ptr<ExpertExchange> exchange = nullptr);

  // plan = route(x · W_rᵀ + bias);  out = moe_ffn(x, plan) + sigmoid(x · g) · shared(x)
  //   x    [T, H] f32, bf16 or f16
  //   out  [T, H] of x's dtype; must not overlap x
  // Router logits, scores and combination are f32, rounded once to x's dtype. Returns the plan that
  // was used, made over all T tokens. Memory beyond arguments, weights and plan: the setting
  // `stage1_buffer_size`, whatever T (router and shared expert run in chunks of tokens too), or
  // what a single token needs if that is more. Bits do not depend on the chunks. With `changes`,
  // fewer experts than top_k may be left; then that many are used per token. With a
  // load_balance_ratio the choice depends on the tokens of earlier calls, which the layer's tracker
  // has counted, and on nothing else of them. Errors, before any work: kInvalidArgument for shapes
  // or dtypes other than those above, for changes that leave no expert or name one outside 0 … E-1,
  // and as gating and moe_ffn. Later: kOutOfMemory, and what the store and the exchange throw;
  // `out` is then undefined.
  RoutingPlan Forward(const Context& context, ConstTensorView x, TensorView out,
                      const RoutingOverride& changes = {}) const;

  const RoutingRecipe& routing() const { return routing_; }
  const FfnRecipe& ffn() const { return ffn_; }
  // Of the calls so far, to be read, saved and restored; null without a load_balance_ratio.
  LoadTracker* load_tracker() const { return load_tracker_.get(); }

 private:
  void CheckRouter() const;
  void ComputeLogits(const Context& context, ConstTensorView x, TensorView logits) const;
  RoutingPlan RouteTokens(const Context& context, ConstTensorView x,
                          const RoutingOverride& changes) const;
  void RunExperts(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                  size_t workspace_bytes, TensorView out) const;
  void AddShared(const Context& context, ConstTensorView x, size_t workspace_bytes,
                 TensorView out) const;
  void RunWithShared16(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                       TensorView out) const;

  RoutingRecipe routing_;
  FfnRecipe ffn_;
  RouterWeights router_;
  std::shared_ptr<ExpertStore> experts_;
  std::optional<SharedExpert> shared_;
  std::shared_ptr<ExpertExchange> exchange_;
  std::unique_ptr<LoadTracker> load_tracker_;
};

}  // namespace opst

#endif  // OPST_MOE_LAYER_H_
