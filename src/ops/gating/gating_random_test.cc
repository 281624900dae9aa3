// Random rows through both implementations of gating, against fp64; and the independence of rows
// from batch and threads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/gating_oracle.h"
#include "opst/ops/gating.h"

namespace opst {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One random request of a few rows. Logits stand on a grid, so that there are many exact ties.
struct Case {
  explicit Case(uint32_t seed) : random(seed) {
    const int64_t num_experts = PickExperts();
    options.num_groups = Divisor(num_experts);
    options.num_kept_groups = Pick(1, options.num_groups);
    const int64_t candidates = options.num_kept_groups * (num_experts / options.num_groups);
    options.top_k = Chance(0.2) ? candidates : Pick(1, std::min<int64_t>(candidates, 12));
    options.score_function = Chance(0.5) ? ScoreFunction::kSoftmax : ScoreFunction::kSigmoid;
    options.group_score = Chance(0.5) ? GroupScore::kMax : GroupScore::kSumOfTopTwo;
    options.renormalizes = Chance(0.6);
    options.scale = Chance(0.7) ? 1.0f : 2.5f;
    shape = Shape{Pick(1, 3), num_experts};
    const double step = Chance(0.5) ? 0.5 : 1e-3;
    logits.resize(static_cast<size_t>(shape.num_elements()));
    for (float& logit : logits) logit = Logit(step);
    if (Chance(0.4)) {
      bias.resize(static_cast<size_t>(num_experts));
      for (float& value : bias) value = static_cast<float>(Pick(-4, 4)) / 16;
      options.selection_bias = bias;
    }
  }

  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(double share) { return static_cast<double>(random()) < share * 0x1p32; }
  int64_t PickExperts() {
    const int64_t limit = int64_t{1} << Pick(0, 10);
    return Pick(1, limit);
  }
  int64_t Divisor(int64_t n) {
    if (Chance(0.5)) return 1;
    const int64_t wanted = Pick(1, 16);
    return n % wanted == 0 ? wanted : 1;
  }
  float Logit(double step) {
    const int64_t kind = Pick(0, 99);
    if (kind == 0) return std::numeric_limits<float>::quiet_NaN();
    if (kind < 4) return -kInfinity;
    if (kind == 4 && Chance(0.05)) return kInfinity;
    return static_cast<float>(std::round(static_cast<double>(Pick(-6000, 6000)) * 1e-3 / step) *
                              step);
  }
  ConstTensorView view() const { return {logits.data(), shape}; }

  std::mt19937 random;
  GatingOptions options;
  Shape shape;
  std::vector<float> logits;
  std::vector<float> bias;
};

// Ids are distinct, in range and in fp64's order, but for what rounding may turn; weights are those
// of the ids.
void ExpectRow(const GatingOracle& oracle, const int32_t* ids, const float* weights) {
  const auto top_k = static_cast<size_t>(oracle.options.top_k);
  const std::set<int32_t> distinct(ids, ids + top_k);
  ASSERT_EQ(distinct.size(), top_k);
  ASSERT_GE(*distinct.begin(), 0);
  ASSERT_LT(*distinct.rbegin(), static_cast<int32_t>(oracle.logits.size()));
  std::vector<bool> is_taken(oracle.logits.size(), false);
  for (size_t slot = 0; slot < top_k; ++slot) {
    if (oracle.is_empty) {
      ASSERT_EQ(ids[slot], static_cast<int32_t>(slot));
      ASSERT_EQ(weights[slot], 0.0f);
      continue;
    }
    const auto chosen = static_cast<size_t>(ids[slot]);
    is_taken[chosen] = true;
    ASSERT_NEAR(weights[slot], oracle.Weight(ids, slot), oracle.WeightError(ids, slot));
    size_t other = 0;
    while (other < is_taken.size() && (is_taken[other] || oracle.MayPrecede(chosen, other)))
      ++other;
    ASSERT_EQ(other, is_taken.size())
        << "slot " << slot << ": expert " << chosen << " before " << other;
  }
}

class GatingRandomTest : public EachIsaTest {};

TEST_P(GatingRandomTest, BothImplementationsSelectAndWeighAsFp64Does) {
  constexpr uint32_t kCases = 1500;
  const Context fast = MakeContext(1, {{"log", "error"}});
  const Context reference = MakeContext(1, {{"log", "error"}, {"implementation", "reference"}});
  int num_rows = 0;
  int num_near_ties = 0;
  for (uint32_t seed = 0; seed < kCases; ++seed) {
    const Case request(seed);
    for (const Context* context : {&fast, &reference}) {
      const GatingResult result = Gate(*context, request.view(), request.options);
      int64_t num_empty_rows = 0;
      for (int64_t row = 0; row < request.shape[0]; ++row, ++num_rows) {
        SCOPED_TRACE(testing::Message()
                     << (context == &fast ? "fast" : "reference") << ", case " << seed << ", row "
                     << row << ", E " << request.shape[1] << ", k " << request.options.top_k);
        const auto num_experts = static_cast<size_t>(request.shape[1]);
        const std::span<const float> logits(request.logits);
        const GatingOracle oracle(
            request.options, logits.subspan(static_cast<size_t>(row) * num_experts, num_experts));
        const auto first = static_cast<size_t>(row * request.options.top_k);
        const int32_t* ids = &result.expert_ids[first];
        ExpectRow(oracle, ids, &result.expert_weights[first]);
        if (HasFatalFailure()) return;
        num_empty_rows += oracle.is_empty;
        if (oracle.is_empty) continue;
        const std::vector<int32_t> wanted = oracle.Selected();
        num_near_ties += !std::equal(wanted.begin(), wanted.end(), ids);
      }
      EXPECT_EQ(result.num_empty_rows, num_empty_rows);
    }
  }
  EXPECT_LE(num_near_ties, num_rows / 100);
}

TEST_P(GatingRandomTest, SameBitsForAnyNumberOfThreadsAndTokens) {
  constexpr int64_t kExperts = 60;
  constexpr int64_t kTopK = 6;
  std::vector<float> logits(257 * kExperts);
  std::mt19937 random(4);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) * 0.01f;
  const ConstTensorView all(logits.data(), Shape{257, kExperts});
  const GatingResult wanted = Gate(MakeContext(1), all, {.top_k = kTopK});
  for (const int threads : {1, 2, 3, 7}) {
    const Context context = MakeContext(threads);
    for (const int64_t tokens : {1, 15, 16, 17, 31, 33, 63, 64, 65, 128, 129, 257}) {
      const GatingResult result =
          Gate(context, ConstTensorView(logits.data(), Shape{tokens, kExperts}), {.top_k = kTopK});
      const auto slots = static_cast<size_t>(tokens * kTopK);
      ASSERT_EQ(result.expert_ids.size(), slots);
      EXPECT_EQ(std::memcmp(result.expert_ids.data(), wanted.expert_ids.data(), 4 * slots), 0);
      EXPECT_EQ(std::memcmp(result.expert_weights.data(), wanted.expert_weights.data(), 4 * slots),
                0)
          << threads << " threads, " << tokens << " tokens";
    }
  }
}

