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

}  // namespace

void CheckGatingOptions(const GatingOptions& options, int64_t num_experts) {
  OPST_CHECK_ARG(options.top_k >= 1 && options.top_k <= num_experts, kOp,
                 "top_k must be between 1 and the number of experts", "top_k ", options.top_k,
                 " of ", num_experts, " experts");
  OPST_CHECK_ARG(options.num_groups >= 1 && num_experts % options.num_groups == 0, kOp,
                 "num_groups must divide the number of experts", options.num_groups, " for ",
                 num_experts, " experts");
  OPST_CHECK_ARG(options.num_kept_groups >= 1 && options.num_kept_groups <= options.num_groups, kOp,
                 "num_kept_groups must be between 1 and num_groups", options.num_kept_groups,
                 " of ", options.num_groups);
  const int64_t candidates = options.num_kept_groups * (num_experts / options.num_groups);
  OPST_CHECK_ARG(options.top_k <= candidates, kOp, "the kept groups must hold top_k experts",
                 options.num_kept_groups, " groups with ", candidates, " experts for top_k ",
                 options.top_k);
  OPST_CHECK_ARG(std::isfinite(options.scale), kOp, "scale must be finite", options.scale);
  const auto bias = options.selection_bias;
  if (options.score_function == ScoreFunction::kSparsemixer) {
    OPST_CHECK_ARG(bias.empty() && options.num_groups == 1, kOp,
                   "sparsemixer takes neither a selection_bias nor groups", bias.size(),
                   " values, ", options.num_groups, " groups");
    OPST_CHECK_ARG(std::isfinite(options.sparsemixer_epsilon) && options.sparsemixer_epsilon > 0,
                   kOp, "sparsemixer_epsilon must be a number above 0",
                   options.sparsemixer_epsilon);
  }
  OPST_CHECK_ARG(bias.empty() || static_cast<int64_t>(bias.size()) == num_experts, kOp,
                 "selection_bias must have one value per expert", bias.size(), " for ", num_experts,
                 " experts");
  for (size_t expert = 0; expert < bias.size(); ++expert) {
    OPST_CHECK_ARG(std::isfinite(bias[expert]), kOp, "selection_bias must be finite", bias[expert],
                   " at [", expert, "]");
  }
}

namespace {

void GateVectorized(const Context& context, const GatingRequest& request) {
  const int64_t num_experts = request.logits.dim(1);
  const int64_t num_tokens = request.logits.dim(0);
  const int64_t top_k = request.options->top_k;
  GatingResult& result = *request.result;
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
      const bool is_usable =
          GateRow(logits, num_experts, *request.options, scratches[static_cast<size_t>(worker)],
                  &result.expert_ids[slot], &result.expert_weights[slot]);
      if (!is_usable) num_empty_rows.fetch_add(1, std::memory_order_relaxed);
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

}  // namespace

GatingResult Gate(const Context& context, ConstTensorView logits, const GatingOptions& options) {
  OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32, kOp,
                 "logits must be [T,E] f32", logits.ToString());
  CheckGatingOptions(options, logits.dim(1));
  GatingResult result;
  const auto num_slots = static_cast<size_t>(logits.dim(0) * options.top_k);
  result.expert_ids.resize(num_slots);
  result.expert_weights.resize(num_slots);
  const GatingRequest request{logits, &options, &result};
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
  RoutingPlan plan =
      BuildRoutingPlan(context, std::move(gated.expert_ids), std::move(gated.expert_weights),
                       options.top_k, logits.dim(1), plan_options);
  plan.num_empty_rows = gated.num_empty_rows;
  return plan;
}

}  // namespace opst
