// Reads the bytes of a tokenizer.json into plain tables, with bounds; interprets no field but the
// vocabulary's and the merges' shape.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JSON_DOCUMENT_H_
#define OPST_TEXT_JSON_DOCUMENT_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opst::text {

struct JsonLimits {
  size_t max_bytes = size_t{128} << 20;
  size_t max_depth = 64;
  size_t max_values = 1'000'000;   // outside vocabulary and merges, object keys included
  size_t max_entries = 4'194'304;  // of the vocabulary, and of the merges; ids stay below it
  size_t max_token_bytes = 64 << 10;
};

struct JsonDocument {
  // Everything but model.vocab and model.merges, which stand in it as null when present.
  nlohmann::json root;
  // model.vocab, in the file's order. Ids are below JsonLimits::max_entries.
  std::vector<std::pair<std::string, int32_t>> vocab;
  // model.merges, in the file's order: the order is their rank.
  std::vector<std::pair<std::string, std::string>> merges;
};

// Throws kIo naming `file`, field and value: not JSON, an object key that stands twice (in the
// vocabulary: later, by the model), a wrong shape of vocabulary or merges, a limit.
JsonDocument ReadJsonDocument(std::string_view json, std::string_view file,
                              const JsonLimits& limits = {});

}  // namespace opst::text

#endif  // OPST_TEXT_JSON_DOCUMENT_H_
