// Attention over the cache against fp64 loops: groups of heads, windows, sinks, widths.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"

namespace opst {
namespace {

struct AttentionCase {
  int64_t num_heads;
  int64_t num_kv_heads;
  int64_t key_dim;
  int64_t value_dim;
  int64_t window;
  bool has_sinks;
};

std::vector<float> RandomValues(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// A cache of key_dim and value_dim, which only latent attention has of different widths.
AttentionRecipe RecipeOf(const AttentionCase& test) {
  AttentionRecipe recipe;
  recipe.num_heads = test.num_heads;
  recipe.num_kv_heads = test.num_kv_heads;
  recipe.head_dim = test.key_dim;
  if (test.key_dim != test.value_dim) {
    recipe.latent.kv_rank = test.value_dim;
    recipe.rope.dim = test.key_dim - test.value_dim;
  }
  return recipe;
}

class AttentionTest : public EachIsaTest {
 protected:
  static constexpr int64_t kPositions = 300;  // more than one block of 256

  void Prepare(const AttentionCase& test) {
    test_ = test;
    const AttentionRecipe recipe = RecipeOf(test);
    cache_ = std::make_unique<KvCache>(recipe, 1, kPositions);
    keys_ = RandomValues(kPositions * test.num_kv_heads * test.key_dim, 1);
    values_ = RandomValues(kPositions * test.num_kv_heads * test.value_dim, 2);
    queries_ = RandomValues(kPositions * test.num_heads * test.key_dim, 3);
    sinks_ = RandomValues(test.num_heads, 4);
    for (int64_t position = 0; position < kPositions; ++position) {
      cache_->layer(0).Store(position, &keys_[At(position, test.num_kv_heads * test.key_dim)],
                             &values_[At(position, test.num_kv_heads * test.value_dim)]);
    }
  }
  static size_t At(int64_t row, int64_t width) { return static_cast<size_t>(row * width); }

  // Outputs of tokens [first, first + count).
  std::vector<float> Run(const Context& context, int64_t first, int64_t count) {
    const int64_t width = test_.num_heads * test_.key_dim;
    std::vector<float> out(static_cast<size_t>(count * test_.num_heads * test_.value_dim));
    AttendOptions options{.num_heads = test_.num_heads, .scale = kScale, .window = test_.window};
    if (test_.has_sinks) options.sinks = sinks_;
    Attend(context, ConstTensorView(&queries_[At(first, width)], Shape{count, width}), first,
           options, cache_->layer(0),
           TensorView(out.data(), Shape{count, test_.num_heads * test_.value_dim}));
    return out;
  }

  // One head of one token by the formula, and Σ |weight · value| per element for the tolerance.
  void Oracle(int64_t token, int64_t head, std::vector<double>& out, double& spread) const {
    const int64_t kv_head = head / (test_.num_heads / test_.num_kv_heads);
    const float* query = &queries_[At(token * test_.num_heads + head, test_.key_dim)];
    const int64_t begin = test_.window > 0 ? std::max<int64_t>(0, token + 1 - test_.window) : 0;
    std::vector<double> scores;
    double max = test_.has_sinks ? sinks_[static_cast<size_t>(head)] : -1e300;
    for (int64_t position = begin; position <= token; ++position) {
      const float* key = &keys_[At(position * test_.num_kv_heads + kv_head, test_.key_dim)];
      double score = 0;
      for (int64_t i = 0; i < test_.key_dim; ++i) {
        score += static_cast<double>(query[i]) * static_cast<double>(key[i]);
      }
      scores.push_back(score * static_cast<double>(kScale));
      max = std::max(max, scores.back());
    }
    double sum = test_.has_sinks ? std::exp(sinks_[static_cast<size_t>(head)] - max) : 0;
    for (const double score : scores) sum += std::exp(score - max);
    out.assign(static_cast<size_t>(test_.value_dim), 0.0);
    spread = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto position = begin + static_cast<int64_t>(i);
      const float* value = &values_[At(position * test_.num_kv_heads + kv_head, test_.value_dim)];
      const double weight = std::exp(scores[i] - max) / sum;
      for (size_t d = 0; d < out.size(); ++d) {
        out[d] += weight * static_cast<double>(value[d]);
        spread = std::max(spread, std::abs(static_cast<double>(value[d])));
      }
    }
  }

  static constexpr float kScale = 0.3f;
  const Context context_ = MakeContext(2);
  AttentionCase test_{};
  std::unique_ptr<KvCache> cache_;
  std::vector<float> keys_;
  std::vector<float> values_;
  std::vector<float> queries_;
  std::vector<float> sinks_;
};

constexpr AttentionCase kCases[] = {{4, 2, 10, 10, 0, false},
                                    {3, 1, 17, 17, 5, true},
                                    {6, 3, 8, 8, 290, true},
                                    {2, 1, 40, 33, 0, false},
                                    {5, 1, 300, 270, 0, true}};

TEST_P(AttentionTest, EqualsTheFormulaInFp64) {
  for (const AttentionCase& test : kCases) {
    Prepare(test);
    const std::vector<float> out = Run(context_, 0, kPositions);
    for (const int64_t token : {0, 1, 15, 16, 255, 256, 257, 299}) {
      for (int64_t head = 0; head < test.num_heads; ++head) {
        std::vector<double> wanted;
        double spread = 0;
        Oracle(token, head, wanted, spread);
        // A score of key_dim products moves its weight by as much; weights sum to one.
        const double score_error = static_cast<double>(test.key_dim + 4) * 0x1p-24 * 4 *
                                   std::sqrt(static_cast<double>(test.key_dim));
        const double tolerance = spread * (2 * score_error + 300 * 0x1p-24);
        for (size_t d = 0; d < wanted.size(); ++d) {
          const size_t at = At(token * test.num_heads + head, test.value_dim) + d;
          ASSERT_NEAR(out[at], wanted[d], tolerance) << "token " << token << ", head " << head;
        }
      }
    }
  }
}

TEST_P(AttentionTest, ATokensBitsDoNotDependOnItsChunkOrTheWorkers) {
  const Context one = MakeContext(1);
  for (const AttentionCase& test : kCases) {
    Prepare(test);
    const std::vector<float> whole = Run(context_, 0, kPositions);
    const auto width = static_cast<std::ptrdiff_t>(test.num_heads * test.value_dim);
    for (const int64_t chunk : {1, 7, 256}) {
      for (int64_t first = 0; first < kPositions; first += chunk * (chunk == 1 ? 37 : 1)) {
        const int64_t count = std::min(chunk, kPositions - first);
        const std::vector<float> part = Run(chunk == 7 ? one : context_, first, count);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first * width))
            << "token " << first << ", chunks of " << chunk;
      }
    }
  }
}

// gpt-oss: a sink takes its share of the weight and adds nothing.
TEST_P(AttentionTest, ALargeSinkSilencesItsHead) {
  Prepare({2, 1, 8, 8, 0, true});
  sinks_ = {1000.0f, -1000.0f};
  const std::vector<float> with = Run(context_, 0, 20);
  test_.has_sinks = false;
  const std::vector<float> without = Run(context_, 0, 20);
  for (size_t i = 0; i < with.size(); ++i) {
    const bool is_first_head = i % 16 < 8;
    EXPECT_EQ(with[i], is_first_head ? 0.0f : without[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
