// The MoE feed-forward layer in fp64 with the tolerance of every element; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_MOE_ORACLE_H_
#define OPST_OPS_TESTING_MOE_ORACLE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
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

  // From here on experts without a gate: gate_up is [E·F, H].
  void DropGate(const Context& context) {
    gate_up = Matrix::Random(gate_up.dtype(), num_experts * ffn, hidden, 99,
                             1 / std::sqrt(static_cast<double>(hidden)));
    packed.gate_up = PackExperts(context, gate_up.Stacked(num_experts), FormatOf(gate_up.dtype()),
                                 PanelOrder::kPlain);
  }

  // Again after a change of the matrices.
  void Pack(const Context& context) {
    const WeightFormat format = FormatOf(gate_up.dtype());
    packed = {PackExperts(context, gate_up.Stacked(num_experts), format, PanelOrder::kGateUp),
              PackExperts(context, down.Stacked(num_experts), format, PanelOrder::kPlain)};
  }

  // Random biases for every product.
  void AddBiases(uint32_t seed) {
    gate_up_bias.emplace(
        Matrix::Random(DType::kF32, num_experts, packed.has_gate() ? 2 * ffn : ffn, seed));
    down_bias.emplace(Matrix::Random(DType::kF32, num_experts, hidden, seed + 1));
    packed.gate_up_bias = gate_up_bias->view();
    packed.down_bias = down_bias->view();
  }

  int64_t num_experts;
  int64_t hidden;
  int64_t ffn;
  Matrix gate_up;
  Matrix down;
  std::optional<Matrix> gate_up_bias;  // [E, 2F]
  std::optional<Matrix> down_bias;     // [E, H]
  ExpertWeights packed;
};

inline double BiasOf(const std::optional<Matrix>& bias, int64_t expert, int64_t column) {
  return bias ? bias->At(expert, column) : 0;
}

// A value and a bound on the error of the f32 computation of it.
struct Bounded {
  double value = 0;
  double error = 0;
};

// act(gate) with the promised accuracy of the activation; `error` is that of the gate.
inline Bounded Activated(const MoeFfnOptions& options, double gate, double error) {
  const Activation activation = options.activation;
  constexpr double kSteepest = 1.13;  // of all of them
  constexpr double kUlp = 0x1p-23;
  if (activation == Activation::kRelu) return {gate > 0 ? gate : 0, error};
  if (activation == Activation::kClampedSwiglu) {
    const double alpha = options.limits.alpha;
    const double g = std::min(gate, static_cast<double>(options.limits.limit));
    const double value = g / (1 + std::exp(-alpha * g));
    // Rounding alpha·g moves e^-alpha·g by as much.
    const double ulps = 4 + 2 * std::abs(alpha * g);
    return {value, kSteepest * error + ulps * kUlp * std::abs(value) + 0x1p-120};
  }
  if (activation == Activation::kGelu) {
    const double value = gate / 2 * std::erfc(-gate / std::sqrt(2.0));
    const double ulps = 8 + gate * gate;
    return {value, kSteepest * error + ulps * kUlp * std::abs(value) + 0x1p-120};
  }
  if (activation == Activation::kQuickGelu) {
    const double value = gate / (1 + std::exp(-1.702 * gate));
    const double ulps = 4 + 2 * std::abs(gate);
    return {value, kSteepest * error + ulps * kUlp * std::abs(value) + 0x1p-120};
  }
  const double u = 0.79788456080286535588 * (gate + 0.044715 * gate * gate * gate);
  const bool is_silu = activation == Activation::kSilu;
  const double value = gate / (1 + std::exp(is_silu ? -gate : -2 * u));
  const double ulps = is_silu ? 4 : 4 + 6 * std::abs(u);
  return {value, kSteepest * error + ulps * kUlp * std::abs(value) + 0x1p-120};
}

// What act(gate) is multiplied with.
inline double UpFactor(const MoeFfnOptions& options, double up) {
  if (options.activation != Activation::kClampedSwiglu) return up;
  const double limit = options.limits.limit;
  return std::clamp(up, -limit, limit) + 1;
}

// act(W_gate x + b) ∘ (W_up x + b) of one expert.
inline std::vector<Bounded> HiddenActivations(const TestExperts& experts, int64_t expert,
                                              const MoeFfnOptions& options,
                                              const std::vector<double>& x) {
  std::vector<Bounded> hidden;
  const int64_t first = expert * (experts.gate_up.rows() / experts.num_experts);
  for (int64_t f = 0; f < experts.ffn; ++f) {
    const DotProduct gate = Dot(x, experts.gate_up.Row(first + f));
    if (!experts.packed.has_gate()) {
      const double bias = BiasOf(experts.gate_up_bias, expert, f);
      hidden.push_back(Activated(options, gate.value + bias,
                                 ChainError(experts.hidden + 1, gate.magnitude + std::abs(bias))));
      continue;
    }
    const DotProduct up = Dot(x, experts.gate_up.Row(first + experts.ffn + f));
    const double gate_bias = BiasOf(experts.gate_up_bias, expert, f);
    const double up_bias = BiasOf(experts.gate_up_bias, expert, experts.ffn + f);
    // Two more terms than inputs: the bias, and the 1 of the clamped kind.
    const double up_error = ChainError(experts.hidden + 2, up.magnitude + std::abs(up_bias) + 1);
    const Bounded act =
        Activated(options, gate.value + gate_bias,
                  ChainError(experts.hidden + 1, gate.magnitude + std::abs(gate_bias)));
    const double factor = UpFactor(options, up.value + up_bias);
    const double value = act.value * factor;
    hidden.push_back({value, act.error * (std::abs(factor) + up_error) +
                                 std::abs(act.value) * up_error + 0x1p-24 * std::abs(value)});
  }
  return hidden;
}

// The layer's output for `x` under `plan`, [T·H], to which `before` is added unless it is null.
inline std::vector<Bounded> MoeOracle(const Matrix& x, const RoutingPlan& plan,
                                      const TestExperts& experts, const MoeFfnOptions& options,
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
      const std::vector<Bounded> hidden = HiddenActivations(experts, expert, options, input);
      for (int64_t h = 0; h < width; ++h) {
        double value = BiasOf(experts.down_bias, expert, h);
        double magnitude = std::abs(value);
        double error = 0;
        for (int64_t f = 0; f < experts.ffn; ++f) {
          const double w = experts.down.At(expert * width + h, f);
          const Bounded& activated = hidden[static_cast<size_t>(f)];
          value += w * activated.value;
          magnitude += std::abs(w * activated.value);
          error += std::abs(w) * activated.error;
        }
        sums[h].value += weight * value;
        sums[h].error += std::abs(weight) * (error + ChainError(experts.ffn + 1, magnitude));
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
