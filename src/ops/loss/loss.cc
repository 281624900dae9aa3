// Checks the losses of the router, and makes forward and backward from the sums over tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "ops/implementation.h"
#include "ops/loss/router_sums.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "router_loss";
constexpr int64_t kRowsPerTask = 64;

// One segment's part in the loss, and its derivatives.
struct SegmentLoss {
  double loss = 0;
  std::vector<double> d_probabilities;  // [E] by p of any of its tokens; not of kZ
  double z_factor = 0;                  // of kZ: d loss / d ln Σ e^x, over ln Σ e^x
};

SegmentLoss BalanceOf(const RouterLossRequest& request, const RouterSums& sums) {
  const auto num_experts = static_cast<double>(sums.counts.size());
  const auto num_rows = static_cast<double>(sums.num_rows);
  const auto num_choices =
      static_cast<double>(std::accumulate(sums.counts.begin(), sums.counts.end(), int64_t{0}));
  const bool is_per_token = request.options.count == BalanceCount::kPerToken;
  const double divisor = is_per_token ? num_rows : std::max(num_choices, 1.0);
  const double factor = static_cast<double>(request.options.coefficient) * num_experts;
  SegmentLoss part;
  for (size_t expert = 0; expert < sums.counts.size(); ++expert) {
    const double f = static_cast<double>(sums.counts[expert]) / divisor;
    part.loss += factor * f * sums.probabilities[expert] / num_rows;
    part.d_probabilities.push_back(factor * f / num_rows);
  }
  return part;
}

SegmentLoss ZOf(const RouterLossRequest& request, const RouterSums& sums) {
  const double factor =
      static_cast<double>(request.options.coefficient) / static_cast<double>(sums.num_rows);
  return {factor * sums.squared_log_sums, {}, 2 * factor};
}

SegmentLoss ImportanceOf(const RouterLossRequest& request, const RouterSums& sums) {
  const auto coefficient = static_cast<double>(request.options.coefficient);
  const std::vector<double>& importance = sums.probabilities;
  const auto n = static_cast<double>(importance.size());
  const double mean = std::accumulate(importance.begin(), importance.end(), 0.0) / n;
  double variance = 0;
  for (const double value : importance) variance += (value - mean) * (value - mean) / n;
  SegmentLoss part;
  part.loss = coefficient * variance / (mean * mean);
  for (const double value : importance) {
    part.d_probabilities.push_back(coefficient * 2 / (n * mean * mean) *
                                   (value - mean - variance / mean));
  }
  return part;
}

// Of the segments that have rows; the others stay empty. Each counts as one of those.
std::vector<SegmentLoss> SegmentLosses(const RouterLossRequest& request,
                                       const std::vector<RouterSums>& sums) {
  const auto count = std::count_if(sums.begin(), sums.end(),
                                   [](const RouterSums& sum) { return sum.num_rows > 0; });
  std::vector<SegmentLoss> parts(sums.size());
  for (size_t segment = 0; segment < sums.size(); ++segment) {
    if (sums[segment].num_rows == 0) continue;
    switch (request.kind) {
      case RouterLossKind::kBalance:
        parts[segment] = BalanceOf(request, sums[segment]);
        break;
      case RouterLossKind::kZ:
        parts[segment] = ZOf(request, sums[segment]);
        break;
      case RouterLossKind::kImportance:
        parts[segment] = ImportanceOf(request, sums[segment]);
        break;
    }
    parts[segment].loss /= static_cast<double>(count);
    for (double& d : parts[segment].d_probabilities) d /= static_cast<double>(count);
  }
  return parts;
}

// Adds one token's gradient to its row.
void AddGradient(const RouterLossRequest& request, const RouterRow& row, const SegmentLoss& part,
                 float* d_values) {
  const size_t n = row.probabilities.size();
  const auto add = [&](size_t expert, double value) {
    d_values[expert] = static_cast<float>(static_cast<double>(d_values[expert]) + value);
  };
  if (request.kind == RouterLossKind::kZ) {
    const double factor = request.d_loss * part.z_factor * row.LogSum();
    for (size_t expert = 0; expert < n; ++expert) {
      const auto p = static_cast<double>(row.probabilities[expert]);
      if (p > 0) add(expert, factor * p);
    }
    return;
  }
  if (request.options.values == RouterValues::kProbabilities) {
    for (size_t expert = 0; expert < n; ++expert) {
      if (row.clean[expert] > -std::numeric_limits<float>::infinity()) {
        add(expert, request.d_loss * part.d_probabilities[expert]);
      }
    }
    return;
  }
  const bool is_sigmoid = request.options.values == RouterValues::kSigmoidLogits;
  if (!is_sigmoid && std::isinf(row.max)) return;  // saturated
  double mean = 0;
  for (size_t expert = 0; expert < n; ++expert) {
    mean += static_cast<double>(row.probabilities[expert]) * part.d_probabilities[expert];
  }
  for (size_t expert = 0; expert < n; ++expert) {
    const auto p = static_cast<double>(row.probabilities[expert]);
    const double slope = is_sigmoid ? p * static_cast<double>(row.complements[expert]) : p;
    if (slope > 0) add(expert, request.d_loss * slope * (part.d_probabilities[expert] - mean));
  }
}

