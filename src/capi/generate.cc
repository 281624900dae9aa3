// Generation of text, for one prompt or several, and what can be asked of its result.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "capi/conversions.h"

namespace opst::capi {
namespace {

using OnText = std::function<bool(size_t prompt, std::string_view text)>;

SamplingOptions ToSampling(const Call& call, const opst_sampling_options* given) {
  const auto options =
      call.Options(given, opst_sampling_options OPST_SAMPLING_OPTIONS_DEFAULT, "sampling");
  SamplingOptions result{.temperature = options.temperature,
                         .top_k = options.top_k,
                         .top_p = options.top_p,
                         .min_p = options.min_p,
                         .repetition_penalty = options.repetition_penalty,
                         .presence_penalty = options.presence_penalty,
                         .frequency_penalty = options.frequency_penalty,
                         .seed = options.seed};
  for (const opst_logit_bias& entry :
       call.Array(options.logit_bias, options.num_logit_bias, "logit_bias")) {
    result.logit_bias.push_back({entry.token, entry.bias});
  }
  return result;
}

// Everything but on_text, which one prompt and several take differently.
GenerateOptions ToCpp(const Call& call, const opst_context* context, const opst_engine* engine,
                      const opst_generate_options& options) {
  GenerateOptions result{
      .max_new_tokens = options.max_new_tokens,
      .sampling = ToSampling(call, options.sampling),
      .ignores_end_tokens = call.Claim(options.ignores_end_tokens, "ignores_end_tokens"),
      .context_length = options.context_length,
      .prefill_chunk = options.prefill_chunk,
      .experts = ToExpertChoice(call, options.experts),
      .is_cancelled = [context] { return context->is_cancelled.load(); },
      .on_routing = ToOnRouting(context, options.on_routing, options.user)};
  for (const char* text :
       call.Array(options.stop_strings, options.num_stop_strings, "stop_strings")) {
    result.stop_strings.emplace_back(call.Text(text, "stop_strings"));
  }
  if (options.num_log_probs != -1) result.num_log_probs = options.num_log_probs;
  if (options.cache != nullptr) {
    OPST_CHECK_CALL(call, options.cache->engine.get() == call.Get(engine, "engine").get(), "cache",
                    "must be one of this engine", "one of another");
    result.cache = &options.cache->value;
  }
  if (options.on_prefill != nullptr) {
    result.on_prefill = [on_prefill = options.on_prefill, user = options.user](
                            int64_t done, int64_t total) { on_prefill(user, done, total); };
  }
  return result;
}

OnText ToOnText(const opst_generate_options& options) {
  if (options.on_text == nullptr) return {};
  return [on_text = options.on_text, user = options.user](size_t prompt, std::string_view text) {
    const std::string ended(text);
    return on_text(user, static_cast<int64_t>(prompt), ended.c_str(), ended.size()) == OPST_GO_ON;
  };
}

// A text that ends because its context was cancelled is no result.
GenerateResult IfNotCancelled(const opst_context* context, GenerateResult result) {
  if (context->is_cancelled && result.stop_reason == StopReason::kCancelled) throw Cancelled();
  return result;
}

// Shared by the two forms of one prompt; generate(engine, context, options) continues it.
template <typename Generate>
opst_status GenerateOne(const char* function, const opst_context* context,
                        const opst_engine* engine, const opst_generate_options* options,
                        opst_generation** generation, const Generate& generate) {
  return Make(function, generation, [&](const Call& call) {
    const Context& workers = Use(call, context);
    const auto given = call.Options(options, opst_generate_options OPST_GENERATE_OPTIONS_DEFAULT);
    GenerateOptions cpp = ToCpp(call, context, engine, given);
    if (const OnText on_text = ToOnText(given)) {
      cpp.on_text = [on_text](std::string_view text) { return on_text(0, text); };
    }
    const Engine& value = *call.Get(engine, "engine");
    call.Create(generation, IfNotCancelled(context, generate(call, value, workers, cpp)));
  });
}

}  // namespace
}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::GenerateOne;
using opst::capi::Run;

opst_status opst_engine_generate(const opst_context* context, const opst_engine* engine,
                                 const char* prompt, const opst_generate_options* options,
                                 opst_generation** generation) {
  return GenerateOne(__func__, context, engine, options, generation,
                     [&](const Call& call, const opst::Engine& value, const opst::Context& workers,
                         const opst::GenerateOptions& cpp) {
                       return value.Generate(workers, call.Text(prompt, "prompt"), cpp);
                     });
}

