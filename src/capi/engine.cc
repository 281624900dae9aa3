// opst_engine: loading, its parts, chat templates, prompt caches and perplexity. Generation is in
// generate.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/engine.h"

#include "capi/conversions.h"

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Use;

opst_status opst_engine_load(const opst_context* context, const char* path, opst_engine** engine) {
  return Make(__func__, engine, [&](const Call& call) {
    const std::string file(call.Text(path, "path"));
    call.Create(engine,
                std::make_shared<const opst::Engine>(opst::Engine::Load(Use(call, context), file)));
  });
}

opst_status opst_engine_destroy(opst_engine* engine) {
  return opst::capi::Destroy(__func__, engine);
}

opst_status opst_engine_model(const opst_engine* engine, opst_model** model) {
  return Make(__func__, model, [&](const Call& call) {
    const auto& owner = call.Get(engine, "engine");
    call.Create(model, std::shared_ptr<const opst::Model>(owner, &owner->model()));
  });
}

opst_status opst_engine_tokenizer(const opst_engine* engine, opst_tokenizer** tokenizer) {
  return Make(__func__, tokenizer, [&](const Call& call) {
    call.Create(tokenizer, call.Get(engine, "engine")->tokenizer());
  });
}

opst_status opst_engine_end_tokens(const opst_engine* engine, opst_view* tokens) {
  return Make(__func__, tokens, [&](const Call& call) {
    const std::vector<int32_t>& ids = call.Get(engine, "engine")->end_tokens();
    *tokens = opst_vector(OPST_I32, ids.data(), static_cast<int64_t>(ids.size()));
  });
}

opst_status opst_engine_render_chat(const opst_engine* engine, const opst_chat_message* messages,
                                    int64_t num_messages, const opst_chat_options* options,
                                    char** text) {
  return Make(__func__, text, [&](const Call& call) {
    const auto given = call.Options(options, opst_chat_options OPST_CHAT_OPTIONS_DEFAULT);
    opst::ChatOptions chat{.adds_generation_prompt =
                               call.Claim(given.adds_generation_prompt, "adds_generation_prompt")};
    if (given.tools_json != nullptr) chat.tools_json = given.tools_json;
    if (given.variables_json != nullptr) chat.variables_json = given.variables_json;
    std::vector<opst::ChatMessage> list;
    for (const opst_chat_message& message : call.Array(messages, num_messages, "messages")) {
      list.push_back({std::string(call.Text(message.role, "messages.role")),
                      std::string(call.Text(message.content, "messages.content"))});
    }
    *text = call.HandOver(call.Get(engine, "engine")->LoadChatTemplate().Render(list, chat));
  });
}

opst_status opst_prompt_cache_create(const opst_engine* engine, int64_t capacity,
                                     opst_prompt_cache** cache) {
  return Make(__func__, cache, [&](const Call& call) {
    const auto& owner = call.Get(engine, "engine");
    call.Create(cache, owner, opst::PromptCache(owner->model(), capacity));
  });
}

opst_status opst_prompt_cache_destroy(opst_prompt_cache* cache) {
  return opst::capi::Destroy(__func__, cache);
}

opst_status opst_engine_perplexity(const opst_context* context, const opst_engine* engine,
                                   const opst_view* tokens, const opst_perplexity_options* options,
                                   opst_perplexity_result* result) {
  return opst::capi::Run(__func__, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_perplexity_options OPST_PERPLEXITY_OPTIONS_DEFAULT);
    const opst::PerplexityOptions perplexity{.window = given.window,
                                             .decodes = call.Claim(given.decodes, "decodes"),
                                             .batch_size = given.batch_size,
                                             .experts = ToExpertChoice(call, given.experts)};
    call.CheckNotNull(result, "result");
    const opst::PerplexityResult found =
        call.Get(engine, "engine")
            ->Perplexity(Use(call, context), call.Values<int32_t>(tokens, "tokens"), perplexity);
    opst_perplexity_result filled = OPST_PERPLEXITY_RESULT_DEFAULT;
    filled.perplexity = found.perplexity;
    filled.nll = found.nll;
    filled.num_windows = found.num_windows;
    filled.num_predicted = found.num_predicted;
    filled.experts_per_token = found.experts_per_token;
    call.Fill(result, filled, "result");
  });
}
