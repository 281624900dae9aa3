// Reads the steps of a pre-tokenizer; what they do to text: pre_tokenizer_steps.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

constexpr size_t kMaxSteps = 32;
// Contractions, then runs of letters, of digits and of other characters with one space before
// them, then white space. Fixed by the GPT-2 vocabulary.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

PreTokenizer PreTokenizer::Read(const nlohmann::json* value, std::string_view file) {
  PreTokenizer pre_tokenizer;
  if (value != nullptr) pre_tokenizer.ReadStep(*value, "pre_tokenizer", file);
  return pre_tokenizer;
}

template <typename T>
bool PreTokenizer::Holds() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<T>(step); });
}

void PreTokenizer::ReadStep(const nlohmann::json& value, const std::string& path,
                            std::string_view file) {
  Fields fields(value, path, file);
  const std::string& type = fields.Type();
  if (type == "Sequence") {
    ReadSequence(fields);
  } else if (type == "Split") {
    steps_.emplace_back(ReadSplit(fields));
  } else if (type == "Digits") {
    steps_.emplace_back(Digits{fields.Bool("individual_digits")});
  } else if (type == "ByteLevel") {
    // Twice would spell the spelling; no file means that, and each time doubles the text.
    if (Holds<ByteLevel>()) fields.Refuse("type", "must not stand twice in a Sequence");
    steps_.emplace_back(ReadByteLevel(fields));
  } else if (type == "Metaspace") {
    if (Holds<Metaspace>()) fields.Refuse("type", "must not stand twice in a Sequence");
    steps_.emplace_back(ReadMetaspace(fields));
  } else {
    fields.Refuse("type", "must be one of ByteLevel, Digits, Metaspace, Sequence, Split");
  }
  fields.RefuseOthers();
  OPST_CHECK_IO(steps_.size() <= kMaxSteps, file, Concat(path, " must have at most 32 steps"),
                "more");
}

void PreTokenizer::ReadSequence(Fields& fields) {
  size_t index = 0;
  for (const nlohmann::json& part : fields.Array("pretokenizers")) {
    ReadStep(part, fields.PathOf("pretokenizers", index++), fields.file());
  }
}

PreTokenizer::Split PreTokenizer::ReadSplit(Fields& fields) {
  const std::optional<SplitBehavior> behavior = SplitBehaviorOf(fields.String("behavior"));
  if (!behavior) {
    fields.Refuse("behavior",
                  "must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  }
  return {TextPattern::Read(fields), *behavior,
          fields.Bool("invert") ? MatchesAre::kWanted : MatchesAre::kDelimiters};
}

PreTokenizer::ByteLevel PreTokenizer::ReadByteLevel(Fields& fields) {
  ByteLevel step{fields.Bool("add_prefix_space"), std::nullopt};
  fields.Bool("trim_offsets", true);  // offsets into the text, which nobody asks for here
  if (fields.Bool("use_regex", true)) step.pattern = TextPattern::OfRegex(kByteLevelPattern);
  return step;
}

PreTokenizer::Metaspace PreTokenizer::ReadMetaspace(Fields& fields) const {
  Metaspace step{fields.String("replacement"), Metaspace::Prepend::kAlways,
                 fields.Bool("split", true)};
  size_t length = 0;
  if (!step.replacement.empty()) ReadCharacter(step.replacement, length);
  if (length == 0 || length != step.replacement.size()) {
    fields.Refuse("replacement", "must be one character");
  }
  fields.Find("str_rep");  // the same once more, written by old versions
  const std::string scheme =
      fields.Find("prepend_scheme") == nullptr ? "always" : fields.String("prepend_scheme");
  if (scheme == "first") {
    if (!steps_.empty()) {
      fields.Refuse("prepend_scheme", "must not be \"first\" behind another step");
    }
    step.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    step.prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    fields.Refuse("prepend_scheme", "must be always, first or never");
  }
  if (!fields.Bool("add_prefix_space", true)) {
    if (scheme != "never") fields.Refuse("add_prefix_space", "must not contradict prepend_scheme");
  }
  return step;
}

}  // namespace opst::text
