// A handwritten tokenizer.json for tests, and reading of test data; not a fixture of any model.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_TESTING_SMALL_TOKENIZER_H_
#define OPST_TEXT_TESTING_SMALL_TOKENIZER_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "opst/error.h"
#include "opst/tokenizer.h"

namespace opst::text {

// A byte-level tokenizer with ids that can be checked by hand: 0 to 255 are the bytes in the order
// of their value, then come, with their merges, "he", "ll", "hell", "hello", "Ġw", "or", "Ġwor",
// and the special token "<end>" (id 263).
nlohmann::json SmallTokenizerJson();

Tokenizer Load(const nlohmann::json& json);

// The text of the error that loading `json` gives; "no error" when it loads.
std::string LoadError(std::string_view json);

// A file of testdata/.
nlohmann::json ReadTestData(const std::string& name);

}  // namespace opst::text

#endif  // OPST_TEXT_TESTING_SMALL_TOKENIZER_H_
