// Reads and applies the steps of a normalizer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/normalizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "text/json_fields.h"

namespace opst::text {
namespace {

constexpr size_t kMaxSteps = 32;
constexpr size_t kMaxPrependBytes = 1024;
// "a" becoming "▁" triples a text, a compatibility form makes 11 times as much of it at most.
constexpr size_t kMaxGrowth = 16;
constexpr size_t kMaxShortText = 64 << 10;

}  // namespace

TextNormalizer TextNormalizer::Read(const nlohmann::json* value, std::string_view file) {
  TextNormalizer normalizer;
  if (value != nullptr) normalizer.ReadStep(*value, "normalizer", file);
  return normalizer;
}

void TextNormalizer::ReadStep(const nlohmann::json& value, const std::string& path,
                              std::string_view file) {
  Fields fields(value, path, file);
  const std::string& type = fields.Type();
  if (type == "Sequence") {
    size_t index = 0;
    for (const nlohmann::json& part : fields.Array("normalizers")) {
      ReadStep(part, fields.PathOf("normalizers", index++), file);
    }
  } else if (type == "NFC") {
    steps_.emplace_back(NormalForm::kNfc);
  } else if (type == "NFD") {
    steps_.emplace_back(NormalForm::kNfd);
  } else if (type == "NFKC") {
    steps_.emplace_back(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    steps_.emplace_back(NormalForm::kNfkd);
  } else if (type == "Prepend") {
    const std::string& text = fields.String("prepend");
    if (text.size() > kMaxPrependBytes) fields.Refuse("prepend", "must have at most 1024 bytes");
    steps_.emplace_back(Prepend{text});
  } else if (type == "Replace") {
    steps_.emplace_back(Replacement::Read(fields));
  } else {
    fields.Refuse("type", "must be one of NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence");
  }
  fields.RefuseOthers();
  OPST_CHECK_IO(steps_.size() <= kMaxSteps, file, Concat(path, " must have at most 32 steps"),
                "more");
}

std::string TextNormalizer::Run(std::string_view text) const {
  const size_t max_bytes = kMaxGrowth * text.size() + kMaxShortText;
  std::string result(text);
  for (const Step& step : steps_) {
    if (const auto* form = std::get_if<NormalForm>(&step)) {
      result = Normalize(result, *form);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (!result.empty()) result.insert(0, prepend->text);
    } else {
      result = std::get<Replacement>(step).Run(result, max_bytes);
    }
  }
  return result;
}

}  // namespace opst::text
