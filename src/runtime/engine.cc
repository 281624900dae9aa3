// Wires model, tokenizer and sampler into text generation, for one prompt or several at once.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/stopwatch.h"
#include "runtime/end_tokens.h"
#include "runtime/text_run.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "generate";

void WarnOfLength(const Context& context, const ModelConfig& config, int64_t length) {
  if (length <= config.max_positions) return;
  context.log().WriteOnce(LogLevel::kWarning, "engine.context", "[generate] ", length,
                          " tokens are more than the ", config.max_positions,
                          " the model was trained for; the text may degrade");
}

bool IsCancelled(const GenerateOptions& options) {
  return options.is_cancelled && options.is_cancelled();
}

}  // namespace

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEndToken:
      return "end token";
    case StopReason::kStopString:
      return "stop string";
    case StopReason::kMaxNewTokens:
      return "max new tokens";
    case StopReason::kContextLength:
      return "context length";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return {};
}

PromptCache::PromptCache(const Model& model, int64_t capacity)
    : sequence_(model.NewSequence(capacity)) {}

// A text with the keys and values of its tokens, its own or a caller's.
struct Engine::Run {
  TextRun text;
  const GenerateOptions* options;
  std::optional<Sequence> own_sequence;

  Sequence& sequence() { return own_sequence ? *own_sequence : options->cache->sequence_; }

  // Tokens of the prompt that the cache holds already; forgets everything else in it. Keys that
  // were rotated for a text of another length are of no use.
  size_t ReuseCache(const AttentionRecipe& attention) {
    if (options->cache == nullptr) return 0;
    if (attention.rope.depends_on_length()) options->cache->tokens_.clear();
    std::vector<int32_t>& cached = options->cache->tokens_;
    const std::vector<int32_t>& prompt = text.prompt();
    const auto last = prompt.end() - 1;  // its logits are needed
    const auto common = std::mismatch(cached.begin(), cached.end(), prompt.begin(), last).first;
    cached.erase(common, cached.end());
    sequence().Truncate(static_cast<int64_t>(cached.size()));
    text.result().num_cached_tokens = static_cast<int64_t>(cached.size());
    return cached.size();
  }
  void Remember(std::span<const int32_t> tokens) {
    if (options->cache == nullptr) return;
    options->cache->tokens_.insert(options->cache->tokens_.end(), tokens.begin(), tokens.end());
  }
};

Engine::Engine(Model model, Tokenizer tokenizer, std::vector<int32_t> end_tokens)
    : model_(std::move(model)),
      tokenizer_(std::move(tokenizer)),
      end_tokens_(std::move(end_tokens)) {}

Engine Engine::Load(const Context& context, const std::string& path) {
  return NamingOutOfMemory(path, [&] {
    Model model = Model::Load(context, path);
    const auto json = model.TextFile("tokenizer.json");
    OPST_CHECK_IO(json.has_value(), path, "a model that generates text must carry tokenizer.json",
                  "none; the source folder had none when it was converted");
    Tokenizer tokenizer = Tokenizer::FromJson(*json, Concat(path, ":tokenizer.json"));
    OPST_CHECK_IO(tokenizer.vocab_size() <= model.config().vocab_size, path,
                  "the tokenizer must not have more tokens than the model", tokenizer.vocab_size(),
                  " for a vocabulary of ", model.config().vocab_size);
    std::vector<int32_t> end_tokens = EndTokens(model, tokenizer);
    return Engine(std::move(model), std::move(tokenizer), std::move(end_tokens));
  });
}

ChatTemplate Engine::LoadChatTemplate() const {
  auto found = ChatTemplate::Find([this](std::string_view name) { return model_.TextFile(name); });
  OPST_CHECK_IO(found.has_value(), "chat",
                "the model must carry a chat template in chat_template.jinja, "
                "tokenizer_config.json or chat_template.json",
                "none; `opst generate` continues plain text without one");
  return *std::move(found);
}

Engine::Run Engine::Start(const Context& context, std::span<const int32_t> prompt,
                          const GenerateOptions& options, OnText on_text) const {
  Run run{TextRun(*this, prompt, options, std::move(on_text)), &options, {}};
  WarnOfLength(context, model_.config(), run.text.capacity());
  if (options.cache == nullptr) run.own_sequence = model_.NewSequence(run.text.capacity());
  return run;
}

