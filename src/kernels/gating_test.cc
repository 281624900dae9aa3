// Tests of the routing kernels of one row: scores, sort keys and top-k.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gating.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

double Ulp(double value) {
  const auto magnitude =
      std::max(static_cast<float>(std::abs(value)), std::numeric_limits<float>::min());
  return static_cast<double>(std::nextafter(magnitude, kInfinity)) - static_cast<double>(magnitude);
}

std::vector<float> RandomRow(size_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-spread, spread);
  std::vector<float> row(n);
  for (float& value : row) value = static_cast<float>(uniform(random));
  return row;
}

class GatingKernelTest : public EachIsaTest {};

TEST_P(GatingKernelTest, CleaningTurnsNanIntoMaskedAndFindsTheMaximum) {
  for (size_t n = 1; n <= 70; ++n) {
    std::vector<float> logits = RandomRow(n, 5, static_cast<uint32_t>(n));
    logits[n / 2] = kNan;
    logits[n - 1] = std::bit_cast<float>(0xFFFFFFFFu);  // a negative NaN
    std::vector<float> clean(n + 1, -3.0f);
    const float max = CleanLogits(logits.data(), n, clean.data());
    float wanted = -kInfinity;
    for (size_t i = 0; i < n; ++i) {
      if (std::isnan(logits[i])) {
        EXPECT_EQ(clean[i], -kInfinity);
      } else {
        EXPECT_EQ(clean[i], logits[i]);
        wanted = std::max(wanted, logits[i]);
      }
    }
    EXPECT_EQ(max, wanted);
    EXPECT_EQ(clean[n], -3.0f);
  }
  float nothing = 1;
  EXPECT_EQ(CleanLogits(&nothing, 0, &nothing), -kInfinity);
}

TEST_P(GatingKernelTest, SoftmaxIsWithinItsBoundOfFp64) {
  for (const size_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 60, 128, 384, 896, 1024}) {
    for (const float spread : {0.01f, 1.0f, 10.0f, 60.0f, 1000.0f, 1e30f, 3e38f}) {
      const std::vector<float> logits = RandomRow(n, spread, static_cast<uint32_t>(n));
      const float max = *std::max_element(logits.begin(), logits.end());
      std::vector<float> scores(n + 1, -3.0f);
      Softmax(logits.data(), n, max, scores.data());
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
      double total_error = 0;  // of all scores together
      for (size_t i = 0; i < n; ++i) {
        const double distance = static_cast<double>(max) - logits[i];
        const double wanted = std::exp(-distance) / sum;
        const double error = (8 + distance) * Ulp(wanted);
        ASSERT_LE(std::abs(scores[i] - wanted), error)
            << "n " << n << ", spread " << spread << " at " << i;
        // Far ones underflow: they are off by no more than themselves.
        total_error += std::min(error, std::max(wanted, 2 * Ulp(wanted)));
      }
      EXPECT_EQ(scores[n], -3.0f);
      EXPECT_NEAR(std::accumulate(scores.begin(), scores.end() - 1, 0.0), 1.0, total_error);
    }
  }
}

TEST_P(GatingKernelTest, SoftmaxGivesMaskedLogitsZeroAndWorksInPlace) {
  std::vector<float> row = {1, -kInfinity, 2, -1e38f, -kInfinity};
  Softmax(row.data(), row.size(), 2, row.data());
  // With u = 2^-24: e^0 is exact, e^-1 within an ulp (2u), their sum and each quotient rounded
  // once. So the first is within 2 + (0.27 · 2 + 1) + 1 < 5 u of itself, the second within 3 u.
  EXPECT_NEAR(row[0], 0.26894142137, 5 * 0x1p-24 * 0.27);
  EXPECT_NEAR(row[2], 0.73105857863, 3 * 0x1p-24 * 0.74);
  EXPECT_EQ(row[1], 0);
  EXPECT_EQ(row[3], 0);
  EXPECT_EQ(row[4], 0);
}

TEST_P(GatingKernelTest, SigmoidIsWithinFourUlpOfFp64) {
  std::vector<float> logits;
  for (int i = -110'000; i <= 110'000; i += 3) logits.push_back(static_cast<float>(i) * 1e-3f);
  logits.insert(logits.end(), {kDenormal, -kDenormal, 0.0f, -0.0f});
  std::vector<float> scores(logits.size());
  Sigmoid(logits.data(), logits.size(), scores.data());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double wanted = 1 / (1 + std::exp(-static_cast<double>(logits[i])));
    ASSERT_LE(std::abs(scores[i] - wanted), 4 * Ulp(wanted)) << logits[i];
  }
}

