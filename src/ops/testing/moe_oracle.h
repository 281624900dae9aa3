// The MoE feed-forward layer in fp64 with the tolerance of every element; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_MOE_ORACLE_H_
#define OPST_OPS_TESTING_MOE_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/testing/matmul_oracle.h"
#include "ops/testing/matrix.h"
#include "ops/testing/worst_element.h"
#include "opst/context.h"
#include "opst/ops/moe_ffn.h"
#include "opst/pack.h"
#include "opst/routing_plan.h"

namespace opst {

// E random experts: gate_up [E·2F, H], down [E·H, F], scaled so that activations are about 1.
struct TestExperts {
  TestExperts(const Context& context, DType dtype, int64_t experts, int64_t hidden_size,
              int64_t ffn_size, uint32_t seed)
      : num_experts(experts),
        hidden(hidden_size),
        ffn(ffn_size),
        gate_up(Matrix::Random(dtype, experts * 2 * ffn_size, hidden_size, seed,
                               1 / std::sqrt(static_cast<double>(hidden_size)))),
        down(Matrix::Random(dtype, experts * hidden_size, ffn_size, seed + 1,
                            1 / std::sqrt(static_cast<double>(ffn_size)))) {
    Pack(context);
  }

  // Again after a change of the matrices.
  void Pack(const Context& context) {
    const WeightFormat format = FormatOf(gate_up.dtype());
    packed = {PackExperts(context, gate_up.Stacked(num_experts), format, PanelOrder::kGateUp),
              PackExperts(context, down.Stacked(num_experts), format, PanelOrder::kPlain)};
  }

  int64_t num_experts;
  int64_t hidden;
  int64_t ffn;
  Matrix gate_up;
  Matrix down;
  ExpertWeights packed;
};

// A value and a bound on the error of the f32 computation of it.
struct Bounded {
  double value = 0;
  double error = 0;
};

// act(gate) with the promised accuracy of the activation; `error` is that of the gate.
inline Bounded Activated(Activation activation, double gate, double error) {
  constexpr double kSteepest = 1.13;  // of all of them
  constexpr double kUlp = 0x1p-23;
  if (activation == Activation::kRelu) return {gate > 0 ? gate : 0, error};
  const double u = 0.79788456080286535588 * (gate + 0.044715 * gate * gate * gate);
  const bool is_silu = activation == Activation::kSilu;
  const double value = gate / (1 + std::exp(is_silu ? -gate : -2 * u));
  const double ulps = is_silu ? 4 : 4 + 6 * std::abs(u);
  return {value, kSteepest * error + ulps * kUlp * std::abs(value) + 0x1p-120};
}

// act(W_gate x) ∘ (W_up x) of one expert.
inline std::vector<Bounded> HiddenActivations(const TestExperts& experts, int64_t expert,
                                              Activation activation, const std::vector<double>& x) {
  std::vector<Bounded> hidden;
  const int64_t first = expert * 2 * experts.ffn;
  for (int64_t f = 0; f < experts.ffn; ++f) {
    const DotProduct gate = Dot(x, experts.gate_up.Row(first + f));
    const DotProduct up = Dot(x, experts.gate_up.Row(first + experts.ffn + f));
    const double up_error = ChainError(experts.hidden, up.magnitude);
    const Bounded act =
        Activated(activation, gate.value, ChainError(experts.hidden, gate.magnitude));
    const double value = act.value * up.value;
    hidden.push_back({value, act.error * (std::abs(up.value) + up_error) +
                                 std::abs(act.value) * up_error + 0x1p-24 * std::abs(value)});
  }
  return hidden;
}

// The layer's output for `x` under `plan`, [T·H], to which `before` is added unless it is null.
inline std::vector<Bounded> MoeOracle(const Matrix& x, const RoutingPlan& plan,
                                      const TestExperts& experts, Activation activation,
                                      const Matrix* before = nullptr) {
  const int64_t width = experts.hidden;
  std::vector<Bounded> out(static_cast<size_t>(plan.num_tokens * width));
  for (int64_t token = 0; token < plan.num_tokens; ++token) {
    Bounded* sums = out.data() + token * width;
    std::vector<double> magnitudes(static_cast<size_t>(width), 0.0);
    for (int64_t h = 0; before != nullptr && h < width; ++h) {
      sums[h].value = before->At(token, h);
      magnitudes[static_cast<size_t>(h)] = std::abs(sums[h].value);
    }
    const std::vector<double> input = x.Row(token);
    for (int64_t j = 0; j < plan.top_k; ++j) {
      const auto slot = static_cast<size_t>(token * plan.top_k + j);
      const int64_t expert = plan.expert_ids[slot];
      if (expert < 0) continue;
      const double weight = plan.expert_weights[slot];
      const std::vector<Bounded> hidden = HiddenActivations(experts, expert, activation, input);
      for (int64_t h = 0; h < width; ++h) {
        double value = 0;
        double magnitude = 0;
        double error = 0;
        for (int64_t f = 0; f < experts.ffn; ++f) {
          const double w = experts.down.At(expert * width + h, f);
          const Bounded& activated = hidden[static_cast<size_t>(f)];
          value += w * activated.value;
          magnitude += std::abs(w * activated.value);
          error += std::abs(w) * activated.error;
        }
        sums[h].value += weight * value;
        sums[h].error += std::abs(weight) * (error + ChainError(experts.ffn, magnitude));
        magnitudes[static_cast<size_t>(h)] += std::abs(weight * value);
      }
    }
    for (int64_t h = 0; h < width; ++h) {
      sums[h].error += ChainError(plan.top_k + 1, magnitudes[static_cast<size_t>(h)]);
    }
  }
  return out;
}

// Compares the first rows of `out` with the oracle's.
inline WorstElement CompareMoe(const std::vector<Bounded>& wanted, const Matrix& out,
                               int64_t num_tokens) {
  WorstElement worst;
  for (int64_t token = 0; token < num_tokens; ++token) {
    for (int64_t h = 0; h < out.columns(); ++h) {
      const Bounded& element = wanted[static_cast<size_t>(token * out.columns() + h)];
      worst.Add(token, h, out.At(token, h), element.value,
                1.02 * element.error + 1.01 * RoundingError(out.dtype(), element.value));
    }
  }
  return worst;
}

}  // namespace opst

#endif  // OPST_OPS_TESTING_MOE_ORACLE_H_
