// Probabilities of logits that are infinite, and the error of logits that are no numbers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/testing/errors.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(LogProbOfTest, MaskedTokensTakeNoProbability) {
  const std::vector<float> logits{1.0f, -kInfinity, 1.0f};
  EXPECT_NEAR(LogProbOf(logits, 0, 0).log_prob, -std::log(2.0), 1e-12);
  EXPECT_EQ(LogProbOf(logits, 0, 1).log_prob, -static_cast<double>(kInfinity));
}

TEST(LogProbOfTest, InfiniteLogitsShareAllOfIt) {
  const std::vector<float> logits{1.0f, kInfinity, kInfinity, -kInfinity};
  const TokenLogProb found = LogProbOf(logits, 3, 1);
  EXPECT_NEAR(found.log_prob, -std::log(2.0), 1e-12);
  ASSERT_EQ(found.most_likely.size(), 3u);
  EXPECT_EQ(found.most_likely[0].first, 1);
  EXPECT_NEAR(found.most_likely[1].second, -std::log(2.0), 1e-12);
  EXPECT_EQ(found.most_likely[2].second, -static_cast<double>(kInfinity));
}

TEST(CheckNumbersTest, TheFirstTokenWithoutANumberIsNamed) {
  std::vector<float> logits{1.0f, kInfinity, -kInfinity, 0.0f};
  CheckNumbers(logits, "generate");
  logits[2] = logits[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(IoError([&] { CheckNumbers(logits, "generate"); }),
            "[generate] the model's logits must be numbers; got NaN for token 2; are the weights "
            "damaged?");
}

}  // namespace
}  // namespace opst
