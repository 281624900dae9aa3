// Checks a request for the gradient of gating, chooses the implementation and spreads rows.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/gating.h"
#include "ops/gating/check_options.h"
#include "ops/implementation.h"
#include "ops/ref/reference.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "gating_backward";
constexpr int64_t kRowsPerTask = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One row and its chosen experts; scratch of a worker.
struct BackwardRow {
  std::vector<float> logits;     // [E] without NaN
  std::vector<float> scores;     // [E]
  std::vector<size_t> experts;   // [≤ k]
  std::vector<float> gradients;  // [≤ k] scale · d_weight
  std::vector<float> shares;     // [≤ k] weights before the scale
};

void ReadChosen(const GateBackwardRequest& request, int64_t token, BackwardRow& row) {
  const int64_t top_k = request.options->top_k;
  const auto* d_weights = reinterpret_cast<const float*>(request.d_weights.row(token));
  row.experts.clear();
  row.gradients.clear();
  for (int64_t rank = 0; rank < top_k; ++rank) {
    const int32_t expert = request.expert_ids[static_cast<size_t>(token * top_k + rank)];
    if (expert < 0) continue;
    row.experts.push_back(static_cast<size_t>(expert));
    row.gradients.push_back(request.options->scale * d_weights[rank]);
  }
}

void SharesOfChosenLogits(BackwardRow& row) {
  float max = -kInfinity;
  for (const size_t expert : row.experts) max = std::max(max, row.logits[expert]);
  float sum = 0;
  for (const size_t expert : row.experts) {
    row.shares.push_back(std::isinf(max) ? 0 : std::exp(row.logits[expert] - max));
    sum += row.shares.back();
  }
  for (float& share : row.shares) share = sum > 0 ? share / sum : 0;
}

// Fills the shares. Returns whether they were divided by a sum, on which every weight depends.
bool ComputeShares(const GatingOptions& options, BackwardRow& row) {
  row.shares.clear();
  if (options.score_function == ScoreFunction::kSoftmaxOfChosen) {
    SharesOfChosenLogits(row);
    return true;
  }
  float sum = options.renormalization_epsilon;
  for (const size_t expert : row.experts) {
    row.shares.push_back(row.scores[expert]);
    sum += row.scores[expert];
  }
  if (!options.renormalizes || !(sum > 0)) return false;
  for (float& share : row.shares) share /= sum;
  return true;
}

// d_logits of a row whose scores are known. Products with shares instead of quotients by the sum:
// both may be tiny.
void ComputeRow(const GatingOptions& options, BackwardRow& row, float* d_logits) {
  const bool divides = ComputeShares(options, row);
  float mean = 0;
  for (size_t i = 0; divides && i < row.shares.size(); ++i) {
    mean += row.gradients[i] * row.shares[i];
  }
  const bool is_softmax = options.score_function == ScoreFunction::kSoftmax;
  float sum = 0;  // Σ d_s s; 0 when weights only depend on ratios of scores
  for (size_t i = 0; i < row.shares.size(); ++i) {
    row.gradients[i] = (row.gradients[i] - mean) * row.shares[i];
    if (is_softmax && !(divides && options.renormalization_epsilon == 0)) sum += row.gradients[i];
  }
  if (sum != 0) {
    for (size_t expert = 0; expert < row.scores.size(); ++expert) {
      d_logits[expert] = -sum * row.scores[expert];
    }
  }
  for (size_t i = 0; i < row.experts.size(); ++i) {
    const size_t expert = row.experts[i];
    float slope = 1;
    if (options.score_function == ScoreFunction::kSigmoid) {
      const float logit = -row.logits[expert];
      Sigmoid(&logit, 1, &slope);  // 1 - s without cancellation
    }
    d_logits[expert] += row.gradients[i] * slope;
  }
}

