// Tests of the text helpers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"

#include <gtest/gtest.h>

namespace opst {
namespace {

using Parts = std::vector<std::string_view>;

TEST(StringsTest, TrimRemovesBlanksOnBothSidesOnly) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(StringsTest, SplitKeepsEmptyPartsButGivesNoneForBlankText) {
  EXPECT_EQ(Split("a, b ,c", ','), (Parts{"a", "b", "c"}));
  EXPECT_EQ(Split("a,,b", ','), (Parts{"a", "", "b"}));
  EXPECT_EQ(Split("a,", ','), (Parts{"a", ""}));
  EXPECT_EQ(Split(" ", ','), Parts{});
}

TEST(StringsTest, NumbersMustBeTheWholeText) {
  EXPECT_EQ(ParseInt("-12"), -12);
  for (const char* text : {"", "1x", " 1", "+1", "1.0", "99999999999999999999"}) {
    EXPECT_EQ(ParseInt(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseFloat("0.25"), 0.25);
  EXPECT_EQ(ParseFloat("1e-3"), 0.001);
  for (const char* text : {"", "nan", "inf", "1e999", "0,5"}) {
    EXPECT_EQ(ParseFloat(text), std::nullopt) << text;
  }
}

TEST(StringsTest, ByteSuffixesArePowersOf1024) {
  EXPECT_EQ(ParseBytes("0"), 0u);
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("4096B"), 4096u);
  EXPECT_EQ(ParseBytes("3KB"), 3072u);
  EXPECT_EQ(ParseBytes("256MB"), size_t{256} << 20);
  EXPECT_EQ(ParseBytes("256 mb"), size_t{256} << 20);
  EXPECT_EQ(ParseBytes("2g"), size_t{2} << 30);
  EXPECT_EQ(ParseBytes("2GiB"), size_t{2} << 30);
  EXPECT_EQ(ParseBytes("1.5GB"), size_t{3} << 29);
}

TEST(StringsTest, ByteSizesThatMakeNoSenseAreRefused) {
  for (const char* text : {"", "MB", "-1", "1PB", "1 M B", "1.2.3MB", "99999999999TB", "0x10"}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
}

TEST(StringsTest, FormatBytesPicksTheLargestUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(size_t{256} << 20), "256 MB");
  EXPECT_EQ(FormatBytes(size_t{3} << 29), "1.50 GB");
  EXPECT_EQ(FormatBytes((size_t{1} << 20) + 1), "1.00 MB");
}

TEST(StringsTest, CloseNameIsSilentAboutWhatNobodyMeant) {
  constexpr std::string_view kNames[] = {"convert", "generate", "chat"};
  EXPECT_EQ(CloseName("genrate", kNames), "generate");
  EXPECT_EQ(CloseName("chta", kNames), "chat");
  EXPECT_EQ(CloseName("foo", kNames), "");
  EXPECT_EQ(CloseName("help", kNames), "");
  EXPECT_EQ(CloseName("", kNames), "");
}

TEST(StringsTest, NearestNameCountsASwapAsOneEdit) {
  constexpr std::string_view kNames[] = {"form", "from"};
  EXPECT_EQ(NearestName("fromm", kNames), "from");
  EXPECT_EQ(NearestName("ofrm", kNames), "form");
  EXPECT_EQ(NearestName("", kNames), "form");
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace opst
