// The "post_processor" of a tokenizer.json: the ids around a text; pairs of texts are not made.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_POST_PROCESSOR_H_
#define OPST_TEXT_POST_PROCESSOR_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_fields.h"

namespace opst::text {

class PostProcessor {
 public:
  // `value` may be nullptr: none. `has_token` tells whether an id has a token.
  static PostProcessor Read(const nlohmann::json* value, std::string_view file,
                            const std::function<bool(int32_t)>& has_token);

  const std::vector<int32_t>& prefix() const { return prefix_; }
  const std::vector<int32_t>& suffix() const { return suffix_; }

 private:
  void ReadStep(const nlohmann::json& value, const std::string& path, std::string_view file,
                const std::function<bool(int32_t)>& has_token);
  void ReadTemplate(Fields& fields, const std::function<bool(int32_t)>& has_token);

  std::vector<int32_t> prefix_, suffix_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_POST_PROCESSOR_H_
