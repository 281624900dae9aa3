// Scores by rows, then each expert picks from its column, then the picks become slots of tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "ops/implementation.h"
#include "ops/ref/reference.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

constexpr std::string_view kOp = "expert_choice";

void CheckRequest(ConstTensorView logits, const ExpertChoiceRoutingOptions& options) {
  OPST_CHECK_ARG(logits.rank() == 2 && logits.dtype() == DType::kF32, kOp,
                 "logits must be [T,E] f32", logits.ToString());
  OPST_CHECK_ARG(logits.dim(1) >= 1, kOp, "num_experts must be positive", logits.dim(1));
  OPST_CHECK_ARG(logits.dim(0) <= std::numeric_limits<int32_t>::max(), kOp, "T must be below 2^31",
                 logits.dim(0));
  OPST_CHECK_ARG(std::isfinite(options.capacity_factor) && options.capacity_factor > 0, kOp,
                 "capacity_factor must be finite and above 0", options.capacity_factor);
  const auto num_flags = static_cast<int64_t>(options.is_padding.size());
  OPST_CHECK_ARG(num_flags == 0 || num_flags == logits.dim(0), kOp,
                 "is_padding must have one value per token", num_flags, " for ", logits.dim(0),
                 " tokens");
}

int64_t Capacity(ConstTensorView logits, const ExpertChoiceRoutingOptions& options) {
  const int64_t num_tokens =
      logits.dim(0) - std::count_if(options.is_padding.begin(), options.is_padding.end(),
                                    [](uint8_t is_padding) { return is_padding != 0; });
  const auto tokens = static_cast<double>(num_tokens);
  const double wanted =
      std::ceil(options.capacity_factor * tokens / static_cast<double>(logits.dim(1)));
  return std::min(num_tokens, std::max<int64_t>(1, static_cast<int64_t>(std::min(wanted, tokens))));
}

void PickBySelection(const Context& context, const ExpertChoiceRequest& request) {
  const auto num_experts = request.picks->size();
  const auto num_tokens = request.scores.size() / num_experts;
  context.pool().ParallelFor(num_experts, [&](size_t expert, int) {
    const auto score = [&](int32_t token) {
      return request.scores[static_cast<size_t>(token) * num_experts + expert];
    };
    std::vector<int32_t>& tokens = (*request.picks)[expert];
    for (size_t token = 0; token < num_tokens; ++token) {
      // A score of 0 is a masked pair, padding, or too small to matter.
      if (score(static_cast<int32_t>(token)) > 0) tokens.push_back(static_cast<int32_t>(token));
    }
    const auto capacity = static_cast<size_t>(request.capacity);
    if (tokens.size() <= capacity) return;
    const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(capacity);
    std::nth_element(tokens.begin(), end, tokens.end(), [&](int32_t a, int32_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    });
    tokens.erase(end, tokens.end());
  });
}

constexpr Implementation<ExpertChoiceRequest> kImplementations[] = {
    {"selection",
     [](const Context& context, const ExpertChoiceRequest&) {
       return DeclineIfReferenceForced(context);
     },
     PickBySelection},
    {"reference", TakesAll<ExpertChoiceRequest>, ref::PickTokens},
};

// Not 0 = a token that nobody may take: padding, or without any usable logit. Counts the latter.
std::vector<uint8_t> LeftOut(ConstTensorView logits, std::span<const uint8_t> is_padding,
                             int64_t& num_empty_rows) {
  std::vector<uint8_t> is_left_out(static_cast<size_t>(logits.dim(0)), 0);
  for (size_t token = 0; token < is_left_out.size(); ++token) {
    const auto* row = reinterpret_cast<const float*>(logits.row(static_cast<int64_t>(token)));
    const bool is_usable = std::any_of(row, row + logits.dim(1), [](float logit) {
      return logit > -std::numeric_limits<float>::infinity();
    });
    const bool is_token = is_padding.empty() || is_padding[token] == 0;
    is_left_out[token] = is_token && is_usable ? 0 : 1;
    if (is_token && !is_usable) ++num_empty_rows;
  }
  return is_left_out;
}

