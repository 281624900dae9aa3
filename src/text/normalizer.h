// The "normalizer" of a tokenizer.json: what happens to text before it is split.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_NORMALIZER_H_
#define OPST_TEXT_NORMALIZER_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"
#include "text/unicode.h"

namespace opst::text {

class TextNormalizer {
 public:
  // `value` may be nullptr: none.
  static TextNormalizer Read(const nlohmann::json* value, std::string_view file);

  bool empty() const { return steps_.empty(); }
  // `text` must be valid UTF-8.
  std::string Run(std::string_view text) const;

 private:
  struct Prepend {
    std::string text;  // in front of every text that is not empty
  };
  using Step = std::variant<NormalForm, Prepend, Replacement>;

  void ReadStep(const nlohmann::json& value, const std::string& path, std::string_view file);

  std::vector<Step> steps_;  // sequences are flattened
};

}  // namespace opst::text

#endif  // OPST_TEXT_NORMALIZER_H_
