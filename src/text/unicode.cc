// Character properties and normal forms over utf8proc's tables; the order of marks is sorted here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

// The range of an ascending table that holds `character`, or nullptr.
template <typename Range>
const Range* FindRange(std::span<const Range> ranges, char32_t character) {
  const auto behind =
      std::upper_bound(ranges.begin(), ranges.end(), character,
                       [](char32_t value, const Range& range) { return value < range.first; });
  if (behind == ranges.begin()) return nullptr;
  const Range& range = *(behind - 1);
  return character <= range.last ? &range : nullptr;
}

// Two letters, e.g. "Lu"; "Cn" for what is not assigned.
std::string_view CategoryOf(char32_t character) {
  const std::string_view category =
      utf8proc_category_string(static_cast<utf8proc_int32_t>(character));
  if (category != "Cn") return category;
  const NamedRange* young = FindRange(CategoriesSinceUnicode14(), character);
  return young == nullptr ? category : young->name;
}

// Symbols that count as letters: circled, parenthesised, squared and negative ones.
bool IsAlphabeticSymbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

class Normalizer {
 public:
  explicit Normalizer(NormalForm form)
      : compatible_(form == NormalForm::kNfkc || form == NormalForm::kNfkd),
        compose_(form == NormalForm::kNfc || form == NormalForm::kNfkc) {}

  std::string Run(std::string_view text) {
    result_.reserve(text.size());
    for (size_t position = 0; position < text.size();) {
      const char32_t character = ReadCharacter(text, position);
      if (FindRange(TooYoungForNormalForms(), character) != nullptr) {
        // Without a class, a decomposition or a partner nothing crosses it.
        FinishSegment();
        AppendCharacter(character, result_);
      } else {
        Decompose(character);
      }
    }
    FinishSegment();
    return std::move(result_);
  }

 private:
  void Decompose(char32_t character) {
    constexpr int kLongest = 32;  // the longest decomposition of one character has 18
    utf8proc_int32_t parts[kLongest];
    int boundary = UTF8PROC_BOUNDCLASS_START;
    const int flags = UTF8PROC_DECOMPOSE | (compatible_ ? UTF8PROC_COMPAT : 0);
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts, kLongest,
                                static_cast<utf8proc_option_t>(flags), &boundary);
    if (count < 0 || count > kLongest) {
      segment_.push_back(static_cast<utf8proc_int32_t>(character));
    } else {
      segment_.insert(segment_.end(), parts, parts + count);
    }
  }

  // utf8proc_map would sort by neighbours, quadratic in the length of a run of marks.
  void SortMarks() {
    const auto mark_class = [](utf8proc_int32_t c) {
      return utf8proc_get_property(c)->combining_class;
    };
    const auto is_mark = [&](utf8proc_int32_t c) { return mark_class(c) != 0; };
    for (auto begin = segment_.begin(); begin != segment_.end();) {
      begin = std::find_if(begin, segment_.end(), is_mark);
      const auto end = std::find_if_not(begin, segment_.end(), is_mark);
      std::stable_sort(begin, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
      begin = end;
    }
  }

  void FinishSegment() {
    SortMarks();
    if (compose_) {
      const utf8proc_ssize_t length = utf8proc_normalize_utf32(
          segment_.data(), static_cast<utf8proc_ssize_t>(segment_.size()),
          static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
      segment_.resize(static_cast<size_t>(length));
    }
    for (const utf8proc_int32_t c : segment_) AppendCharacter(static_cast<char32_t>(c), result_);
    segment_.clear();
  }

  bool compatible_;
  bool compose_;
  std::vector<utf8proc_int32_t> segment_;
  std::string result_;
};

}  // namespace

bool IsWhitespace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsWordCharacter(char32_t character) {
  constexpr char32_t kZeroWidthNonJoiner = 0x200C;
  constexpr char32_t kZeroWidthJoiner = 0x200D;
  const std::string_view category = CategoryOf(character);
  return category[0] == 'L' || category[0] == 'M' || category == "Nd" || category == "Nl" ||
         category == "Pc" || IsAlphabeticSymbol(character) || character == kZeroWidthNonJoiner ||
         character == kZeroWidthJoiner;
}

bool IsNumeric(char32_t character) {
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(character))[0] == 'N' ||
         FindRange(NumericSinceUnicode14(), character) != nullptr;
}

std::string Normalize(std::string_view text, NormalForm form) {
  // Below U+0080 every text is in every form.
  const bool ascii = std::all_of(text.begin(), text.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? std::string(text) : Normalizer(form).Run(text);
}

}  // namespace opst::text
