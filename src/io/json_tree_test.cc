// Tests of the reader of small JSON texts: what it builds, and what it refuses with its place.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/json_tree.h"

#include <gtest/gtest.h>

#include <string>

#include "io/testing/files.h"

namespace opst {
namespace {

using testing::ExpectIoError;

TEST(JsonTreeTest, BuildsWhatTheParserOfTheLibraryBuilds) {
  for (const char* text :
       {"null", "true", "-3", "18446744073709551615", "1.5e3", R"("a\u00e9\n")", "[]", "{}",
        R"({"z": 1, "a": [1, {"b": [[], {}]}, "x"], "m": {"a": null, "z": false}})"}) {
    EXPECT_EQ(ReadJsonTree(text, "t").dump(), nlohmann::ordered_json::parse(text).dump());
  }
}

TEST(JsonTreeTest, WhatIsNoJsonIsRefusedWithItsPlace) {
  for (const char* text :
       {"", "{", "{} {}", "[1, 2", "{\"a\": \"\xFF\"}", "{\"a\": 1e999}", "nul"}) {
    ExpectIoError({"[file] must be valid JSON; got an error at byte "},
                  [&] { ReadJsonTree(text, "file"); });
  }
  ExpectIoError({"[file] JSON must not hold NUL bytes"},
                [] { ReadJsonTree(std::string_view("{}\0", 3), "file"); });
  ExpectIoError({"in \"a.b[1]\""}, [] { ReadJsonTree(R"({"a": {"b": [1, x]}})", "file"); });
}

TEST(JsonTreeTest, AKeyMayStandAgainInAnotherObjectOnly) {
  EXPECT_EQ(ReadJsonTree(R"([{"a": 1}, {"a": {"a": 2}}])", "t").size(), 2u);
  ExpectIoError({"an object must not have a key twice; got", "\"b\""},
                [] { ReadJsonTree(R"({"a": {"b": 1, "c": 2, "b": 3}})", "file"); });
}

TEST(JsonTreeTest, SizeAndDepthAreBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  ReadJsonTree(nested(5), "file", {.max_depth = 5});
  ExpectIoError({"nested deeper than 5"},
                [&] { ReadJsonTree(nested(6), "file", {.max_depth = 5}); });
  ExpectIoError({"nested deeper than 16"},
                [] { ReadJsonTree(std::string(1'000'000, '['), "file"); });
  ReadJsonTree("[1234567]", "file", {.max_bytes = 9});
  ExpectIoError({"at most 8 bytes; got 9"},
                [] { ReadJsonTree("[1234567]", "file", {.max_bytes = 8}); });
}

// A lookup per key in the tree would take minutes.
TEST(JsonTreeTest, ManyKeysTakeNoQuadraticTime) {
  std::string text = "{";
  for (int i = 0; i < 90'000; ++i) text += "\"" + std::to_string(i) + "\":1,";
  EXPECT_EQ(ReadJsonTree(text + "\"end\":1}", "file").size(), 90'001u);
}

}  // namespace
}  // namespace opst
