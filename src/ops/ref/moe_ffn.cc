// The MoE feed-forward layer token by token, exactly as its formula reads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/ref/activate.h"
#include "ops/ref/element.h"
#include "ops/ref/reference.h"

namespace opst::ref {
namespace {

float Dot(const PackedWeights& weights, int64_t expert, int64_t row, const std::vector<float>& x) {
  float sum = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    sum = std::fma(x[k], weights.At(expert, row, static_cast<int64_t>(k)), sum);
  }
  return sum;
}

// What act(gate) is multiplied with.
float UpFactor(Activation activation, const ActivationLimits& limits, float up) {
  if (activation != Activation::kClampedSwiglu) return up;
  const float clamped =
      up > limits.limit ? limits.limit : (up < -limits.limit ? -limits.limit : up);
  return clamped + 1;
}

float BiasAt(const ConstTensorView& bias, int64_t expert, int64_t column) {
  return bias.rank() == 0 ? 0.0f : reinterpret_cast<const float*>(bias.row(expert))[column];
}

std::vector<float> Hidden(const ExpertWeights& experts, int64_t expert,
                          const MoeFfnOptions& options, const std::vector<float>& x) {
  const int64_t ffn = experts.down.layout().in;
  std::vector<float> hidden(static_cast<size_t>(ffn));
  for (int64_t f = 0; f < ffn; ++f) {
    const float gate = Dot(experts.gate_up, expert, f, x) + BiasAt(experts.gate_up_bias, expert, f);
    hidden[static_cast<size_t>(f)] =
        Activate(options.activation, options.limits, static_cast<double>(gate));
    if (!experts.has_gate()) continue;
    const float up =
        Dot(experts.gate_up, expert, ffn + f, x) + BiasAt(experts.gate_up_bias, expert, ffn + f);
    hidden[static_cast<size_t>(f)] *= UpFactor(options.activation, options.limits, up);
  }
  return hidden;
}

}  // namespace

void MoeFfn(const Context&, const MoeFfnRequest& request) {
  const RoutingPlan& plan = *request.plan;
  const int64_t width = request.x.dim(1);
  for (int64_t token = 0; token < plan.num_tokens; ++token) {
    std::vector<float> x;
    std::vector<float> sum;
    for (int64_t h = 0; h < width; ++h) {
      x.push_back(Load(request.x, token, h));
      const bool adds = request.options->output_mode == OutputMode::kAdd;
      sum.push_back(adds ? Load(request.out, token, h) : 0.0f);
    }
    std::vector<std::pair<int32_t, float>> choices;  // of this token, by ascending expert
    for (int64_t j = 0; j < plan.top_k; ++j) {
      const auto slot = static_cast<size_t>(token * plan.top_k + j);
      if (plan.slot_to_row[slot] < 0) continue;
      choices.emplace_back(plan.expert_ids[slot], plan.expert_weights[slot]);
    }
    std::stable_sort(choices.begin(), choices.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [expert, weight] : choices) {
      const std::vector<float> hidden = Hidden(*request.experts, expert, *request.options, x);
      for (int64_t h = 0; h < width; ++h) {
        const float y = Dot(request.experts->down, expert, h, hidden) +
                        BiasAt(request.experts->down_bias, expert, h);
        sum[static_cast<size_t>(h)] = std::fma(weight, y, sum[static_cast<size_t>(h)]);
      }
    }
    for (int64_t h = 0; h < width; ++h) Store(request.out, token, h, sum[static_cast<size_t>(h)]);
  }
}

}  // namespace opst::ref
