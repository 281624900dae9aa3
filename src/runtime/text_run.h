// TextRun: one text in the making: its sampler, its decoder, and when it ends. No forward passes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_RUNTIME_TEXT_RUN_H_
#define OPST_RUNTIME_TEXT_RUN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "opst/engine.h"
#include "runtime/sampler.h"
#include "runtime/stop_strings.h"

namespace opst {

using OnText = std::function<bool(std::string_view text)>;

class TextRun {
 public:
  // `engine` and `options` must outlive this. Errors: those of Engine::Generate.
  TextRun(const Engine& engine, std::span<const int32_t> prompt, const GenerateOptions& options,
          OnText on_text);

  const std::vector<int32_t>& prompt() const { return result_.prompt_tokens; }
  // Tokens of prompt and answer at most.
  int64_t capacity() const { return capacity_; }
  bool is_done() const { return is_done_; }
  int32_t last_token() const { return result_.new_tokens.back(); }

  // Takes the logits [V] behind the text so far, draws the next token and emits what is certain.
  void Accept(std::span<float> logits);
  void Cancel() { Finish(StopReason::kCancelled); }

  GenerateResult& result() { return result_; }

 private:
  bool Emit(std::string_view text);
  void Finish(StopReason reason);

  const GenerateOptions& options_;
  std::span<const int32_t> end_tokens_;
  OnText on_text_;
  Sampler sampler_;
  StreamDecoder decoder_;
  StopStrings stop_;
  GenerateResult result_;
  int64_t capacity_ = 0;
  StopReason limit_ = StopReason::kMaxNewTokens;
  bool is_done_ = false;
};

// Throws kIo naming the first token whose logit is NaN: nothing that such a model says has a
// meaning.
void CheckNumbers(std::span<const float> logits, std::string_view where);

// ln softmax(logits) of a token, and of the `count` most likely ones; in f64. Logits of
// +inf share all of the probability equally; NaN has none.
TokenLogProb LogProbOf(std::span<const float> logits, int64_t count, int32_t token);

}  // namespace opst

#endif  // OPST_RUNTIME_TEXT_RUN_H_
