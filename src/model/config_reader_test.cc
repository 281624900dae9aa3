// Reading of untrusted config.json text.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ConfigReaderTest, ReadsFieldsAndRemembersWhichNobodyAskedFor) {
  ConfigReader config(R"({"a": 3, "b": null, "c": "x", "d": {"e": 1.5}, "f": [1, 2], "g": 0})",
                      "config.json");
  EXPECT_EQ(config.Integer("a", 0, 10), 3);
  EXPECT_EQ(config.Integer("b", 0, 10, 7), 7);  // null counts as missing
  EXPECT_EQ(config.String("c"), "x");
  EXPECT_EQ(config.Object("d")->Number("e", 0, 2), 1.5);
  EXPECT_THAT(config.IntegerOrList("f", 0, 2), ElementsAre(1, 2));
  EXPECT_THAT(config.UnaskedKeys(), ElementsAre("g"));
}

TEST(ConfigReaderTest, NamesFieldRuleAndValue) {
  ConfigReader config(R"({"a": 3.5, "b": 11, "d": true, "e": [1, "x"]})", "my.json");
  EXPECT_THAT(
      IoError([&] { config.Integer("a", 0, 10); }),
      AllOf(HasSubstr("[my.json]"), HasSubstr("a must be an integer in 0..10"), HasSubstr("3.5")));
  EXPECT_THAT(IoError([&] { config.Integer("b", 0, 10); }), HasSubstr("11"));
  EXPECT_THAT(IoError([&] { config.Integer("z", 0, 10); }), HasSubstr("z must be given"));
  EXPECT_THAT(IoError([&] { config.String("d"); }), HasSubstr("d must be a string"));
  EXPECT_THAT(IoError([&] { config.Integers("e", 0, 9); }), HasSubstr("e must be an integer"));
  EXPECT_THAT(IoError([&] {
                config.Require("d", {"false", "null"});
              }),
              HasSubstr("d must be false or null"));
}

TEST(ConfigReaderTest, RefusesTextThatIsNoCleanObject) {
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += R"({"a":)";
  const std::string cases[] = {"",
                               "[]",
                               "3",
                               "{",
                               R"({"a": 1, "a": 2})",
                               R"({"a": nan})",
                               R"({"a": 1e999})",
                               deep,
                               "{\"a\": \"\xff\"}",
                               std::string(2 << 20, ' ')};
  for (const std::string& text : cases) {
    EXPECT_THAT(IoError([&] { ConfigReader(text, "my.json"); }), HasSubstr("[my.json]"))
        << text.substr(0, 40);
  }
}

TEST(ConfigReaderTest, IntegersBeyond63BitsAreRefused) {
  ConfigReader config(R"({"a": 18446744073709551615})", "config.json");
  EXPECT_THAT(IoError([&] { config.Integer("a", 0, INT64_MAX); }), HasSubstr("must be an integer"));
}

}  // namespace
}  // namespace opst