void GateBackwardVectorized(const Context& context, const GateBackwardRequest& request) {
  const int64_t num_tokens = request.logits.dim(0);
  const auto n = static_cast<size_t>(request.logits.dim(1));
  const auto num_tasks = static_cast<size_t>((num_tokens + kRowsPerTask - 1) / kRowsPerTask);
  const size_t num_workers = num_tasks > 1 ? static_cast<size_t>(context.num_threads()) : 1;
  BackwardRow empty;
  empty.logits.resize(n);
  empty.scores.resize(n);
  std::vector<BackwardRow> rows(num_workers, empty);
  context.pool().ParallelFor(num_tasks, [&](size_t task, int worker) {
    BackwardRow& row = rows[static_cast<size_t>(worker)];
    const int64_t begin = static_cast<int64_t>(task) * kRowsPerTask;
    for (int64_t token = begin; token < std::min(begin + kRowsPerTask, num_tokens); ++token) {
      const auto* logits = reinterpret_cast<const float*>(request.logits.row(token));
      auto* d_logits = reinterpret_cast<float*>(request.d_logits.mutable_row(token));
      const float max = CleanLogits(logits, n, row.logits.data());
      ReadChosen(request, token, row);
      std::fill_n(d_logits, n, 0.0f);  // logits may lie here
      if (row.experts.empty() || max == -kInfinity) continue;
      const bool is_sigmoid = request.options->score_function == ScoreFunction::kSigmoid;
      if (is_sigmoid) {
        Sigmoid(row.logits.data(), n, row.scores.data());
      } else if (std::isinf(max)) {
        continue;  // saturated
      } else {
        Softmax(row.logits.data(), n, max, row.scores.data());
      }
      ComputeRow(*request.options, row, d_logits);
    }
  });
}

constexpr Implementation<GateBackwardRequest> kImplementations[] = {
    {"vectorized",
     [](const Context& context, const GateBackwardRequest&) {
       return DeclineIfReferenceForced(context);
     },
     GateBackwardVectorized},
    {"reference", TakesAll<GateBackwardRequest>, ref::GateBackward},
};

void CheckIds(const GatingResult& result, int64_t num_experts, int64_t top_k) {
  for (size_t slot = 0; slot < result.expert_ids.size(); ++slot) {
    const int32_t expert = result.expert_ids[slot];
    OPST_CHECK_ARG(expert >= -1 && expert < num_experts, kOp,
                   Concat("expert ids must be -1 or 0..", num_experts - 1), "invalid expert index ",
                   expert, " at [", slot / static_cast<size_t>(top_k), ",",
                   slot % static_cast<size_t>(top_k), "]");
  }
}

}  // namespace

void GateBackward(const Context& context, ConstTensorView logits, const GatingResult& result,
                  ConstTensorView d_weights, const GatingOptions& options, TensorView d_logits) {
  OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32, kOp,
                 "logits must be [T,E] f32", logits.ToString());
  CheckGatingOptions(options, logits.dim(1));
  OPST_CHECK_ARG(options.score_function != ScoreFunction::kSparsemixer, kOp,
                 "the score function must not be sparsemixer, which is trained by an estimator of "
                 "its own",
                 "kSparsemixer");
  const Shape slots{logits.dim(0), options.top_k};
  OPST_CHECK_ARG(static_cast<int64_t>(result.expert_ids.size()) == slots.num_elements(), kOp,
                 "the result must hold [T,k] expert ids", result.expert_ids.size(), " for ",
                 slots.ToString());
  OPST_CHECK_ARG(d_weights.shape() == slots && d_weights.dtype() == DType::kF32, kOp,
                 "d_weights must be [T,k] f32", d_weights.ToString(), " for ", slots.ToString());
  OPST_CHECK_ARG(d_logits.shape() == logits.shape() && d_logits.dtype() == DType::kF32, kOp,
                 "d_logits must be [T,E] f32", d_logits.ToString(), " for logits ",
                 logits.ToString());
  const bool is_same =
      d_logits.data() == logits.data() && d_logits.row_stride() == logits.row_stride();
  OPST_CHECK_ARG((is_same || !d_logits.Overlaps(logits)) && !d_logits.Overlaps(d_weights), kOp,
                 "d_logits must not overlap d_weights, nor the logits unless it is the same memory",
                 d_logits.ToString());
  CheckIds(result, logits.dim(1), options.top_k);
  const GateBackwardRequest request{logits, result.expert_ids, d_weights, &options, d_logits};
  Dispatch<GateBackwardRequest>(context, kOp, kImplementations, request);
}

}  // namespace opst