opst_status opst_engine_generate_from_tokens(const opst_context* context, const opst_engine* engine,
                                             const opst_view* prompt,
                                             const opst_generate_options* options,
                                             opst_generation** generation) {
  return GenerateOne(__func__, context, engine, options, generation,
                     [&](const Call& call, const opst::Engine& value, const opst::Context& workers,
                         const opst::GenerateOptions& cpp) {
                       return value.GenerateFromTokens(workers,
                                                       call.Values<int32_t>(prompt, "prompt"), cpp);
                     });
}

opst_status opst_engine_generate_batch(const opst_context* context, const opst_engine* engine,
                                       const char* const* prompts, int64_t num_prompts,
                                       const opst_generate_options* options,
                                       opst_generation** generations) {
  return Run(__func__, [&](const Call& call) {
    const opst::Context& workers = Use(call, context);
    const auto given = call.Options(options, opst_generate_options OPST_GENERATE_OPTIONS_DEFAULT);
    std::vector<std::string> texts;
    for (const char* prompt : call.Array(prompts, num_prompts, "prompts")) {
      texts.emplace_back(call.Text(prompt, "prompts"));
    }
    call.CheckNotNull(generations, "generations");
    std::fill_n(generations, texts.size(), nullptr);
    auto results =
        call.Get(engine, "engine")
            ->GenerateBatch(workers, texts, opst::capi::ToCpp(call, context, engine, given),
                            opst::capi::ToOnText(given));
    std::vector<std::unique_ptr<opst_generation>> handles;
    for (opst::GenerateResult& result : results) {
      handles.emplace_back(
          new opst_generation{opst::capi::IfNotCancelled(context, std::move(result))});
    }
    for (size_t i = 0; i < handles.size(); ++i) generations[i] = handles[i].release();
  });
}

opst_status opst_generation_destroy(opst_generation* generation) {
  return opst::capi::Destroy(__func__, generation);
}

opst_status opst_generation_get(const opst_generation* generation, opst_generation_info* info) {
  return Run(__func__, [&](const Call& call) {
    const opst::GenerateResult& value = call.Get(generation, "generation");
    const auto tokens = [](const std::vector<int32_t>& ids) {
      return opst_vector(OPST_I32, ids.data(), static_cast<int64_t>(ids.size()));
    };
    opst_generation_info result = OPST_GENERATION_INFO_DEFAULT;
    result.stop_reason = static_cast<opst_stop_reason>(value.stop_reason);
    result.text = value.text.c_str();
    result.text_length = value.text.size();
    result.stop_string = value.stop_string.c_str();
    result.prompt_tokens = tokens(value.prompt_tokens);
    result.new_tokens = tokens(value.new_tokens);
    result.num_cached_tokens = value.num_cached_tokens;
    result.prefill_seconds = value.prefill_seconds;
    result.decode_seconds = value.decode_seconds;
    call.Fill(info, result, "info");
  });
}

opst_status opst_generation_log_probs(const opst_generation* generation,
                                      const opst_view* log_probs) {
  return Run(__func__, [&](const Call& call) {
    std::vector<double> values;
    for (const opst::TokenLogProb& token : call.Get(generation, "generation").log_probs) {
      values.push_back(token.log_prob);
    }
    call.Copy<double>(values, log_probs, "log_probs");
  });
}

opst_status opst_generation_most_likely(const opst_generation* generation, int64_t index,
                                        const opst_view* tokens, const opst_view* log_probs) {
  return Run(__func__, [&](const Call& call) {
    const auto& all = call.Get(generation, "generation").log_probs;
    OPST_CHECK_CALL(call, index >= 0 && index < static_cast<int64_t>(all.size()), "index",
                    opst::Concat("must be one of ", all.size(), " tokens with log-probabilities"),
                    index);
    std::vector<int32_t> ids;
    std::vector<double> values;
    for (const auto& [id, log_prob] : all[static_cast<size_t>(index)].most_likely) {
      ids.push_back(id);
      values.push_back(log_prob);
    }
    call.Copy<int32_t>(ids, tokens, "tokens");
    call.Copy<double>(values, log_probs, "log_probs");
  });
}
