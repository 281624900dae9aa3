// opst_model and opst_sequence: loading, reading, and the forward pass over token ids.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/model.h"

#include <limits>

#include "capi/conversions.h"

namespace opst::capi {
namespace {

std::vector<ExpertName> ToNames(const Call& call, const opst_expert_name* names, int64_t count,
                                const char* name) {
  std::vector<ExpertName> result;
  for (const opst_expert_name& entry : call.Array(names, count, name)) {
    OPST_CHECK_CALL(call, entry.expert >= 0 && entry.expert <= std::numeric_limits<int32_t>::max(),
                    name, "must name experts of 0 … E-1", entry.expert);
    result.push_back({entry.layer, static_cast<int32_t>(entry.expert)});
  }
  return result;
}

ForwardOptions ToForward(const Call& call, const opst_context* context,
                         const opst_forward_options* given) {
  const auto options = call.Options(given, opst_forward_options OPST_FORWARD_OPTIONS_DEFAULT);
  ForwardOptions result{.experts = ToExpertChoice(call, options.experts),
                        .on_routing = ToOnRouting(context, options.on_routing, options.user)};
  if (options.on_layer != nullptr) {
    result.on_layer = [on_layer = options.on_layer, user = options.user](int64_t layer,
                                                                         ConstTensorView x) {
      const opst_view view = Borrow(x);
      on_layer(user, layer, &view);
    };
  }
  return result;
}

}  // namespace

ExpertChoice ToExpertChoice(const Call& call, const opst_model_experts* given) {
  const auto experts =
      call.Options(given, opst_model_experts OPST_MODEL_EXPERTS_DEFAULT, "experts");
  return {.active_experts = experts.active_experts,
          .masked = ToNames(call, experts.masked, experts.num_masked, "masked"),
          .forced = ToNames(call, experts.forced, experts.num_forced, "forced"),
          .selection = ToSelection(call, experts.selection)};
}

std::function<void(int64_t layer, const RoutingPlan& plan)> ToOnRouting(
    const opst_context* context, opst_routing_callback on_routing, void* user) {
  return [context, on_routing, user](int64_t layer, const RoutingPlan& plan) {
    if (context->is_cancelled) throw Cancelled();
    if (on_routing == nullptr) return;
    const opst_routing_plan_arrays arrays = ArraysOf(plan);
    on_routing(user, layer, &arrays);
  };
}

}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Run;
using opst::capi::Use;

opst_status opst_model_load(const opst_context* context, const char* path, opst_model** model) {
  return Make(__func__, model, [&](const Call& call) {
    const std::string file(call.Text(path, "path"));
    call.Create(model,
                std::make_shared<const opst::Model>(opst::Model::Load(Use(call, context), file)));
  });
}

opst_status opst_model_destroy(opst_model* model) { return opst::capi::Destroy(__func__, model); }

opst_status opst_model_get(const opst_model* model, opst_model_info* info) {
  return Run(__func__, [&](const Call& call) {
    const opst::Model& value = *call.Get(model, "model");
    const opst::ModelConfig& config = value.config();
    const opst::Model::WeightBytes bytes = value.CountWeightBytes();
    opst_model_info result = OPST_MODEL_INFO_DEFAULT;
    result.family = config.family.c_str();
    result.num_layers = config.num_layers;
    result.vocab_size = config.vocab_size;
    result.hidden = config.hidden();
    result.num_experts = config.routing.num_experts;
    result.top_k = config.routing.top_k;
    result.max_positions = config.max_positions;
    result.weight_bytes = bytes.all;
    result.routed_expert_bytes = bytes.routed_experts;
    call.Fill(info, result, "info");
  });
}

opst_status opst_model_text_file(const opst_model* model, const char* name, const char** text,
                                 size_t* length) {
  return Make(__func__, text, [&](const Call& call) {
    call.CheckNotNull(length, "length");
    const auto found = call.Get(model, "model")->TextFile(call.Text(name, "name"));
    OPST_CHECK_IO(found.has_value(), call.function(), "the model must carry the file", name);
    *text = found->data();
    *length = found->size();
  });
}

opst_status opst_sequence_create(const opst_model* model, int64_t capacity,
                                 opst_sequence** sequence) {
  return Make(__func__, sequence, [&](const Call& call) {
    const auto& owner = call.Get(model, "model");
    call.Create(sequence, owner, owner->NewSequence(capacity));
  });
}

opst_status opst_sequence_destroy(opst_sequence* sequence) {
  return opst::capi::Destroy(__func__, sequence);
}

opst_status opst_sequence_length(const opst_sequence* sequence, int64_t* length) {
  return Make(__func__, length,
              [&](const Call& call) { *length = call.Get(sequence, "sequence").length(); });
}

opst_status opst_sequence_truncate(opst_sequence* sequence, int64_t length) {
  return Run(__func__, [&](const Call& call) { call.Get(sequence, "sequence").Truncate(length); });
}

opst_status opst_sequence_expect_length(opst_sequence* sequence, int64_t num_tokens) {
  return Run(__func__, [&](const Call& call) {
    OPST_CHECK_CALL(call, num_tokens >= 0, "num_tokens", "must not be negative", num_tokens);
    call.Get(sequence, "sequence").ExpectLength(num_tokens);
  });
}

opst_status opst_model_forward(const opst_context* context, const opst_model* model,
                               const opst_view* tokens, opst_sequence* sequence,
                               const opst_forward_options* options, const opst_view* logits) {
  return Run(__func__, [&](const Call& call) {
    const auto& value = call.Get(model, "model");
    opst::Sequence& state = call.Get(sequence, "sequence");
    OPST_CHECK_CALL(call, sequence->model.get() == value.get(), "sequence",
                    "must be one of this model", "one of another");
    value->Forward(Use(call, context), call.Values<int32_t>(tokens, "tokens"), state,
                   call.Out(logits, "logits"), opst::capi::ToForward(call, context, options));
  });
}

opst_status opst_model_forward_batch(const opst_context* context, const opst_model* model,
                                     const opst_batch_entry* entries, int64_t num_entries,
                                     const opst_forward_options* options, const opst_view* logits) {
  return Run(__func__, [&](const Call& call) {
    const auto& value = call.Get(model, "model");
    std::vector<opst::BatchEntry> batch;
    for (const opst_batch_entry& entry : call.Array(entries, num_entries, "entries")) {
      opst::Sequence& state = call.Get(entry.sequence, "entries.sequence");
      OPST_CHECK_CALL(call, entry.sequence->model.get() == value.get(), "entries.sequence",
                      "must be one of this model", "one of another");
      batch.push_back({call.Values<int32_t>(entry.tokens, "entries.tokens"), &state});
    }
    value->ForwardBatch(Use(call, context), batch, call.Out(logits, "logits"),
                        opst::capi::ToForward(call, context, options));
  });
}
