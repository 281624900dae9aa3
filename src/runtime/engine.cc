// Wires model, tokenizer and sampler into text generation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "model/config_reader.h"
#include "runtime/sampler.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "generate";

std::vector<int32_t> EndTokens(const Model& model) {
  const int64_t last = model.config().vocab_size - 1;
  std::vector<int64_t> tokens = model.config().end_tokens;
  if (const auto json = model.TextFile("generation_config.json")) {
    ConfigReader config(*json, "generation_config.json");
    const auto more = config.IntegerOrList("eos_token_id", 0, last);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return {tokens.begin(), tokens.end()};
}

// Logits of the last token of `prompt`, fed in chunks.
void Prefill(const Context& context, const Model& model, std::span<const int32_t> prompt,
             const GenerateOptions& options, Sequence& sequence, TensorView logits) {
  const ForwardOptions forward{.on_routing = options.on_routing};
  const auto chunk = static_cast<size_t>(options.prefill_chunk);
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    const size_t count = std::min(chunk, prompt.size() - begin);
    model.Forward(context, prompt.subspan(begin, count), sequence, logits, forward);
    if (options.on_prefill) {
      options.on_prefill(static_cast<int64_t>(begin + count), static_cast<int64_t>(prompt.size()));
    }
  }
}

void CheckLength(const Context& context, const ModelConfig& config, int64_t length) {
  if (length <= config.max_positions) return;
  context.log().WriteOnce(LogLevel::kWarning, "engine.context", "[generate] ", length,
                          " tokens are more than the ", config.max_positions,
                          " the model was trained for; the text may degrade");
}

// -ln softmax(logits)[token], in f64.
double NegativeLogLikelihood(std::span<const float> logits, int32_t token) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return std::log(sum) + max - static_cast<double>(logits[static_cast<size_t>(token)]);
}

}  // namespace

Engine::Engine(Model model, Tokenizer tokenizer, std::vector<int32_t> end_tokens)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      end_tokens_(std::move(end_tokens)) {}

Engine Engine::Load(const Context& context, const std::string& path) {
  Model model = Model::Load(context, path);
  const auto json = model.TextFile("tokenizer.json");
  OPST_CHECK_IO(json.has_value(), path, "a model that generates text must carry tokenizer.json",
                "none; the source folder had none when it was converted");
  Tokenizer tokenizer = Tokenizer::FromJson(*json, Concat(path, ":tokenizer.json"));
  OPST_CHECK_IO(tokenizer.vocab_size() <= model.config().vocab_size, path,
                "the tokenizer must not have more tokens than the model", tokenizer.vocab_size(),
                " for a vocabulary of ", model.config().vocab_size);
  std::vector<int32_t> end_tokens = EndTokens(model);
  return Engine(std::move(model), std::move(tokenizer), std::move(end_tokens));
}

GenerateResult Engine::Generate(const Context& context, std::string_view prompt,
                                const GenerateOptions& options) const {
  OPST_CHECK_ARG(options.max_new_tokens >= 1, kWhere, "max_new_tokens must be at least 1",
                 options.max_new_tokens);
  OPST_CHECK_ARG(options.prefill_chunk >= 1, kWhere, "prefill_chunk must be at least 1",
                 options.prefill_chunk);
  Sampler sampler(options.sampling);
  GenerateResult result;
  result.prompt_tokens = tokenizer_.Encode(prompt);
  OPST_CHECK_ARG(!result.prompt_tokens.empty(), kWhere, "the prompt must have at least one token",
                 "an empty text");
  const int64_t capacity =
      static_cast<int64_t>(result.prompt_tokens.size()) + options.max_new_tokens;
  CheckLength(context, model_.config(), capacity);
  Sequence sequence = model_.NewSequence(capacity);
  sequence.ExpectLength(static_cast<int64_t>(result.prompt_tokens.size()));
  std::vector<float> logits(static_cast<size_t>(model_.config().vocab_size));
  const TensorView last(logits.data(), Shape{1, model_.config().vocab_size});
  StreamDecoder decoder(tokenizer_);
  const auto emit = [&](const std::string& text) {
    result.text += text;
    return text.empty() || !options.on_text || options.on_text(text);
  };
  Stopwatch stopwatch;
  Prefill(context, model_, result.prompt_tokens, options, sequence, last);
  result.prefill_seconds = stopwatch.RestartUs() * 1e-6;
  const ForwardOptions forward{.on_routing = options.on_routing};
  while (true) {
    const int32_t token = sampler.Next(logits);
    result.new_tokens.push_back(token);
    if (std::binary_search(end_tokens_.begin(), end_tokens_.end(), token)) {
      result.stop_reason = StopReason::kEndToken;
      break;
    }
    if (!emit(decoder.Push(token))) {
      result.stop_reason = StopReason::kCancelled;
      break;
    }
    if (static_cast<int64_t>(result.new_tokens.size()) == options.max_new_tokens) break;
    model_.Forward(context, std::span(&token, 1), sequence, last, forward);
  }
  result.decode_seconds = stopwatch.elapsed_us() * 1e-6;
  if (result.stop_reason != StopReason::kCancelled) emit(decoder.Flush());
  return result;
}

PerplexityResult Engine::Perplexity(const Context& context, std::span<const int32_t> tokens,
                                    int64_t window) const {
  OPST_CHECK_ARG(window >= 2, "perplexity", "a window must have at least two tokens", window);
  const int64_t num_windows = static_cast<int64_t>(tokens.size()) / window;
  OPST_CHECK_ARG(num_windows >= 1, "perplexity", "the text must fill at least one window",
                 tokens.size(), " tokens for a window of ", window);
  const int64_t vocabulary = model_.config().vocab_size;
  CheckLength(context, model_.config(), window);
  Sequence sequence = model_.NewSequence(window);
  std::vector<float> logits(static_cast<size_t>(window * vocabulary));
  double sum = 0;
  for (int64_t index = 0; index < num_windows; ++index) {
    const auto part =
        tokens.subspan(static_cast<size_t>(index * window), static_cast<size_t>(window));
    sequence.Clear();
    sequence.ExpectLength(window);
    model_.Forward(context, part, sequence, TensorView(logits.data(), Shape{window, vocabulary}));
    for (size_t i = 0; i + 1 < part.size(); ++i) {
      const std::span row = std::span(logits).subspan(i * static_cast<size_t>(vocabulary),
                                                      static_cast<size_t>(vocabulary));
      sum += NegativeLogLikelihood(row, part[i + 1]);
    }
  }
  PerplexityResult result;
  result.num_windows = num_windows;
  result.num_predicted = num_windows * (window - 1);
  result.nll = sum / static_cast<double>(result.num_predicted);
  result.perplexity = std::exp(result.nll);
  return result;
}

}  // namespace opst
