// Tests of the cache's size arithmetic at its limits, and that what is stored stands in its panel.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

AttentionRecipe Recipe() {
  AttentionRecipe recipe;
  recipe.num_heads = 4;
  recipe.num_kv_heads = 2;
  recipe.head_dim = 20;
  return recipe;
}

TEST(KvCacheTest, SizesCountWholePanels) {
  // Keys: 20 floats a position; values: 32, two panels of 16 columns; positions in sixteens.
  EXPECT_EQ(KvCache::NumBytes(Recipe(), 3, 1), size_t{3 * 2 * 16 * (20 + 32) * 4});
  EXPECT_EQ(KvCache::NumBytes(Recipe(), 3, 16), KvCache::NumBytes(Recipe(), 3, 1));
  EXPECT_EQ(KvCache::NumBytes(Recipe(), 3, 17), 2 * KvCache::NumBytes(Recipe(), 3, 16));
  EXPECT_EQ(KvCache::NumBytes(Recipe(), 3, 0), 0u);
}

// Products that wrap would reserve a few bytes and then write behind them.
TEST(KvCacheTest, SizesBeyond63BitsAreOutOfMemory) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t capacity :
       {kMax, kMax - 8, kMax - 15, kMax / 2, int64_t{1} << 60, int64_t{1} << 52}) {
    SCOPED_TRACE(capacity);
    ErrorOf(ErrorKind::kOutOfMemory, [&] { KvCache::NumBytes(Recipe(), 48, capacity); });
  }
  EXPECT_THROW(KvCache::NumBytes(Recipe(), 48, -5), Error);
}

TEST(KvCacheTest, EveryPositionStandsInItsColumnAndRow) {
  constexpr int64_t kPositions = 37;
  const KvCache cache(Recipe(), 2, kPositions);
  const KvCache::Layer& layer = cache.layer(1);
  const auto value_of = [](int64_t position, int64_t head, int64_t i) {
    return static_cast<float>(position * 1000 + head * 100 + i);
  };
  for (int64_t position = 0; position < kPositions; ++position) {
    std::vector<float> keys;
    std::vector<float> values;
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t i = 0; i < 20; ++i) {
        keys.push_back(value_of(position, head, i));
        values.push_back(-value_of(position, head, i));
      }
    }
    layer.Store(position, keys.data(), values.data());
  }
  const auto at = [](const std::byte* panels, size_t index) {
    float value = 0;
    std::memcpy(&value, panels + index * sizeof(float), sizeof(value));
    return value;
  };
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t position = 0; position < kPositions; ++position) {
      for (int64_t i = 0; i < 20; ++i) {
        const auto key = static_cast<size_t>(position / 16 * 16 * 20 + i * 16 + position % 16);
        const auto value = static_cast<size_t>(position * 16 + i % 16) +
                           static_cast<size_t>(i / 16) * layer.value_panel_bytes() / sizeof(float);
        ASSERT_EQ(at(layer.keys(head), key), value_of(position, head, i));
        ASSERT_EQ(at(layer.values(head), value), -value_of(position, head, i));
      }
    }
  }
}

}  // namespace
}  // namespace opst