void Engine::Prefill(const Context& context, Run& run) const {
  const GenerateOptions& options = *run.options;
  const ForwardOptions forward{.experts = options.experts, .on_routing = options.on_routing};
  const std::span<const int32_t> prompt = run.text.prompt();
  std::vector<float> logits(static_cast<size_t>(model_.config().vocab_size));
  const TensorView last(logits.data(), Shape{1, model_.config().vocab_size});
  const Stopwatch stopwatch;
  size_t begin = run.ReuseCache(model_.config().attention);
  run.sequence().ExpectLength(static_cast<int64_t>(prompt.size()));
  while (begin < prompt.size()) {
    if (IsCancelled(options)) return run.text.Cancel();
    const auto part = prompt.subspan(
        begin, std::min(static_cast<size_t>(options.prefill_chunk), prompt.size() - begin));
    model_.Forward(context, part, run.sequence(), last, forward);
    run.Remember(part);
    begin += part.size();
    if (options.on_prefill) {
      options.on_prefill(static_cast<int64_t>(begin), static_cast<int64_t>(prompt.size()));
    }
  }
  run.text.result().prefill_seconds = stopwatch.elapsed_us() * 1e-6;
  run.text.Accept(logits);
}

void Engine::Decode(const Context& context, std::span<Run> runs,
                    const GenerateOptions& options) const {
  const ForwardOptions forward{.experts = options.experts, .on_routing = options.on_routing};
  const auto vocabulary = static_cast<size_t>(model_.config().vocab_size);
  std::vector<float> logits(runs.size() * vocabulary);
  const Stopwatch stopwatch;
  while (true) {
    std::vector<Run*> going;
    std::vector<int32_t> tokens;
    std::vector<BatchEntry> entries;
    for (Run& run : runs) {
      if (run.text.is_done()) continue;
      going.push_back(&run);
      tokens.push_back(run.text.last_token());
    }
    if (going.empty()) return;
    if (IsCancelled(options)) {
      for (Run* run : going) run->text.Cancel();
      return;
    }
    for (size_t i = 0; i < going.size(); ++i) {
      entries.push_back({std::span(&tokens[i], 1), &going[i]->sequence()});
    }
    const Shape shape{static_cast<int64_t>(going.size()), model_.config().vocab_size};
    model_.ForwardBatch(context, entries, TensorView(logits.data(), shape), forward);
    for (size_t i = 0; i < going.size(); ++i) {
      going[i]->Remember(entries[i].tokens);
      going[i]->text.Accept(std::span(logits).subspan(i * vocabulary, vocabulary));
      going[i]->text.result().decode_seconds = stopwatch.elapsed_us() * 1e-6;
    }
  }
}

GenerateResult Engine::Generate(const Context& context, std::string_view prompt,
                                const GenerateOptions& options) const {
  return NamingOutOfMemory(
      kWhere, [&] { return GenerateFromTokens(context, tokenizer_.Encode(prompt), options); });
}

GenerateResult Engine::GenerateFromTokens(const Context& context, std::span<const int32_t> prompt,
                                          const GenerateOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] {
    Run run = Start(context, prompt, options, options.on_text);
    Prefill(context, run);
    Decode(context, std::span(&run, 1), options);
    return std::move(run.text.result());
  });
}

std::vector<GenerateResult> Engine::GenerateBatch(const Context& context,
                                                  std::span<const std::string> prompts,
                                                  const GenerateOptions& options,
                                                  const OnBatchText& on_text) const {
  return NamingOutOfMemory(kWhere, [&] {
    OPST_CHECK_ARG(options.cache == nullptr && !options.on_text, kWhere,
                   "a batch must have no cache, and text by its own callback",
                   "GenerateOptions::cache or on_text");
    std::vector<Run> runs;
    for (size_t i = 0; i < prompts.size(); ++i) {
      OnText with_index;
      if (on_text) with_index = [&on_text, i](std::string_view text) { return on_text(i, text); };
      runs.push_back(Start(context, tokenizer_.Encode(prompts[i]), options, std::move(with_index)));
    }
    for (Run& run : runs) Prefill(context, run);
    Decode(context, runs, options);
    std::vector<GenerateResult> results;
    for (Run& run : runs) results.push_back(std::move(run.text.result()));
    return results;
  });
}

}  // namespace opst
