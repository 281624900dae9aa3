// Inputs of one layer, and a case for every operator over them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/ops_cases.h"

#include <algorithm>
#include <utility>

#include "bench/layer_inputs.h"
#include "opst/ops/expert_choice.h"
#include "opst/ops/gating.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/grouped_matmul_fused.h"
#include "opst/ops/loss.h"
#include "opst/ops/moe_ffn.h"
#include "opst/ops/moe_ffn_backward.h"
#include "opst/ops/permute.h"
#include "opst/ops/sparse_rows.h"
#include "opst/pack.h"

namespace opst::bench {

// f32 throughout: rows, weights and gradients, so that one bound on bytes holds for all.
struct OpsInputs {
  OpsInputs(const Context& context, const LayerShape& layer, int64_t tokens)
      : shape(layer),
        num_tokens(tokens),
        experts(context, layer, WeightFormat::kF32),
        packed(PackExpertsOf(context, layer, WeightType(WeightFormat::kF32), &experts)),
        gate_up(DType::kF32, {layer.num_experts, 2 * layer.ffn, layer.hidden}),
        down(DType::kF32, {layer.num_experts, layer.hidden, layer.ffn}),
        logits(RandomLogits(RoutingKind::kUniform, tokens, layer.num_experts, 1)),
        gating({.top_k = layer.top_k, .renormalizes = layer.renormalizes}),
        gated(Gate(context, logit_view(), gating)),
        plan(BuildRoutingPlan(context, id_view(), weight_view(), layer.num_experts)),
        x(RandomTokens(tokens, layer.hidden)),
        d_logits(logits.size()),
        tokens_out(DType::kF32, {tokens, layer.hidden}),
        rows(DType::kF32, {plan.num_rows(), layer.hidden}),
        rows_out(DType::kF32, {plan.num_rows(), layer.hidden}),
        ffn_rows(DType::kF32, {plan.num_rows(), layer.ffn}),
        integers(DType::kI8, {plan.num_rows(), layer.hidden}),
        ffn_integers(DType::kI8, {plan.num_rows(), layer.ffn}),
        scales(DType::kF32, {plan.num_rows()}),
        d_weights(DType::kF32, {tokens, layer.top_k}) {
    const auto copy = [&](const Tensor& tensor, const auto& source) {
      const int64_t size = tensor.shape().num_elements() / layer.num_experts;
      auto* out = tensor.view().template mutable_as<float>();
      for (int64_t e = 0; e < layer.num_experts; ++e) std::copy_n(source(e), size, out + e * size);
    };
    copy(gate_up, [&](int64_t e) { return experts.gate_up(e); });
    copy(down, [&](int64_t e) { return experts.down(e); });
    Permute(context, x_view(), plan, rows.view());
    const std::vector<float> activations = RandomTokens(plan.num_rows(), layer.ffn);
    std::copy(activations.begin(), activations.end(), ffn_rows.view().mutable_as<float>());
    for (const int32_t slot : plan.row_to_slot) {
      row_tokens.push_back(static_cast<int32_t>(slot / plan.top_k));
    }
  }

  ConstTensorView logit_view() const {
    return {logits.data(), Shape{num_tokens, shape.num_experts}};
  }
  TensorView d_logit_view() { return {d_logits.data(), Shape{num_tokens, shape.num_experts}}; }
  ConstTensorView id_view() const {
    return {gated.expert_ids.data(), Shape{num_tokens, shape.top_k}};
  }
  ConstTensorView weight_view() const {
    return {gated.expert_weights.data(), Shape{num_tokens, shape.top_k}};
  }
  ConstTensorView x_view() const { return {x.data(), Shape{num_tokens, shape.hidden}}; }
  ConstTensorView row_token_view() const { return {row_tokens.data(), Shape{plan.num_rows()}}; }

