// The check that guards timing: what passes, and how a wrong element is named.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_check.h"

#include <gtest/gtest.h>

#include <limits>

#include "io/testing/files.h"

namespace opst::bench {
namespace {

TEST(LayerCheckTest, WrongElementIsNamed) {
  const std::vector<CheckedRow> rows{{.token = 1, .expected = {1, 2}, .bound = {1e-3, 1e-3}}};
  EXPECT_NEAR(CheckRows(rows, std::vector<float>{0, 0, 1, 2.0005f}, "it"), 0.5, 0.01);
  opst::testing::ExpectError(ErrorKind::kInvalidArgument, {"the result of it", "[1,1] is 2.01"},
                             [&] {
                               CheckRows(rows, std::vector<float>{0, 0, 1, 2.01f}, "it");
                             });
  const float nan = std::numeric_limits<float>::quiet_NaN();
  opst::testing::ExpectError(ErrorKind::kInvalidArgument, {"[1,0] is nan"}, [&] {
    CheckRows(rows, std::vector<float>{0, 0, nan, 2}, "it");
  });
}

TEST(LayerCheckTest, EachTokenIsCheckedOnce) {
  EXPECT_EQ(TokensToCheck(1), (std::vector<int64_t>{0}));
  EXPECT_EQ(TokensToCheck(2), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(TokensToCheck(9), (std::vector<int64_t>{0, 4, 8}));
}

}  // namespace
}  // namespace opst::bench