// Between -89 and -103 scores are denormal, not zero: renormalised they still count.
TEST_P(GatingKernelTest, SigmoidKeepsDenormalScores) {
  const std::vector<float> logits = {-89, -95, -100, -102};
  std::vector<float> scores(4);
  Sigmoid(logits.data(), 4, scores.data());
  for (size_t i = 0; i < 4; ++i) {
    // One step of the grid, which is coarser than an ulp of the exponential.
    EXPECT_NEAR(scores[i], std::exp(static_cast<double>(logits[i])), kDenormal) << logits[i];
    EXPECT_GT(scores[i], 0);
  }
}

TEST_P(GatingKernelTest, SigmoidOfExtremes) {
  const std::vector<float> logits = {-kInfinity, kInfinity, -1e30f, 1e30f, -200, 200, 3e38f};
  std::vector<float> scores(logits.size());
  Sigmoid(logits.data(), logits.size(), scores.data());
  EXPECT_EQ(scores, (std::vector<float>{0, 1, 0, 1, 0, 1, 1}));
}

TEST_P(GatingKernelTest, SortKeysOrderLikeTheFloats) {
  std::vector<float> values = {-kInfinity, -3e38f, -1, -1e-38f, -kDenormal, 0,
                               kDenormal,  1e-38f, 1,  3e38f,   kInfinity};
  std::vector<int32_t> keys(values.size());
  SortKeys(values.data(), values.size(), keys.data());
  EXPECT_GT(keys[0], kExcludedKey);
  for (size_t i = 1; i < keys.size(); ++i) EXPECT_LT(keys[i - 1], keys[i]) << i;
  const float zeros[] = {0.0f, -0.0f};
  int32_t zero_keys[2];
  SortKeys(zeros, 2, zero_keys);
  EXPECT_EQ(zero_keys[0], zero_keys[1]);
}

TEST_P(GatingKernelTest, TopKIsAStableSortCutOff) {
  std::mt19937 random(3);
  for (const size_t n : {1, 2, 5, 8, 16, 17, 31, 33, 60, 64, 100, 384}) {
    for (const int num_values : {1, 3, 1000}) {  // many ties, some, hardly any
      std::vector<int32_t> keys(n);
      for (int32_t& key : keys) {
        key = static_cast<int32_t>(random() % static_cast<uint32_t>(num_values)) - num_values / 2;
      }
      std::vector<int32_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
      });
      for (const size_t k : {size_t{1}, (n + 1) / 2, n}) {
        std::vector<int32_t> left = keys;
        std::vector<int32_t> ids(k + 1, -9);
        TopK(left.data(), n, k, ids.data());
        EXPECT_TRUE(std::equal(ids.begin(), ids.end() - 1, order.begin())) << n << " " << k;
        EXPECT_EQ(ids[k], -9);
        EXPECT_EQ(std::count(left.begin(), left.end(), kExcludedKey),
                  static_cast<std::ptrdiff_t>(k));
      }
    }
  }
}

TEST_P(GatingKernelTest, TopKNeverTakesExcludedKeys) {
  std::vector<int32_t> keys(40, kExcludedKey);
  keys[33] = kExcludedKey + 1;
  keys[7] = kExcludedKey + 1;
  int32_t ids[2];
  TopK(keys.data(), keys.size(), 2, ids);
  EXPECT_EQ(ids[0], 7);
  EXPECT_EQ(ids[1], 33);
}

TEST_P(GatingKernelTest, EntropyIsThatOfFp64AndZerosAddNothing) {
  for (size_t n = 1; n <= 70; ++n) {
    std::vector<float> scores = RandomRow(n, 6, static_cast<uint32_t>(n));
    for (float& score : scores) score = std::exp(score);
    if (n > 2) scores[n / 2] = 0;
    scores.push_back(100.0f);  // behind the row
    double total = 0;
    for (size_t i = 0; i < n; ++i) total += static_cast<double>(scores[i]);
    double wanted = 0;
    for (size_t i = 0; i < n; ++i) {
      const double p = static_cast<double>(scores[i]) / total;
      if (p > 0) wanted -= p * std::log(p);
    }
    // Terms are at most 1/e; share, logarithm and sum have a few roundings each.
    const double tolerance = 0x1p-24 * (8 + static_cast<double>(n));
    EXPECT_NEAR(Entropy(scores.data(), n, static_cast<float>(total)), wanted, tolerance) << n;
  }
  const std::vector<float> certain = {0, 3, 0, 0};
  EXPECT_EQ(Entropy(certain.data(), 4, 3), 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Isa, GatingKernelTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