  LayerShape shape;
  int64_t num_tokens;
  PlainExperts experts;
  ExpertWeights packed;
  Tensor gate_up, down;
  std::vector<float> logits;
  GatingOptions gating;
  GatingResult gated;
  RoutingPlan plan;
  std::vector<float> x, d_logits;
  std::vector<int32_t> row_tokens;
  Tensor tokens_out, rows, rows_out, ffn_rows, integers, ffn_integers, scales, d_weights;
  Tensor d_gate_up = {}, d_down = {};
  double loss = 0;
};

namespace {

std::vector<float> FloatsOf(const Tensor& tensor) {
  const auto* values = tensor.view().as<float>();
  return {values, values + tensor.shape().num_elements()};
}

class Cases {
 public:
  Cases(const Context& context, const LayerShape& shape, int64_t tokens)
      : in_(std::make_shared<OpsInputs>(context, shape, tokens)),
        token_bytes_(4.0 * static_cast<double>(tokens * shape.hidden)),
        row_bytes_(4.0 * static_cast<double>(in_->plan.num_rows() * shape.hidden)),
        ffn_bytes_(4.0 * static_cast<double>(in_->plan.num_rows() * shape.ffn)),
        logit_bytes_(4.0 * static_cast<double>(tokens * shape.num_experts)),
        down_bytes_(static_cast<double>(in_->packed.down.layout().matrix_bytes()) *
                    static_cast<double>(shape.num_experts)),
        product_flop_(shape.flop(tokens) / 3) {
    AddRouting();
    AddMovement();
    AddProducts();
    AddLayer();
  }

  std::vector<OperatorCase> cases;

 private:
  template <typename Run, typename Result>
  void Add(std::string name, double bytes, double flop, Run run, Result result) {
    const std::shared_ptr<OpsInputs> in = in_;
    cases.push_back({std::move(name), [in, run](const Context& context) { run(context, *in); },
                     [in, result] { return result(*in); }, bytes, flop});
  }

