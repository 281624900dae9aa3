// Example 1: one MoE layer from its operators, with random weights: pack, route, run, and show who
// served whom. No model file is needed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/error.h>
#include <opst/ops/gating.h>
#include <opst/ops/grouped_matmul.h>
#include <opst/ops/moe_ffn.h>
#include <opst/pack.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr int64_t kTokens = 6;   // T
constexpr int64_t kHidden = 64;  // H
constexpr int64_t kFfn = 48;     // F
constexpr int64_t kExperts = 8;  // E

// Repeatable numbers in [-0.5, 0.5).
opst::Tensor Random(const opst::Shape& shape, uint32_t seed) {
  opst::Tensor tensor(opst::DType::kF32, shape);
  uint32_t state = seed;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    tensor.as<float>()[i] = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
  }
  return tensor;
}

void PrintPlan(const opst::RoutingPlan& plan) {
  for (int64_t token = 0; token < plan.num_tokens; ++token) {
    std::printf("token %lld:", static_cast<long long>(token));
    for (int64_t j = 0; j < plan.top_k; ++j) {
      const auto slot = static_cast<size_t>(token * plan.top_k + j);
      std::printf("  expert %d, weight %.3f", plan.expert_ids[slot], plan.expert_weights[slot]);
    }
    std::printf("\n");
  }
  for (int64_t expert = 0; expert < plan.num_experts; ++expert) {
    std::printf("expert %lld served:", static_cast<long long>(expert));
    const auto first = plan.expert_offsets[static_cast<size_t>(expert)];
    const auto last = plan.expert_offsets[static_cast<size_t>(expert) + 1];
    for (int64_t row = first; row < last; ++row) {
      const int64_t slot = plan.row_to_slot[static_cast<size_t>(row)];
      std::printf(" token %lld", static_cast<long long>(slot / plan.top_k));
    }
    std::printf("\n");
  }
}

bool Run() {
  const opst::Tensor x = Random({kTokens, kHidden}, 1);
  const opst::Tensor w_router = Random({1, kExperts, kHidden}, 2);
  const opst::Tensor w_gate_up = Random({kExperts, 2 * kFfn, kHidden}, 3);  // gate rows, up rows
  const opst::Tensor w_down = Random({kExperts, kHidden, kFfn}, 4);

  using enum opst::PanelOrder;
  constexpr auto kBf16 = opst::WeightFormat::kBf16;
  const opst::Context context;  // workers, settings, log
  const auto router = opst::PackExperts(context, w_router, opst::WeightFormat::kF32, kPlain);
  const opst::ExpertWeights experts{opst::PackExperts(context, w_gate_up, kBf16, kGateUp),
                                    opst::PackExperts(context, w_down, kBf16, kPlain)};

  const opst::Tensor logits(opst::DType::kF32, {kTokens, kExperts});
  opst::Matmul(context, x, router, logits);
  const opst::RoutingPlan plan = opst::Route(context, logits, {.top_k = 2});
  const opst::Tensor out(opst::DType::kF32, {kTokens, kHidden});
  opst::MoeFfn(context, x, plan, experts, {}, out);
  PrintPlan(plan);

  // The same bits for any number of workers.
  const opst::Context one_worker({.num_threads = 1});
  const opst::Tensor again(opst::DType::kF32, out.shape());
  opst::MoeFfn(one_worker, x, plan, experts, {}, again);
  const size_t num_bytes = out.view().num_bytes();
  const bool is_same = std::memcmp(out.as<float>(), again.as<float>(), num_bytes) == 0;
  std::printf("with %d and with 1 worker: %s\n", context.num_threads(),
              is_same ? "the same bits" : "different bits");
  return is_same;
}

}  // namespace

int main() {
  try {
    return Run() ? 0 : 1;
  } catch (const opst::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
