// Checks options against the prompt, and turns tokens into text until something ends it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "generate";

void CheckOptions(const GenerateOptions& options, std::span<const int32_t> prompt) {
  OPST_CHECK_ARG(options.max_new_tokens >= 1, kWhere, "max_new_tokens must be at least 1",
                 options.max_new_tokens);
  OPST_CHECK_ARG(options.prefill_chunk >= 1, kWhere, "prefill_chunk must be at least 1",
                 options.prefill_chunk);
  OPST_CHECK_ARG(options.context_length >= 0, kWhere, "context_length must not be negative",
                 options.context_length);
  OPST_CHECK_ARG(options.num_log_probs.value_or(0) >= 0, kWhere,
                 "the number of log-probabilities must not be negative", *options.num_log_probs);
  OPST_CHECK_ARG(!prompt.empty(), kWhere, "the prompt must have at least one token",
                 "an empty text");
}

}  // namespace

TextRun::TextRun(const Engine& engine, std::span<const int32_t> prompt,
                 const GenerateOptions& options, OnText on_text)
    : options_(options),
      end_tokens_(engine.end_tokens()),
      on_text_(std::move(on_text)),
      sampler_(options.sampling, engine.model().config().vocab_size),
      decoder_(options.begins_text ? StreamDecoder(engine.tokenizer())
                                   : StreamDecoder(engine.tokenizer(), prompt)),
      stop_(options.stop_strings) {
  CheckOptions(options, prompt);
  engine.model().CheckExperts(options.experts);
  const auto num_prompt = static_cast<int64_t>(prompt.size());
  capacity_ = options.max_new_tokens > INT64_MAX - num_prompt ? INT64_MAX
                                                              : num_prompt + options.max_new_tokens;
  int64_t limit = options.context_length > 0 ? options.context_length : INT64_MAX;
  if (options.cache != nullptr) limit = std::min(limit, options.cache->capacity());
  OPST_CHECK_ARG(num_prompt < limit, kWhere,
                 "the prompt must leave room for a token in the context length", num_prompt,
                 " tokens for a context length of ", limit);
  if (capacity_ > limit) {
    capacity_ = limit;
    limit_ = StopReason::kContextLength;
  }
  result_.prompt_tokens.assign(prompt.begin(), prompt.end());
  sampler_.SetPrompt(prompt);
}

bool TextRun::Emit(std::string_view text) {
  result_.text += text;
  return text.empty() || !on_text_ || on_text_(text);
}

void TextRun::Accept(std::span<float> logits) {
  CheckNumbers(logits, kWhere);
  std::vector<float> untouched;
  if (options_.num_log_probs) untouched.assign(logits.begin(), logits.end());
  const int32_t token = sampler_.Next(logits);
  result_.new_tokens.push_back(token);
  if (options_.num_log_probs) {
    result_.log_probs.push_back(LogProbOf(untouched, *options_.num_log_probs, token));
  }
  if (!options_.ignores_end_tokens &&
      std::binary_search(end_tokens_.begin(), end_tokens_.end(), token)) {
    return Finish(StopReason::kEndToken);
  }
  if (!Emit(stop_.Push(decoder_.Push(token)))) return Finish(StopReason::kCancelled);
  if (stop_.found()) return Finish(StopReason::kStopString);
  if (static_cast<int64_t>(result_.prompt_tokens.size() + result_.new_tokens.size()) >= capacity_) {
    Finish(limit_);
  }
}

void TextRun::Finish(StopReason reason) {
  is_done_ = true;
  result_.stop_reason = reason;
  if (reason != StopReason::kCancelled && reason != StopReason::kStopString) {
    Emit(stop_.Push(decoder_.Flush()));
    if (!stop_.found()) Emit(stop_.Flush());
  }
  if (!stop_.found()) return;
  result_.stop_reason = StopReason::kStopString;
  result_.stop_string = *stop_.found();
}

void CheckNumbers(std::span<const float> logits, std::string_view where) {
  const auto found =
      std::find_if(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  OPST_CHECK_IO(found == logits.end(), where, "the model's logits must be numbers",
                "NaN for token ", found - logits.begin(), "; are the weights damaged?");
}

TokenLogProb LogProbOf(std::span<const float> logits, int64_t count, int32_t token) {
  float max = -INFINITY;
  for (const float logit : logits) max = logit > max ? logit : max;
  double sum = 0;
  for (const float logit : logits) {
    if (std::isinf(max)) {
      sum += logit == max ? 1 : 0;
    } else if (logit > -INFINITY) {
      sum += std::exp(static_cast<double>(logit) - static_cast<double>(max));
    }
  }
  const auto log_prob = [&](int32_t id) {
    const float logit = logits[static_cast<size_t>(id)];
    if (std::isinf(max)) return logit == max ? -std::log(sum) : -static_cast<double>(INFINITY);
    return static_cast<double>(logit) - (std::log(sum) + static_cast<double>(max));
  };
  TokenLogProb result{token, log_prob(token), {}};
  if (count == 0) return result;
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::erase_if(order, [&](int32_t id) { return std::isnan(logits[static_cast<size_t>(id)]); });
  const auto kept =
      order.begin() + std::min<std::ptrdiff_t>(count, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), kept, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (auto id = order.begin(); id != kept; ++id) {
    result.most_likely.emplace_back(*id, log_prob(*id));
  }
  return result;
}

}  // namespace opst
