// Compares ids and decoded texts with answers of the `tokenizers` package; see testdata/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "opst/tokenizer.h"
#include "text/testing/small_tokenizer.h"

namespace opst::text {
namespace {

std::string BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string Streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                     const DecodeOptions& options) {
  StreamDecoder stream(tokenizer, options);
  std::string text;
  for (const int32_t id : ids) text += stream.Push(id);
  return text + stream.Flush();
}

TEST(GoldenTest, IdsAndTextsEqualTheReference) {
  const nlohmann::json goldens = ReadTestData("goldens.json");
  size_t num_cases = 0;
  for (const nlohmann::json& configuration : goldens["configurations"]) {
    nlohmann::json whole = configuration["parts"];
    nlohmann::json model = ReadTestData(configuration["model"].get<std::string>() + ".json");
    if (whole.contains("model")) model.update(whole["model"]);
    whole["model"] = model;
    const Tokenizer tokenizer = Load(whole);
    for (const nlohmann::json& row : configuration["cases"]) {
      SCOPED_TRACE(configuration["name"].get<std::string>() + ": " + row["hex"].get<std::string>());
      const auto expected = row["ids"].get<std::vector<int32_t>>();
      const std::vector<int32_t> ids = tokenizer.Encode(BytesOfHex(row["hex"]));
      EXPECT_EQ(ids, expected);

      EXPECT_EQ(tokenizer.Decode(expected), row["decoded"]);
      EXPECT_EQ(Streamed(tokenizer, expected, {}), row["decoded"]);
      const std::vector<int32_t> reversed(expected.rbegin(), expected.rend());
      const DecodeOptions with_special{.skip_special_tokens = false};
      EXPECT_EQ(tokenizer.Decode(reversed, with_special), row["reversed"]);
      EXPECT_EQ(Streamed(tokenizer, reversed, with_special), row["reversed"]);
      ++num_cases;
    }
  }
  EXPECT_GE(num_cases, 300u);
}

}  // namespace
}  // namespace opst::text
