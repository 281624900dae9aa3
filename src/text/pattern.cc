// Literal and regular patterns behind one interface.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/pattern.h"

#include <utility>

#include "base/check.h"

namespace opst::text {
namespace {

constexpr size_t kMaxLiteralBytes = 1024;

const std::string& ReadLiteral(Fields& fields, std::string_view key) {
  const std::string& literal = fields.String(key);
  if (literal.size() > kMaxLiteralBytes) fields.Refuse(key, "must have at most 1024 bytes");
  return literal;
}

}  // namespace

TextPattern TextPattern::Read(Fields& fields) {
  Fields kinds = fields.Object("pattern");
  TextPattern pattern;
  if (kinds.Find("Regex") != nullptr) {
    const std::string field = kinds.PathOf("Regex");
    pattern.regex_.emplace(RegexSource{kinds.String("Regex"), kinds.file(), field});
  } else {
    pattern.literal_ = ReadLiteral(kinds, "String");
    if (pattern.literal_.empty()) kinds.Refuse("String", "must not be empty");
  }
  kinds.RefuseOthers();
  return pattern;
}

TextPattern TextPattern::OfRegex(std::string_view pattern) {
  TextPattern result;
  result.regex_.emplace(RegexSource{pattern, "tokenizer", "built-in pattern"});
  return result;
}

TextPattern::Finder::Finder(const TextPattern& pattern) : pattern_(pattern) {
  if (pattern.regex_) matcher_.emplace(*pattern.regex_);
}

void TextPattern::Finder::Start(std::string_view text) {
  text_ = text;
  from_ = 0;
  if (matcher_) matcher_->Start(text);
}

std::optional<TextSpan> TextPattern::Finder::Next() {
  if (matcher_) return matcher_->Next();
  const size_t begin = text_.find(pattern_.literal_, from_);
  if (begin == std::string_view::npos) return std::nullopt;
  from_ = begin + pattern_.literal_.size();
  return TextSpan{begin, from_};
}

Replacement Replacement::Read(Fields& fields) {
  Replacement replacement;
  replacement.pattern_ = TextPattern::Read(fields);
  replacement.content_ = ReadLiteral(fields, "content");
  replacement.file_ = fields.file();
  replacement.field_ = fields.path();
  return replacement;
}

std::string Replacement::Run(std::string_view text, size_t max_bytes) const {
  std::string result;
  size_t copied = 0;
  TextPattern::Finder finder(pattern_);
  finder.Start(text);
  while (const std::optional<TextSpan> match = finder.Next()) {
    result += text.substr(copied, match->begin - copied);
    result += content_;
    copied = match->end;
    OPST_CHECK_IO(result.size() <= max_bytes, file_,
                  Concat(field_, " must not blow up a text beyond ", max_bytes, " bytes"), "more");
  }
  result += text.substr(copied);
  return result;
}

}  // namespace opst::text