void RouterLossVectorized(const Context& context, const RouterLossRequest& request) {
  const std::vector<SegmentLoss> parts = SegmentLosses(request, SumRows(context, request));
  if (request.loss != nullptr) {
    *request.loss = 0;
    for (const SegmentLoss& part : parts) *request.loss += part.loss;
    return;
  }
  const int64_t num_tokens = request.num_tokens();
  const auto num_tasks = static_cast<size_t>((num_tokens + kRowsPerTask - 1) / kRowsPerTask);
  context.pool().ParallelFor(num_tasks, [&](size_t task, int) {
    RouterRow row(static_cast<size_t>(request.values.dim(1)));
    const int64_t begin = static_cast<int64_t>(task) * kRowsPerTask;
    for (int64_t token = begin; token < std::min(begin + kRowsPerTask, num_tokens); ++token) {
      if (!row.Read(request, token)) continue;
      AddGradient(request, row, parts[static_cast<size_t>(token / request.segment_tokens())],
                  reinterpret_cast<float*>(request.d_values.mutable_row(token)));
    }
  });
}

constexpr Implementation<RouterLossRequest> kImplementations[] = {
    {"vectorized",
     [](const Context& context, const RouterLossRequest&) {
       return DeclineIfReferenceForced(context);
     },
     RouterLossVectorized},
    {"reference", TakesAll<RouterLossRequest>, ref::RouterLoss},
};

void CheckIds(ConstTensorView ids, ConstTensorView values) {
  OPST_CHECK_ARG(ids.rank() == 2 && ids.dtype() == DType::kI32 && ids.dim(0) == values.dim(0), kOp,
                 "expert_ids must be [T,k] i32 of the values' tokens", ids.ToString(),
                 " for values ", values.ToString());
  for (int64_t token = 0; token < ids.dim(0); ++token) {
    const auto* row = reinterpret_cast<const int32_t*>(ids.row(token));
    for (int64_t rank = 0; rank < ids.dim(1); ++rank) {
      OPST_CHECK_ARG(row[rank] >= -1 && row[rank] < values.dim(1), kOp,
                     Concat("expert ids must be -1 or 0..", values.dim(1) - 1),
                     "invalid expert index ", row[rank], " at [", token, ",", rank, "]");
    }
  }
}

void CheckRequest(const RouterLossRequest& request) {
  const ConstTensorView& values = request.values;
  const BalanceLossOptions& options = request.options;
  OPST_CHECK_ARG(values.rank() == 2 && values.dtype() == DType::kF32 && values.dim(1) >= 1, kOp,
                 "values must be [T,E] f32", values.ToString());
  if (request.kind == RouterLossKind::kBalance) CheckIds(request.expert_ids, values);
  OPST_CHECK_ARG(std::isfinite(options.coefficient), kOp, "coefficient must be finite",
                 options.coefficient);
  OPST_CHECK_ARG(options.sequence_length >= 0, kOp, "sequence_length must not be negative",
                 options.sequence_length);
  const auto num_flags = static_cast<int64_t>(options.is_padding.size());
  OPST_CHECK_ARG(num_flags == 0 || num_flags == values.dim(0), kOp,
                 "is_padding must have one value per token", num_flags, " for ", values.dim(0),
                 " tokens");
  if (request.loss != nullptr) return;
  const TensorView& d_values = request.d_values;
  OPST_CHECK_ARG(d_values.shape() == values.shape() && d_values.dtype() == DType::kF32, kOp,
                 "the gradient must be [T,E] f32", d_values.ToString(), " for values ",
                 values.ToString());
  OPST_CHECK_ARG(!d_values.Overlaps(values) && !d_values.Overlaps(request.expert_ids), kOp,
                 "the gradient must not overlap the inputs", d_values.ToString());
}

void Run(const Context& context, const RouterLossRequest& request) {
  CheckRequest(request);
  Dispatch<RouterLossRequest>(context, kOp, kImplementations, request);
}

double Forward(const Context& context, RouterLossKind kind, ConstTensorView values,
               ConstTensorView expert_ids, const BalanceLossOptions& options) {
  double loss = 0;
  Run(context, {kind, values, expert_ids, options, &loss, 0, {}});
  return loss;
}

BalanceLossOptions OptionsOf(const RouterLossOptions& options, RouterValues values) {
  return {.coefficient = options.coefficient, .values = values, .is_padding = options.is_padding};
}

}  // namespace

double BalanceLoss(const Context& context, ConstTensorView values, ConstTensorView expert_ids,
                   const BalanceLossOptions& options) {
  return Forward(context, RouterLossKind::kBalance, values, expert_ids, options);
}

void BalanceLossBackward(const Context& context, ConstTensorView values, ConstTensorView expert_ids,
                         const BalanceLossOptions& options, double d_loss, TensorView d_values) {
  Run(context, {RouterLossKind::kBalance, values, expert_ids, options, nullptr, d_loss, d_values});
}

double RouterZLoss(const Context& context, ConstTensorView logits,
                   const RouterLossOptions& options) {
  return Forward(context, RouterLossKind::kZ, logits, {},
                 OptionsOf(options, RouterValues::kSoftmaxLogits));
}

void RouterZLossBackward(const Context& context, ConstTensorView logits,
                         const RouterLossOptions& options, double d_loss, TensorView d_logits) {
  Run(context, {RouterLossKind::kZ,
                logits,
                {},
                OptionsOf(options, RouterValues::kSoftmaxLogits),
                nullptr,
                d_loss,
                d_logits});
}

double ImportanceLoss(const Context& context, ConstTensorView values,
                      const RouterLossOptions& options) {
  return Forward(context, RouterLossKind::kImportance, values, {},
                 OptionsOf(options, options.values));
}

void ImportanceLossBackward(const Context& context, ConstTensorView values,
                            const RouterLossOptions& options, double d_loss, TensorView d_values) {
  Run(context, {RouterLossKind::kImportance,
                values,
                {},
                OptionsOf(options, options.values),
                nullptr,
                d_loss,
                d_values});
}

}  // namespace opst
