// Reads the steps of a decoder and builds pipelines of them; the stages: decoder_stages.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/decoder.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/decoder_stages.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

constexpr size_t kMaxSteps = 32;

char32_t ReadOneCharacter(Fields& fields, std::string_view key) {
  const std::string& text = fields.String(key);
  size_t length = 0;
  const char32_t character = text.empty() ? 0 : ReadCharacter(text, length);
  if (text.empty() || length != text.size()) fields.Refuse(key, "must be one character");
  return character;
}

}  // namespace

Decoder Decoder::Read(const nlohmann::json* value, std::string_view file) {
  Decoder decoder;
  if (value == nullptr) {
    decoder.steps_.emplace_back(Join{});
  } else {
    decoder.ReadStep(*value, "decoder", file);
  }
  return decoder;
}

void Decoder::ReadStep(const nlohmann::json& value, const std::string& path,
                       std::string_view file) {
  Fields fields(value, path, file);
  const std::string& type = fields.Type();
  const auto refuse_fused = [&] {
    if (fused_) fields.Refuse("type", "must not stand behind ByteLevel or Fuse");
  };
  if (type == "Sequence") {
    size_t index = 0;
    for (const nlohmann::json& part : fields.Array("decoders")) {
      ReadStep(part, fields.PathOf("decoders", index++), file);
    }
  } else if (type == "ByteLevel") {
    refuse_fused();
    fields.Bool("add_prefix_space", true);  // these three matter to encoding only
    fields.Bool("trim_offsets", true);
    fields.Bool("use_regex", true);
    steps_.emplace_back(ByteLevel{});
    fused_ = true;
  } else if (type == "ByteFallback") {
    refuse_fused();
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    fused_ = true;
  } else if (type == "Replace") {
    refuse_fused();
    steps_.emplace_back(Replacement::Read(fields));
  } else if (type == "Strip") {
    steps_.emplace_back(ReadStrip(fields));
  } else if (type == "Metaspace") {
    refuse_fused();
    fields.Find("add_prefix_space");  // the pre-tokenizer checks that it agrees with the scheme
    fields.Find("str_rep");
    fields.Bool("split", true);
    const std::string scheme =
        fields.Find("prepend_scheme") == nullptr ? "always" : fields.String("prepend_scheme");
    steps_.emplace_back(Metaspace{ReadOneCharacter(fields, "replacement"),
                                  scheme == "never" ? FirstSpace::kKept : FirstSpace::kDropped});
  } else {
    fields.Refuse(
        "type",
        "must be one of ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip");
  }
  fields.RefuseOthers();
  OPST_CHECK_IO(steps_.size() <= kMaxSteps, file, Concat(path, " must have at most 32 steps"),
                "more");
}

Decoder::Step Decoder::ReadStrip(Fields& fields) const {
  constexpr int64_t kMaxCharacters = 1024;
  const auto start = static_cast<size_t>(fields.Integer("start", kMaxCharacters));
  if (fields.Integer("stop", kMaxCharacters) != 0) {
    fields.Refuse("stop", "must be 0: only the start of a text can be stripped while it streams");
  }
  return Strip{ReadOneCharacter(fields, "content"), start, fused_};
}

struct DecodePipeline::End final : TokenSink {
  void Push(std::string_view token) override { text += token; }
  void Finish() override {}
  std::string text;
};

std::string DecodePipeline::Take() { return std::exchange(end_->text, {}); }

std::unique_ptr<DecodePipeline> Decoder::Start() const {
  auto pipeline = std::make_unique<DecodePipeline>();
  auto end = std::make_unique<DecodePipeline::End>();
  pipeline->end_ = end.get();
  pipeline->first_ = end.get();
  pipeline->sinks_.push_back(std::move(end));
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    TokenSink& next = *pipeline->first_;
    std::unique_ptr<TokenSink> stage;
    if (std::holds_alternative<Join>(*step)) {
      stage = MakeJoinStage(next);
    } else if (std::holds_alternative<ByteLevel>(*step)) {
      stage = MakeByteLevelStage(next);
    } else if (std::holds_alternative<ByteFallback>(*step)) {
      stage = MakeByteFallbackStage(next);
    } else if (const auto* strip = std::get_if<Strip>(&*step)) {
      stage = MakeStripStage({strip->content, strip->start, strip->fused}, next);
    } else if (const auto* metaspace = std::get_if<Metaspace>(&*step)) {
      stage = MakeMetaspaceStage(metaspace->replacement, metaspace->first, next);
    } else {
      stage = MakeReplaceStage(std::get<Replacement>(*step), next);
    }
    pipeline->first_ = stage.get();
    pipeline->sinks_.push_back(std::move(stage));
  }
  return pipeline;
}

}  // namespace opst::text
