// The memory plan against what is really held, and the rule of thumb by hand.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/memory_plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/scratch_pool.h"
#include "opst/engine.h"
#include "runtime/testing/bundled_model.h"

namespace opst {
namespace {

TEST(MemoryPlanTest, ActiveExpertsAreBoundedByTheModels) {
  EXPECT_EQ(EstimateActiveExperts(1, 1, 8), 3);
  EXPECT_EQ(EstimateActiveExperts(1, 2, 8), 6);
  EXPECT_EQ(EstimateActiveExperts(1, 3, 8), 8);
  EXPECT_EQ(EstimateActiveExperts(4, 2048, 64), 64);
  EXPECT_EQ(EstimateActiveExperts(1, 1, 64, 8), 12);
  EXPECT_EQ(EstimateActiveExperts(int64_t{1} << 40, int64_t{1} << 40, 256), 256);
}

TEST(MemoryPlanTest, CountsTheBundledModelByItsRecipe) {
  const auto& bundled = testing::BundledModel::Get();
  const Model& model = bundled.engine.model();
  const MemoryPlan plan = PlanMemory(bundled.context, model, {.context_length = 64});
  // 4 layers, 8 experts, three matrices of 96 x 256 in bf16.
  EXPECT_EQ(model.CountWeightBytes().routed_experts, 4u * 8 * 3 * 96 * 256 * 2);
  EXPECT_EQ(plan.weight_bytes, model.CountWeightBytes().all);
  EXPECT_LE(plan.weight_bytes, std::filesystem::file_size(bundled.path()));
  EXPECT_GE(plan.weight_bytes, std::filesystem::file_size(bundled.path()) * 8 / 10);
  // 4 layers, keys and values, 2 heads of 64, f32.
  EXPECT_EQ(plan.kv_cache_bytes, 64u * 4 * 2 * 2 * 64 * 4);
  EXPECT_EQ(plan.total_bytes(), plan.weight_bytes + plan.kv_cache_bytes + plan.workspace_bytes);
  EXPECT_EQ(plan.num_active_experts, 8);
  EXPECT_EQ(plan.base_bytes + plan.active_expert_bytes, plan.weight_bytes);
  EXPECT_NEAR(static_cast<double>(plan.rule_of_thumb_bytes()),
              1.2 * static_cast<double>(plan.weight_bytes), 8);
}

TEST(MemoryPlanTest, GrowsWithTheBatchAndTheContext) {
  const auto& bundled = testing::BundledModel::Get();
  const Model& model = bundled.engine.model();
  const auto plan = [&](const MemoryPlanOptions& options) {
    return PlanMemory(bundled.context, model, options);
  };
  EXPECT_EQ(plan({.context_length = 512, .batch_size = 3}).kv_cache_bytes,
            3 * plan({.context_length = 512}).kv_cache_bytes);
  EXPECT_EQ(plan({.context_length = 1, .prefill_chunk = 1}).num_active_experts, 3);
  EXPECT_THROW(plan({.context_length = 0}), Error);
  EXPECT_THROW(plan({.batch_size = 0}), Error);
}

// The workspace is an upper bound of what operators borrow, but not a wild one.
TEST(MemoryPlanTest, WorkspaceBoundsTheScratchOfARun) {
  const Engine& engine = testing::BundledModel::Get().engine;
  std::string prompt;
  for (int i = 0; i < 60; ++i) prompt += "It was a truth. ";
  for (const char* bound : {"256MB", "1MB"}) {
    const Context context({.num_threads = 2, .settings = {{"stage1_buffer_size", bound}}});
    const auto length = static_cast<int64_t>(engine.tokenizer().Encode(prompt).size()) + 4;
    engine.Generate(context, prompt, {.max_new_tokens = 4});
    const uint64_t held = context.scratch().idle_bytes();
    const MemoryPlan plan = PlanMemory(context, engine.model(), {.context_length = length});
    EXPECT_LE(held, plan.workspace_bytes) << bound;
    EXPECT_GE(4 * held, plan.workspace_bytes) << bound;
  }
}

}  // namespace
}  // namespace opst
