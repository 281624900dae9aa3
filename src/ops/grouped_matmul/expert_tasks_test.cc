// Tests that the tasks of a grouped product cover every row and panel exactly once, and what they
// read.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "ops/grouped_matmul/expert_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/testing/matrix.h"

namespace opst {
namespace {

void ExpectCovered(const std::vector<int64_t>& counts, int64_t num_panels, int64_t rows_per_task) {
  const std::vector<ExpertTask> tasks = MakeExpertTasks(counts, num_panels, rows_per_task);
  std::vector<std::vector<int>> visits;
  for (const int64_t count : counts) {
    visits.emplace_back(static_cast<size_t>(count * num_panels), 0);
  }
  const auto limit = static_cast<int64_t>(kRowsPerTask);
  const int64_t most = rows_per_task > 0 ? std::min(rows_per_task, limit) : limit;
  for (const ExpertTask& task : tasks) {
    ASSERT_GT(task.num_rows, 0);
    ASSERT_LE(task.num_rows, most);
    ASSERT_GT(task.num_panels, 0);
    ASSERT_LE(task.num_panels, static_cast<int64_t>(kPanelsPerTask));
    for (int64_t row = 0; row < task.num_rows; ++row) {
      for (int64_t panel = 0; panel < task.num_panels; ++panel) {
        const int64_t index = (task.first_row + row) * num_panels + task.first_panel + panel;
        ++visits[static_cast<size_t>(task.expert)][static_cast<size_t>(index)];
      }
    }
  }
  for (const std::vector<int>& expert : visits) {
    for (const int count : expert) ASSERT_EQ(count, 1);
  }
}

TEST(ExpertTasksTest, EveryRowAndPanelIsInOneTask) {
  constexpr auto kRows = static_cast<int64_t>(kRowsPerTask);
  for (const int64_t num_panels : {1, 2, 15, 16, 17, 33}) {
    for (const int64_t rows_per_task : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{32}, kRows - 1,
                                        kRows, kRows + 1, int64_t{1} << 20}) {
      ExpectCovered({0, 3, 1, kRows, 0, kRows + 1, 6 * kRows + 9}, num_panels, rows_per_task);
    }
  }
}

TEST(ExpertTasksTest, NoRowsOrPanelsMakeNoTasks) {
  EXPECT_TRUE(MakeExpertTasks({}, 3, 0).empty());
  EXPECT_TRUE(MakeExpertTasks(std::vector<int64_t>(5, 0), 3, 0).empty());
  EXPECT_TRUE(MakeExpertTasks(std::vector<int64_t>(5, 7), 0, 0).empty());
}

// The hottest expert first; its rows are split evenly, not into a full task and a rest.
TEST(ExpertTasksTest, LongExpertsComeFirstAndAreSplitEvenly) {
  constexpr auto kHalf = static_cast<int64_t>(kRowsPerTask) * 3 / 4;
  const std::vector<ExpertTask> tasks =
      MakeExpertTasks(std::vector<int64_t>{2, 2 * kHalf + 1, 5}, 1, 0);
  ASSERT_EQ(tasks.size(), 4u);
  EXPECT_EQ(tasks[0].expert, 1);
  EXPECT_EQ(tasks[0].num_rows, kHalf);
  EXPECT_EQ(tasks[1].first_row, kHalf);
  EXPECT_EQ(tasks[1].num_rows, kHalf + 1);
  EXPECT_EQ(tasks[2].expert, 2);
  EXPECT_EQ(tasks[3].expert, 0);
}

PanelLayout LayoutOf(WeightType type, int64_t k) {
  return {type.format, PanelOrder::kPlain, PanelLayout::kWidth, k, type.group};
}

TEST(ExpertTasksTest, BlocksOfFloatsEndWithAZeroBehindAnOddLength) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const int64_t k : {1, 7, 255, 256, 257, 300}) {
      const Matrix x = Matrix::Random(dtype, 3, k, 1, 1, 2);
      const PanelProduct product(LayoutOf({WeightFormat::kBf16}, k));
      const InputRows rows(product, x.view());
      for (size_t block = 0; block < NumBlocks(static_cast<size_t>(k)); ++block) {
        std::vector<float> out(kBlockK + 2, -3.0f);
        rows.CopyBlock(2, block, out.data());
        const size_t length = BlockLength(static_cast<size_t>(k), block);
        for (size_t i = 0; i < length; ++i) {
          ASSERT_EQ(out[i], x.At(2, static_cast<int64_t>(block * kBlockK + i)));
        }
        if (length % 2 != 0) {
          ASSERT_EQ(out[length], 0.0f);
        }
        ASSERT_EQ(out[length + length % 2], -3.0f);
      }
    }
  }
}

// Rows rounded once for all tasks are those that each task would make, also from the middle of x.
TEST(ExpertTasksTest, RoundedRowsAreThoseOfATask) {
  const Context context;
  const Matrix x = Matrix::Random(DType::kBf16, 40, 512, 1, 1, 2);
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const ActivationFormat act : {ActivationFormat::kInt16, ActivationFormat::kInt8}) {
      const PanelProduct product(LayoutOf(format, 512), act);
      const InputRows each(product, x.view());
      InputRows once(product, x.view());
      std::vector<float> memory(InputRows::RoundedFloats(product, 512, 33));
      EXPECT_EQ(memory.empty(), format == WeightFormat::kF32);
      once.Round(context, 5, 33, memory.data());
      for (int64_t row = 5; row < 38; ++row) {
        for (size_t block = 0; block < 2; ++block) {
          std::vector<float> expected(kBlockK);
          std::vector<float> got(kBlockK);
          each.CopyBlock(row, block, expected.data());
          once.CopyBlock(row, block, got.data());
          ASSERT_EQ(std::memcmp(got.data(), expected.data(), product.row_bytes()), 0)
              << "row " << row << ", block " << block;
        }
      }
    }
  }
}

}  // namespace
}  // namespace opst
