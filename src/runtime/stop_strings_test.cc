// Stop strings across pieces, held-back text, overlaps.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/stop_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "opst/error.h"

namespace opst {
namespace {

TEST(StopStringsTest, TextIsHeldUntilItIsCertain) {
  StopStrings stop({"\nUser:"});
  EXPECT_EQ(stop.Push("Hello"), "Hello");
  EXPECT_EQ(stop.Push("!\nU"), "!");
  EXPECT_EQ(stop.Push("s"), "");
  EXPECT_EQ(stop.Push("age\n"), "\nUsage");
  EXPECT_EQ(stop.Push("User"), "");
  EXPECT_EQ(stop.Push(": hi"), "");
  EXPECT_EQ(stop.found(), "\nUser:");
  EXPECT_EQ(stop.Push("more"), "");
  EXPECT_EQ(stop.Flush(), "");
}

TEST(StopStringsTest, WhatIsHeldAtTheEndIsText) {
  StopStrings stop({"abc"});
  EXPECT_EQ(stop.Push("xab"), "x");
  EXPECT_EQ(stop.Flush(), "ab");
  EXPECT_FALSE(stop.found());
}

TEST(StopStringsTest, WithoutStringsNothingIsHeld) {
  StopStrings stop({});
  EXPECT_EQ(stop.Push("abc"), "abc");
}

TEST(StopStringsTest, TheEarliestWinsThenTheFirstListed) {
  StopStrings both({"bcd", "b"});
  EXPECT_EQ(both.Push("abcd"), "a");
  EXPECT_EQ(both.found(), "bcd");
  StopStrings later({"cd", "bc"});
  EXPECT_EQ(later.Push("abcd"), "a");
  EXPECT_EQ(later.found(), "bc");
}

TEST(StopStringsTest, EmptyStringsAreRefused) { EXPECT_THROW(StopStrings({"a", ""}), Error); }

// Oracle: look for the strings in the whole text. With strings of one length that cannot tie, the
// cut must be the same however the text is cut into pieces.
TEST(StopStringsTest, AnyCuttingGivesTheCutOfTheWholeText) {
  std::mt19937 random(5);
  const std::vector<std::string> strings{"aab", "aba", "bbb"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = 0; i < 1 + random() % 20; ++i) text += "ab"[random() % 2];
    size_t end = text.size();
    for (const std::string& string : strings) end = std::min(end, text.find(string));
    StopStrings stop(strings);
    std::string seen;
    for (size_t at = 0; at < text.size();) {
      const size_t count = 1 + random() % 4;
      seen += stop.Push(std::string_view(text).substr(at, count));
      at += count;
    }
    seen += stop.Flush();
    EXPECT_EQ(seen, text.substr(0, end)) << text;
  }
}

}  // namespace
}  // namespace opst