TEST_P(GatingRandomTest, StridedLogitsReadNothingBetweenTheRows) {
  constexpr int64_t kStride = 13;
  std::vector<float> logits(5 * kStride, kInfinity);
  std::vector<float> packed;
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t i = 0; i < 9; ++i) {
      logits[static_cast<size_t>(row * kStride + i)] = static_cast<float>((row * 7 + i * 5) % 9);
      packed.push_back(static_cast<float>((row * 7 + i * 5) % 9));
    }
  }
  const Context context = MakeContext(1);
  const ConstTensorView strided(logits.data(), DType::kF32, Shape{5, 9}, kStride);
  const GatingResult a = Gate(context, strided, {.top_k = 4});
  const GatingResult b = Gate(context, ConstTensorView(packed.data(), Shape{5, 9}), {.top_k = 4});
  EXPECT_EQ(a.expert_ids, b.expert_ids);
  EXPECT_EQ(a.expert_weights, b.expert_weights);
}

INSTANTIATE_TEST_SUITE_P(Isa, GatingRandomTest, testing::ValuesIn(AvailableIsas()), IsaName);

// E is no power of two, T needs many tasks: each row must be what it is alone.
TEST(GatingLongBatchTest, RowsAreWhatTheyAreAlone) {
  const Context alone = MakeContext(1);
  const Context team = MakeContext(2);
  constexpr int64_t kTokens = 60'000;
  for (const int64_t num_experts : {3, 5, 6, 60, 96, 384, 896}) {
    const int64_t top_k = std::min<int64_t>(num_experts, 8);
    std::vector<float> logits(static_cast<size_t>(kTokens * num_experts));
    uint32_t state = 1;
    for (float& logit : logits) {
      state = state * 1664525u + 1013904223u;
      logit = static_cast<float>(static_cast<int32_t>(state) >> 8) * 0x1p-21f;
    }
    const ConstTensorView all(logits.data(), Shape{kTokens, num_experts});
    const GatingResult batch = Gate(team, all, {.top_k = top_k});
    for (int64_t row = 0; row < kTokens; row += 61) {
      const ConstTensorView view(logits.data() + row * num_experts, Shape{1, num_experts});
      const GatingResult single = Gate(alone, view, {.top_k = top_k});
      const auto first = static_cast<size_t>(row * top_k);
      const auto count = static_cast<size_t>(top_k);
      ASSERT_EQ(std::memcmp(&batch.expert_ids[first], single.expert_ids.data(), 4 * count), 0);
      ASSERT_EQ(std::memcmp(&batch.expert_weights[first], single.expert_weights.data(), 4 * count),
                0)
          << "E " << num_experts << ", row " << row;
    }
  }
}

TEST(GatingDispatchTest, TheLogTellsWhichImplementationRan) {
  const std::vector<float> logits = {1, 2, 3, 4};
  std::vector<std::string> lines;
  const Context fast = MakeLoggingContext(lines, "dispatch");
  Gate(fast, ConstTensorView(logits.data(), Shape{1, 4}), {});
  EXPECT_EQ(lines, std::vector<std::string>{"dispatch: gating: vectorized"});
}

}  // namespace
}  // namespace opst
