// Reads templates into what stands before and behind the one text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/post_processor.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/quote.h"
#include "text/json_document.h"

namespace opst::text {
namespace {

using HasToken = std::function<bool(int32_t)>;
constexpr size_t kMaxAddedIds = 256;

// The ids of one special token of a template.
std::vector<int32_t> ReadIds(Fields& specials, const std::string& name, const HasToken& has_token) {
  Fields special = specials.Object(name);
  special.Find("id");      // the name once more
  special.Find("tokens");  // the ids' texts
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : special.Array("ids")) {
    const bool known = id.is_number_unsigned() && id.get<uint64_t>() < JsonLimits{}.max_entries &&
                       has_token(static_cast<int32_t>(id.get<uint64_t>()));
    if (!known) special.Refuse("ids", Concat("must be ids with a token, unlike ", id.dump()));
    ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  special.RefuseOthers();
  return ids;
}

}  // namespace

PostProcessor PostProcessor::Read(const nlohmann::json* value, std::string_view file,
                                  const HasToken& has_token) {
  PostProcessor processor;
  if (value != nullptr) processor.ReadStep(*value, "post_processor", file, has_token);
  return processor;
}

void PostProcessor::ReadStep(const nlohmann::json& value, const std::string& path,
                             std::string_view file, const HasToken& has_token) {
  Fields fields(value, path, file);
  const std::string& type = fields.Type();
  if (type == "Sequence") {
    size_t index = 0;
    for (const nlohmann::json& part : fields.Array("processors")) {
      ReadStep(part, fields.PathOf("processors", index++), file, has_token);
    }
  } else if (type == "TemplateProcessing") {
    ReadTemplate(fields, has_token);
  } else if (type == "ByteLevel") {
    // Only moves offsets.
    fields.Bool("add_prefix_space", true);
    fields.Bool("trim_offsets", true);
    fields.Bool("use_regex", true);
  } else {
    fields.Refuse("type", "must be one of ByteLevel, Sequence, TemplateProcessing");
  }
  fields.RefuseOthers();
}

void PostProcessor::ReadTemplate(Fields& fields, const HasToken& has_token) {
  fields.Find("pair");  // for two texts
  Fields specials = fields.Object("special_tokens");
  std::vector<int32_t> before, behind;
  bool text_seen = false;
  size_t index = 0;
  for (const nlohmann::json& part : fields.Array("single")) {
    Fields piece(part, fields.PathOf("single", index++), fields.file());
    const bool is_text = piece.Find("Sequence") != nullptr;
    Fields body = piece.Object(is_text ? "Sequence" : "SpecialToken");
    const std::string& name = body.String("id");
    body.Find("type_id");  // for encoders of pairs
    if (is_text) {
      if (name != "A" || text_seen) body.Refuse("id", "must be \"A\", and once");
      text_seen = true;
    } else {
      const std::vector<int32_t> ids = ReadIds(specials, name, has_token);
      std::vector<int32_t>& side = text_seen ? behind : before;
      side.insert(side.end(), ids.begin(), ids.end());
    }
    body.RefuseOthers();
    piece.RefuseOthers();
  }
  if (!text_seen) fields.Refuse("single", "must contain the text, Sequence A");
  // A later template goes around an earlier one's result.
  prefix_.insert(prefix_.begin(), before.begin(), before.end());
  suffix_.insert(suffix_.end(), behind.begin(), behind.end());
  OPST_CHECK_IO(prefix_.size() + suffix_.size() <= kMaxAddedIds, fields.file(),
                Concat(fields.path(), " must add at most ", kMaxAddedIds, " ids"),
                prefix_.size() + suffix_.size());
}

}  // namespace opst::text
