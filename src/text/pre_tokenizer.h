// The "pre_tokenizer" of a tokenizer.json: cuts text into the pieces that the model sees one by
// one.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_PRE_TOKENIZER_H_
#define OPST_TEXT_PRE_TOKENIZER_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/pieces.h"

namespace opst::text {

// Where a text stands in the whole input: at its very start, or behind something (an added token).
enum class TextPlace { kInputStart, kInside };
// What a pattern's matches are in a split: the delimiters, or what is wanted between them.
enum class MatchesAre { kDelimiters, kWanted };

class PreTokenizer {
 public:
  // `value` may be nullptr: none.
  static PreTokenizer Read(const nlohmann::json* value, std::string_view file);

  // `text` must be valid UTF-8.
  void Run(std::string_view text, TextPlace place, Pieces& pieces) const;

 private:
  struct Split {
    TextPattern pattern;
    SplitBehavior behavior;
    MatchesAre matches;
  };
  struct Digits {
    bool individual;
  };
  struct ByteLevel {
    bool add_prefix_space;
    std::optional<TextPattern> pattern;
  };
  struct Metaspace {
    std::string replacement;  // one character
    enum class Prepend { kAlways, kFirst, kNever } prepend;
    bool split;
  };
  using Step = std::variant<Split, Digits, ByteLevel, Metaspace>;

  void ReadStep(const nlohmann::json& value, const std::string& path, std::string_view file);
  void ReadSequence(Fields& fields);
  static Split ReadSplit(Fields& fields);
  static ByteLevel ReadByteLevel(Fields& fields);
  Metaspace ReadMetaspace(Fields& fields) const;
  template <typename T>
  bool Holds() const;

  static void RunByteLevel(const ByteLevel& step, const Pieces& from, Pieces& to);
  static void RunMetaspace(const Metaspace& step, TextPlace place, const Pieces& from, Pieces& to);

  std::vector<Step> steps_;  // sequences are flattened
};

}  // namespace opst::text

#endif  // OPST_TEXT_PRE_TOKENIZER_H_