  void AddRouting() {
    const auto weights = [](OpsInputs& in) { return in.gated.expert_weights; };
    const auto d_logits = [](OpsInputs& in) { return in.d_logits; };
    const auto loss = [](OpsInputs& in) { return std::vector{static_cast<float>(in.loss)}; };
    Add(
        "Gate", logit_bytes_, 0,
        [](const Context& c, OpsInputs& in) { in.gated = Gate(c, in.logit_view(), in.gating); },
        weights);
    Add(
        "GateBackward", 2 * logit_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          GateBackward(c, in.logit_view(), in.gated, in.weight_view(), in.gating,
                       in.d_logit_view());
        },
        d_logits);
    Add(
        "BuildRoutingPlan", 16.0 * static_cast<double>(in_->plan.num_rows()), 0,
        [](const Context& c, OpsInputs& in) {
          in.plan = BuildRoutingPlan(c, in.id_view(), in.weight_view(), in.shape.num_experts);
        },
        [](OpsInputs& in) {
          return std::vector<float>(in.plan.row_to_slot.begin(), in.plan.row_to_slot.end());
        });
    Add(
        "RouteByExpertChoice", logit_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          in.loss = static_cast<double>(RouteByExpertChoice(c, in.logit_view(), {}).num_rows());
        },
        loss);
    Add(
        "BalanceLoss", logit_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          in.loss = BalanceLoss(c, in.logit_view(), in.id_view());
        },
        loss);
    Add(
        "BalanceLossBackward", 3 * logit_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          std::fill(in.d_logits.begin(), in.d_logits.end(), 0.0f);
          BalanceLossBackward(c, in.logit_view(), in.id_view(), {}, 1, in.d_logit_view());
        },
        d_logits);
    Add(
        "RouterZLoss", logit_bytes_, 0,
        [](const Context& c, OpsInputs& in) { in.loss = RouterZLoss(c, in.logit_view()); }, loss);
  }

  void AddMovement() {
    const auto rows = [](OpsInputs& in) { return FloatsOf(in.rows_out); };
    const auto tokens = [](OpsInputs& in) { return FloatsOf(in.tokens_out); };
    Add(
        "Permute", 2 * row_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          Permute(c, in.x_view(), in.plan, in.rows_out.view());
        },
        rows);
    Add(
        "PermuteBackward", row_bytes_ + token_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          PermuteBackward(c, in.rows.view(), in.plan, in.tokens_out.view());
        },
        tokens);
    Add(
        "PermuteQuantized", 1.25 * row_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          PermuteQuantized(c, in.x_view(), in.plan, {}, in.integers.view(), in.scales.view());
        },
        [](OpsInputs& in) { return FloatsOf(in.scales); });
    Add(
        "FinalizeRouting", row_bytes_ + token_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          FinalizeRouting(c, in.rows.view(), in.plan, {}, in.tokens_out.view());
        },
        tokens);
    Add(
        "FinalizeRoutingBackward", 3 * row_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          FinalizeRoutingBackward(
              c, in.x_view(), in.rows.view(), in.plan, {},
              {.d_expert_out = in.rows_out.view(), .d_weights = in.d_weights.view()});
        },
        rows);
    Add(
        "SparseGather", 2 * row_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          SparseGather(c, in.x_view(), in.row_token_view(), in.rows_out.view());
        },
        rows);
    Add(
        "SparseScatterAdd", row_bytes_ + token_bytes_, 0,
        [](const Context& c, OpsInputs& in) {
          SparseScatterAdd(c, in.rows.view(), in.row_token_view(), {}, OutputMode::kOverwrite,
                           in.tokens_out.view());
        },
        tokens);
  }

  void AddProducts() {
    Add(
        "GroupedMatmul", down_bytes_ + ffn_bytes_ + row_bytes_, product_flop_,
        [](const Context& c, OpsInputs& in) {
          GroupedMatmul(c, in.ffn_rows.view(), in.plan.expert_offsets, in.packed.down,
                        in.rows_out.view());
        },
        [](OpsInputs& in) { return FloatsOf(in.rows_out); });
    in_->d_down = Tensor(DType::kF32, in_->down.shape());
    Add(
        "GroupedMatmulWeightGradient", down_bytes_ + ffn_bytes_ + row_bytes_, product_flop_,
        [](const Context& c, OpsInputs& in) {
          GroupedMatmulWeightGradient(c, in.ffn_rows.view(), in.rows.view(), in.plan.expert_offsets,
                                      OutputMode::kOverwrite, in.d_down.view());
        },
        [](OpsInputs& in) { return FloatsOf(in.d_down); });
    Add(
        "GroupedMatmulQuantize", 2 * down_bytes_ + row_bytes_ + ffn_bytes_ / 4, 2 * product_flop_,
        [](const Context& c, OpsInputs& in) {
          GroupedMatmulQuantize(c, in.rows.view(), in.plan.expert_offsets, in.packed.gate_up, {},
                                {in.ffn_integers.view(), in.scales.view()});
        },
        [](OpsInputs& in) { return FloatsOf(in.scales); });
    Add(
        "GroupedMatmulFinalize", down_bytes_ + ffn_bytes_ + token_bytes_, product_flop_,
        [](const Context& c, OpsInputs& in) {
          GroupedMatmulFinalize(c, in.ffn_rows.view(), in.plan.expert_offsets, in.packed.down,
                                {.row_indices = in.row_token_view()}, in.tokens_out.view());
        },
        [](OpsInputs& in) { return FloatsOf(in.tokens_out); });
  }

  void AddLayer() {
    Add(
        "MoeFfn", 3 * down_bytes_ + 2 * token_bytes_, 3 * product_flop_,
        [](const Context& c, OpsInputs& in) {
          MoeFfn(c, in.x_view(), in.plan, in.packed, {}, in.tokens_out.view());
        },
        [](OpsInputs& in) { return FloatsOf(in.tokens_out); });
    in_->d_gate_up = Tensor(DType::kF32, in_->gate_up.shape());
    Add(
        "MoeFfnBackward", 6 * down_bytes_ + 3 * token_bytes_, 8 * product_flop_,
        [](const Context& c, OpsInputs& in) {
          MoeFfnBackward(c, in.x_view(), in.plan, {in.gate_up.view(), in.down.view()}, in.x_view(),
                         {},
                         {.d_x = in.tokens_out.view(),
                          .d_expert_weights = in.d_weights.view(),
                          .d_gate_up = in.d_gate_up.view(),
                          .d_down = in.d_down.view()});
        },
        [](OpsInputs& in) { return FloatsOf(in.tokens_out); });
  }

  std::shared_ptr<OpsInputs> in_;
  double token_bytes_, row_bytes_, ffn_bytes_, logit_bytes_, down_bytes_;
  double product_flop_;  // of one product [R,H] x [H,F]
};

}  // namespace

std::vector<OperatorCase> OperatorCases(const Context& context, const LayerShape& shape,
                                        int64_t num_tokens) {
  return std::move(Cases(context, shape, num_tokens).cases);
}

size_t OperatorCaseBytes(const LayerShape& shape, int64_t num_tokens) {
  const int64_t weights = shape.num_experts * shape.expert_elements();
  const int64_t rows = num_tokens * shape.top_k;
  const int64_t movement =
      rows * (3 * shape.hidden + 2 * shape.ffn) + 3 * num_tokens * shape.hidden;
  return 4 * static_cast<size_t>(4 * weights + movement);
}

}  // namespace opst::bench
