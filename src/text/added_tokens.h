// Added tokens: found in the text before the model sees it, with their flags; no model tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_ADDED_TOKENS_H_
#define OPST_TEXT_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/prefix_tree.h"
#include "text/vocabulary.h"

namespace opst::text {

struct AddedToken {
  std::string content;
  std::string matched;  // what is searched for: the content, normalised if `normalized`
  int32_t id;
  bool single_word;  // only where no word character touches it
  bool lstrip;       // takes the white space before it
  bool rstrip;       // takes the white space behind it
  bool normalized;   // searched for in the normalised text instead of the text as given
  bool special;
};

class AddedTokens {
 public:
  // Throws kIo for a token that is empty or named twice, and for an id other than the reference
  // would give: it takes the vocabulary's id, else counts up from the vocabulary's size.
  static AddedTokens Read(const nlohmann::json* value, std::string_view file,
                          const Vocabulary& vocabulary, const TextNormalizer& normalizer);

  const AddedToken* Find(int32_t id) const;
  const AddedToken* Find(std::string_view content) const;
  // Highest id + 1, 0 without tokens.
  int32_t id_limit() const;

  struct Segment {
    size_t begin, end;  // bytes of the text; stripped white space belongs to the token
    int32_t id;         // -1 = text between added tokens, never empty
  };
  struct Search {
    bool normalized;    // for the tokens with that flag, in normalised text; else for the others
    bool skip_special;  // leave special tokens as text
  };
  // Leftmost, longest, from left to right. `text` must be valid UTF-8.
  void Split(std::string_view text, Search search, std::vector<Segment>& segments) const;

 private:
  void CheckId(const AddedToken& token, const Vocabulary& vocabulary, int32_t& next_id) const;
  void BuildTrees();

  std::string file_;
  std::vector<AddedToken> tokens_;    // ascending id
  std::vector<size_t> by_content_;    // indices by ascending content
  PrefixTree as_given_, normalized_;  // values are indices into tokens_
};

}  // namespace opst::text

#endif  // OPST_TEXT_ADDED_TOKENS_H_
