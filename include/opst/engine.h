// Engine: a model and its tokenizer, ready to generate text. The model's arithmetic is in model.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_ENGINE_H_
#define OPST_ENGINE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opst/context.h"
#include "opst/model.h"
#include "opst/tokenizer.h"

namespace opst {

// How the next token is drawn from logits: temperature, then top-k, then top-p, then one draw.
struct SamplingOptions {
  float temperature = 0;  // 0 = greedy: the highest logit, ties to the lower id
  int64_t top_k = 0;      // keep the k most likely tokens; 0 = all
  float top_p = 1;        // keep the fewest tokens whose probabilities reach p
  uint64_t seed = 0;      // the same seed gives the same text, for any number of threads
};

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling = {};
  // Prompt tokens per forward pass; bounds memory, never changes the result.
  int64_t prefill_chunk = 512;
  // Whole UTF-8 as soon as it is certain; false = stop here.
  std::function<bool(std::string_view text)> on_text = {};
  // Prompt tokens done, and all of them.
  std::function<void(int64_t done, int64_t total)> on_prefill = {};
  // As ForwardOptions::on_routing, for prompt and new tokens alike.
  std::function<void(int64_t layer, const RoutingPlan& plan)> on_routing = {};
};

enum class StopReason { kEndToken, kMaxNewTokens, kCancelled };

struct GenerateResult {
  std::string text;  // of the new tokens, without the end token
  std::vector<int32_t> prompt_tokens;
  std::vector<int32_t> new_tokens;  // the end token included
  StopReason stop_reason = StopReason::kMaxNewTokens;
  double prefill_seconds = 0;
  double decode_seconds = 0;  // of all new tokens but the first, which prefill gives
};

struct PerplexityResult {
  double perplexity = 0;  // e^nll
  double nll = 0;         // mean -ln p of a predicted token
  int64_t num_windows = 0;
  int64_t num_predicted = 0;
};

// Thread safety: const methods may be called from several threads.
class Engine {
 public:
  // Loads a packed file with its tokenizer. Throws kIo, also when the file carries no tokenizer.
  static Engine Load(const Context& context, const std::string& path);

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Every token that ends a text: of config.json and of generation_config.json.
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

  // Continues `prompt`. Errors (kInvalidArgument): an empty prompt for a tokenizer that adds no
  // token of its own, options out of range. A text longer than the trained context is warned about.
  GenerateResult Generate(const Context& context, std::string_view prompt,
                          const GenerateOptions& options = {}) const;

  // Cuts `tokens` into windows that do not overlap, drops the last incomplete one, and evaluates
  // each on its own: the first token of a window is given, the others are predicted.
  // Errors (kInvalidArgument): a window below 2, fewer tokens than one window.
  PerplexityResult Perplexity(const Context& context, std::span<const int32_t> tokens,
                              int64_t window) const;

 private:
  Engine(Model model, Tokenizer tokenizer, std::vector<int32_t> end_tokens);

  Model model_;
  Tokenizer tokenizer_;
  std::vector<int32_t> end_tokens_;
};

}  // namespace opst

#endif  // OPST_ENGINE_H_
