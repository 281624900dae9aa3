// What the opaque handles of the C API are. Each has its C++ object in the member `value`.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CAPI_HANDLES_H_
#define OPST_CAPI_HANDLES_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "opst/context.h"
#include "opst/convert.h"
#include "opst/engine.h"
#include "opst/moe_layer.h"
#include "opst/ops/load_balance.h"
#include "opst/opst.h"
#include "opst/packed_weights.h"
#include "opst/routing_plan.h"
#include "opst/tokenizer.h"

struct opst_context {
  explicit opst_context(opst::ContextOptions options) : value(std::move(options)) {}

  const opst::Context value;
  std::atomic<bool> is_cancelled = false;
  mutable std::mutex isa_mutex;
  mutable std::string isa;
};

struct opst_packed_weights {
  const opst::PackedWeights value;
};

struct opst_routing_plan {
  const opst::RoutingPlan value;
};

// The layer's own tracker keeps its layer alive.
struct opst_load_tracker {
  const std::shared_ptr<opst::LoadTracker> value;
};

struct opst_moe_layer {
  const std::shared_ptr<const opst::MoeLayer> value;
};

// A model of its own, or that of an engine, which it keeps alive.
struct opst_model {
  const std::shared_ptr<const opst::Model> value;
};

struct opst_sequence {
  const std::shared_ptr<const opst::Model> model;
  opst::Sequence value;
};

struct opst_tokenizer {
  const opst::Tokenizer value;
};

struct opst_stream_decoder {
  opst::StreamDecoder value;
};

struct opst_engine {
  const std::shared_ptr<const opst::Engine> value;
};

struct opst_prompt_cache {
  const std::shared_ptr<const opst::Engine> engine;
  opst::PromptCache value;
};

struct opst_generation {
  const opst::GenerateResult value;
};

struct opst_conversion {
  const opst::ConvertReport value;
  std::vector<const char*> unused_tensors = {};  // of `value`
  std::vector<const char*> unknown_fields = {};  // of `value`
};

#endif  // OPST_CAPI_HANDLES_H_
