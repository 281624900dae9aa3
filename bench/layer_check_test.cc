// The check that guards timing: what passes, and how a wrong element is named.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "bench/wrong_result.h"

namespace opst::bench {
namespace {

using testing::HasSubstr;

TEST(LayerCheckTest, WrongElementIsNamed) {
  const std::vector<CheckedRow> rows{{.token = 1, .expected = {1, 2}, .bound = {1e-3, 1e-3}}};
  EXPECT_NEAR(CheckRows(rows, std::vector<float>{0, 0, 1, 2.0005f}, "it"), 0.5, 0.01);
  const auto reject = [&](std::vector<float> out) -> std::string {
    try {
      CheckRows(rows, out, "it");
    } catch (const WrongResult& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(reject({0, 0, 1, 2.01f}), HasSubstr("the result of it must be right"));
  EXPECT_THAT(reject({0, 0, 1, 2.01f}), HasSubstr("[1,1] is 2.01"));
  EXPECT_THAT(reject({0, 0, std::numeric_limits<float>::quiet_NaN(), 2}),
              HasSubstr("[1,0] is nan"));
}

TEST(LayerCheckTest, EachTokenIsCheckedOnce) {
  EXPECT_EQ(TokensToCheck(1), (std::vector<int64_t>{0}));
  EXPECT_EQ(TokensToCheck(2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(TokensToCheck(9), (std::vector<int64_t>{0, 4, 8}));
}

}  // namespace
}  // namespace opst::bench
