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
#include <utility>
#include <vector>

#include "opst/chat_template.h"
#include "opst/context.h"
#include "opst/model.h"
#include "opst/sampling.h"
#include "opst/tokenizer.h"

namespace opst {

// Keys and values of a text that goes on, e.g. a conversation: the next call computes only the
// tokens behind the longest common beginning. Never changes a result. Threads: used by one call at
// a time.
class PromptCache {
 public:
  // Room for `capacity` tokens, prompt and answer together. Errors: as Model::NewSequence.
  PromptCache(const Model& model, int64_t capacity);

  int64_t capacity() const { return sequence_.capacity(); }
  // The tokens whose keys and values are there.
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  friend class Engine;
  Sequence sequence_;
  std::vector<int32_t> tokens_;
};

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  SamplingOptions sampling = {};
  // A text that contains one of these ends before it. Found across tokens, too; text is held back
  // while it may become one.
  std::vector<std::string> stop_strings = {};
  // Whether end tokens are ordinary ones, e.g. to measure speed.
  bool ignores_end_tokens = false;
  // false: the text goes on behind the prompt's, so prompt + text is what all tokens decode to.
  // true: it is a text of its own, e.g. an answer; a decoder that drops a space in front of texts
  // drops its space.
  bool begins_text = false;
  // Tokens of prompt and answer at most; 0 = no limit but a warning beyond the trained context.
  int64_t context_length = 0;
  // None: not computed. n: the log-probability of each new token and of the n most likely ones.
  std::optional<int64_t> num_log_probs = {};
  // Prompt tokens per forward pass; bounds memory, never changes the result.
  int64_t prefill_chunk = 512;
  ExpertChoice experts = {};
  // Of the same model, and filled with the same choice of experts.
  PromptCache* cache = nullptr;
  // Whole UTF-8 as soon as it is certain; false = stop here.
  std::function<bool(std::string_view text)> on_text = {};
  // Asked before every forward pass; true = stop here.
  std::function<bool()> is_cancelled = {};
  // Prompt tokens done, and all of them.
  std::function<void(int64_t done, int64_t total)> on_prefill = {};
  // As ForwardOptions::on_routing, for prompt and new tokens alike.
  std::function<void(int64_t layer, const RoutingPlan& plan)> on_routing = {};
};

enum class StopReason { kEndToken, kStopString, kMaxNewTokens, kContextLength, kCancelled };
// "end token", "stop string", "max new tokens", "context length", "cancelled"
std::string_view StopReasonName(StopReason reason);

// ln softmax(logits) of the model itself: before bias, penalties and temperature.
struct TokenLogProb {
  int32_t token = 0;
  double log_prob = 0;
  std::vector<std::pair<int32_t, double>> most_likely = {};  // descending, ties by id
};

struct GenerateResult {
  std::string text;  // of the new tokens, without end token and stop string
  std::vector<int32_t> prompt_tokens;
  std::vector<int32_t> new_tokens;      // the end token included
  std::vector<TokenLogProb> log_probs;  // of new_tokens, with num_log_probs
  StopReason stop_reason = StopReason::kMaxNewTokens;
  std::string stop_string;        // the one that was found
  int64_t num_cached_tokens = 0;  // of the prompt: not computed again
  double prefill_seconds = 0;
  double decode_seconds = 0;  // of all new tokens but the first, which prefill gives
};

struct PerplexityOptions {
  int64_t window = 256;  // tokens; the first of each window is given, the others are predicted
  // In front of every window and part of its length, given and not predicted: what the tokenizer
  // puts in front of a text (Tokenizer::prefix_ids), if the model has seen all texts begin so.
  std::vector<int32_t> begin_tokens = {};
  // true: one token per forward pass, as generation decodes; false: whole windows, as prompts are
  // read. The same result either way.
  bool decodes = false;
  int64_t batch_size = 1;  // windows side by side when decoding
  ExpertChoice experts = {};
};

struct PerplexityResult {
  double perplexity = 0;  // e^nll
  double nll = 0;         // mean -ln p of a predicted token
  int64_t num_windows = 0;
  int64_t num_predicted = 0;
  double experts_per_token = 0;  // rows of routed experts, mean over tokens and MoE layers
};

// Threads: const methods may be called from several threads, each with a cache of its own; a call
// spreads over the workers of its context, and calls its callbacks from the calling thread.
class Engine {
 public:
  // Loads a packed file with its tokenizer. Errors: as Model::Load; kIo when the file carries no
  // tokenizer or one that is refused, has more tokens than the model, or when what it says about
  // end tokens cannot be read.
  static Engine Load(const Context& context, const std::string& path);

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Every token that ends a text: of config.json, generation_config.json and the tokenizer's files.
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

  // The template of the checkpoint. Throws kIo when it has none, or one that cannot be parsed;
  // plain continuation works without.
  ChatTemplate LoadChatTemplate() const;

  // Continues `prompt`. Errors: kInvalidArgument for an empty prompt of a tokenizer that adds no
  // token of its own, options out of range, a prompt that fills the context length or the cache,
  // and logits that leave no token to draw; kOutOfMemory for keys and values that do not fit; as
  // Tokenizer::Encode; and what a callback throws. A text longer than the trained context is warned
  // about.
  GenerateResult Generate(const Context& context, std::string_view prompt,
                          const GenerateOptions& options = {}) const;
  // The same for a prompt of tokens, to which nothing is added.
  GenerateResult GenerateFromTokens(const Context& context, std::span<const int32_t> prompt,
                                    const GenerateOptions& options = {}) const;

  // Continues several prompts at once; each gets the answer that it gets alone, bit for bit.
  // `options` hold for each of them; on_text and cache must be empty. No prompts give no results.
  // Errors: as Generate, before any text appears; kInvalidArgument for a cache or on_text.
  using OnBatchText = std::function<bool(size_t prompt, std::string_view text)>;
  std::vector<GenerateResult> GenerateBatch(const Context& context,
                                            std::span<const std::string> prompts,
                                            const GenerateOptions& options = {},
                                            const OnBatchText& on_text = {}) const;

  // Cuts `tokens` into windows that do not overlap, drops the last incomplete one, and evaluates
  // each on its own. Errors: kInvalidArgument for a window below 2 or without room for a token
  // behind begin_tokens, fewer tokens than one window, a batch size below 1, and as Model::Forward;
  // kIo when the model's logits are NaN; kOutOfMemory.
  PerplexityResult Perplexity(const Context& context, std::span<const int32_t> tokens,
                              const PerplexityOptions& options = {}) const;

 private:
  struct Run;
  Engine(Model model, Tokenizer tokenizer, std::vector<int32_t> end_tokens);
  Run Start(const Context& context, std::span<const int32_t> prompt, const GenerateOptions& options,
            std::function<bool(std::string_view text)> on_text) const;
  void Prefill(const Context& context, Run& run) const;
  void Decode(const Context& context, std::span<Run> runs, const GenerateOptions& options) const;

  Model model_;
  Tokenizer tokenizer_;
  std::vector<int32_t> end_tokens_;
};

}  // namespace opst

#endif  // OPST_ENGINE_H_
