// Checks a gating request, chooses the implementation and spreads rows over the workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/gating.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/thread_pool.h"
#include "ops/gating/check_options.h"
#include "ops/gating/gating_row.h"
#include "ops/implementation.h"
#include "ops/ref/reference.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "gating";
// Rows handed to a worker at a time: about 10 us of work at E = 64.
constexpr int64_t kRowsPerTask = 64;

void GateVectorized(const Context& context, const GatingRequest& request) {
  const int64_t num_experts = request.logits.dim(1);
  const int64_t num_tokens = request.logits.dim(0);
  const int64_t top_k = request.options->top_k;
  GatingResult& result = *request.result;
  const std::span<const uint8_t> is_padding = request.options->is_padding;
  std::atomic<int64_t> num_empty_rows{0};
  const auto num_tasks = static_cast<size_t>((num_tokens + kRowsPerTask - 1) / kRowsPerTask);
  // Any worker may come first, however few tasks there are; a single task runs on worker 0.
  const size_t num_workers = num_tasks > 1 ? static_cast<size_t>(context.num_threads()) : 1;
  std::vector<GatingScratch> scratches(num_workers,
                                       GatingScratch(num_experts, request.options->num_groups));
  context.pool().ParallelFor(num_tasks, [&](size_t task, int worker) {
    const int64_t begin = static_cast<int64_t>(task) * kRowsPerTask;
    const int64_t end = std::min(begin + kRowsPerTask, num_tokens);
    for (int64_t token = begin; token < end; ++token) {
      const auto* logits = reinterpret_cast<const float*>(request.logits.row(token));
      const auto slot = static_cast<size_t>(token * top_k);
      const GatedRow row{&result.expert_ids[slot], &result.expert_weights[slot],
                         result.scores.empty()
                             ? nullptr
                             : &result.scores[static_cast<size_t>(token * num_experts)]};
      const bool is_usable = GateRow(logits, *request.options, request.load_factors,
                                     scratches[static_cast<size_t>(worker)], row);
      if (is_padding.empty() || is_padding[static_cast<size_t>(token)] == 0) {
        if (!is_usable) num_empty_rows.fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      std::fill_n(row.ids, top_k, -1);
      std::fill_n(row.weights, top_k, 0.0f);
    }
  });
  result.num_empty_rows = num_empty_rows.load();
}

constexpr Implementation<GatingRequest> kImplementations[] = {
    {"vectorized",
     [](const Context& context, const GatingRequest&) { return DeclineIfReferenceForced(context); },
     GateVectorized},
    {"reference", TakesAll<GatingRequest>, ref::Gate},
};

// max(1, u)^-ratio; empty when the load has no say.
std::vector<float> LoadFactors(const GatingOptions& options) {
  std::vector<float> factors;
  if (options.load_balance_ratio == 0) return factors;
  for (const float utilization : options.utilization) {
    factors.push_back(std::pow(std::max(1.0f, utilization), -options.load_balance_ratio));
  }
  return factors;
}

}  // namespace

GatingResult Gate(const Context& context, ConstTensorView logits, const GatingOptions& options) {
  OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32, kOp,
                 "logits must be [T,E] f32", logits.ToString());
  CheckGatingOptions(options, logits.dim(1));
  const auto num_flags = static_cast<int64_t>(options.is_padding.size());
  OPST_CHECK_ARG(num_flags == 0 || num_flags == logits.dim(0), kOp,
                 "is_padding must have one value per token", num_flags, " for ", logits.dim(0),
                 " tokens");
  GatingResult result;
  const auto num_slots = static_cast<size_t>(logits.dim(0) * options.top_k);
  result.expert_ids.resize(num_slots);
  result.expert_weights.resize(num_slots);
  if (options.returns_scores) {
    result.scores.resize(static_cast<size_t>(logits.shape().num_elements()));
  }
  const std::vector<float> load_factors = LoadFactors(options);
  const GatingRequest request{logits, &options, load_factors, &result};
  Dispatch<GatingRequest>(context, kOp, kImplementations, request);
  if (result.num_empty_rows > 0) {
    context.log().WriteOnce(LogLevel::kWarning, "gating.empty_rows", "[gating] ",
                            result.num_empty_rows, " of ", logits.dim(0),
                            " token(s) have no usable router logit (all NaN or masked); their"
                            " experts are ids 0..",
                            options.top_k - 1, " with weight 0");
  }
  return result;
}

RoutingPlan Route(const Context& context, ConstTensorView logits, const GatingOptions& options,
                  const RoutingPlanOptions& plan_options) {
  GatingResult gated = Gate(context, logits, options);
  RoutingPlanOptions with_padding = plan_options;
  if (with_padding.is_padding.empty()) with_padding.is_padding = options.is_padding;
  RoutingPlan plan =
      BuildRoutingPlan(context, std::move(gated.expert_ids), std::move(gated.expert_weights),
                       options.top_k, logits.dim(1), with_padding);
  plan.num_empty_rows = gated.num_empty_rows;
  return plan;
}

}  // namespace opst