// Scores [T,E], 0 where nobody may take: of Gate, whose own choice is not used.
std::vector<float> ScoreTokens(const Context& context, ConstTensorView logits,
                               std::span<const uint8_t> is_left_out) {
  GatingResult gated =
      Gate(context, logits, {.top_k = 1, .is_padding = is_left_out, .returns_scores = true});
  for (size_t token = 0; token < is_left_out.size(); ++token) {
    if (is_left_out[token] == 0) continue;
    std::fill_n(gated.scores.begin() + static_cast<std::ptrdiff_t>(token) * logits.dim(1),
                logits.dim(1), 0.0f);
  }
  return std::move(gated.scores);
}

// Slots of every token in descending score, equal ones by expert id.
RoutingPlan PlanOf(const Context& context, const std::vector<std::vector<int32_t>>& picks,
                   const std::vector<float>& scores, const ExpertChoiceRoutingOptions& options) {
  const size_t num_experts = picks.size();
  const size_t num_tokens = scores.size() / num_experts;
  std::vector<int64_t> counts(num_tokens, 0);
  for (const std::vector<int32_t>& tokens : picks) {
    for (const int32_t token : tokens) ++counts[static_cast<size_t>(token)];
  }
  const int64_t widest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  const auto top_k = static_cast<size_t>(std::max<int64_t>(widest, 1));
  OPST_CHECK_ARG(num_tokens <= std::numeric_limits<int32_t>::max() / top_k, kOp,
                 "T·k must be below 2^31", num_tokens, " tokens, at most ", top_k, " experts each");
  std::vector<int32_t> ids(num_tokens * top_k, -1);
  std::fill(counts.begin(), counts.end(), 0);
  for (size_t expert = 0; expert < num_experts; ++expert) {
    for (const int32_t token : picks[expert]) {
      const auto index = static_cast<size_t>(token);
      ids[index * top_k + static_cast<size_t>(counts[index]++)] = static_cast<int32_t>(expert);
    }
  }
  std::vector<float> weights(ids.size(), 0.0f);
  for (size_t token = 0; token < num_tokens; ++token) {
    const float* row = scores.data() + token * num_experts;
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(token * top_k);
    std::stable_sort(first, first + counts[token], [&](int32_t a, int32_t b) {
      return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
    });
    float sum = 0;
    for (int64_t j = 0; j < counts[token]; ++j) sum += row[static_cast<size_t>(first[j])];
    const float divisor = options.renormalizes ? sum : 1.0f;  // scores of picks are above 0
    for (int64_t j = 0; j < counts[token]; ++j) {
      weights[token * top_k + static_cast<size_t>(j)] =
          row[static_cast<size_t>(first[j])] / divisor;
    }
  }
  return BuildRoutingPlan(context, std::move(ids), std::move(weights), static_cast<int64_t>(top_k),
                          static_cast<int64_t>(num_experts));
}

}  // namespace

RoutingPlan RouteByExpertChoice(const Context& context, ConstTensorView logits,
                                const ExpertChoiceRoutingOptions& options) {
  CheckRequest(logits, options);
  int64_t num_empty_rows = 0;
  const std::vector<uint8_t> is_left_out = LeftOut(logits, options.is_padding, num_empty_rows);
  const std::vector<float> scores = ScoreTokens(context, logits, is_left_out);
  std::vector<std::vector<int32_t>> picks(static_cast<size_t>(logits.dim(1)));
  const ExpertChoiceRequest request{scores, Capacity(logits, options), &picks};
  Dispatch<ExpertChoiceRequest>(context, kOp, kImplementations, request);
  RoutingPlan plan = PlanOf(context, picks, scores, options);
  plan.num_empty_rows = num_empty_rows;
  if (num_empty_rows > 0) {
    context.log().WriteOnce(LogLevel::kWarning, "expert_choice.empty_rows", "[expert_choice] ",
                            num_empty_rows, " of ", logits.dim(0),
                            " token(s) have no usable router logit (all NaN or masked); no expert"
                            " takes them");
  }
  return plan;
}

}  // namespace opst
