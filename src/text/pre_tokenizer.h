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

class PreTokenizer {
 public:
  // `value` may be nullptr: none.
  static PreTokenizer Read(const nlohmann::json* value, std::string_view file);

  // `text` must be valid UTF-8. at_start: it begins where the whole input does, no added token
  // before it.
  void Run(std::string_view text, bool at_start, Pieces& pieces) const;

 private:
  struct Split {
    TextPattern pattern;
    SplitBehavior behavior;
    bool invert;  // the matches are what is wanted, the rest between them is the delimiter
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
  static void RunMetaspace(const Metaspace& step, bool at_start, const Pieces& from, Pieces& to);

  std::vector<Step> steps_;  // sequences are flattened
};

}  // namespace opst::text

#endif  // OPST_TEXT_PRE_TOKENIZER_H_
