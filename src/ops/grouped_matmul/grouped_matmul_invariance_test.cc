// Tests that a row's bits depend on the row and the weights alone, and that NaN stays in its row.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "kernels/isa.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/pack.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Four groups, one of them empty, one longer than a task.
struct Problem {
  explicit Problem(DType dtype, int64_t n = 300, int64_t k = 129)
      : x(Matrix::Random(dtype, 290, k, 1)),
        weights(Matrix::Random(dtype, 4 * n, k, 2)),
        packed(
            PackExperts(MakeContext(1), weights.Stacked(4), FormatOf(dtype), PanelOrder::kPlain)),
        width(n) {}

  Matrix Run(const Context& context) const {
    Matrix out(x.dtype(), x.rows(), width);
    GroupedMatmul(context, x.view(), offsets, packed, out.view());
    return out;
  }

  Matrix x;
  std::vector<int64_t> offsets = {0, 40, 40, 47, 290};
  Matrix weights;
  PackedWeights packed;
  int64_t width;
};

class GroupedMatmulInvarianceTest : public EachIsaTest {};

TEST_P(GroupedMatmulInvarianceTest, ThreadsAndTaskSizesDoNotChangeBits) {
  for (const DType dtype : kDtypes) {
    const Problem problem(dtype);
    const Matrix wanted = problem.Run(MakeContext(1));
    for (const int threads : {2, 3, 7}) {
      EXPECT_TRUE(problem.Run(MakeContext(threads)).HasSameBits(wanted)) << threads << " threads";
    }
    for (const char* rows : {"1", "7", "12", "13", "32", "128", "1000000"}) {
      const Context context = MakeContext(2, {{"expert_batch_size", rows}});
      EXPECT_TRUE(problem.Run(context).HasSameBits(wanted)) << "expert_batch_size " << rows;
    }
  }
}

TEST_P(GroupedMatmulInvarianceTest, RepeatsDoNotChangeBits) {
  const Problem problem(DType::kBf16);
  const Context context = MakeContext(3);
  const Matrix wanted = problem.Run(context);
  for (int repeat = 0; repeat < 20; ++repeat) {
    ASSERT_TRUE(problem.Run(context).HasSameBits(wanted)) << repeat;
  }
}

TEST_P(GroupedMatmulInvarianceTest, ARowAloneHasTheBitsItHasInTheBatch) {
  const Context context = MakeContext(1);
  for (const DType dtype : kDtypes) {
    Problem problem(dtype);
    const Matrix batch = problem.Run(context);
    for (const int64_t row : {0, 39, 40, 46, 47, 200, 289}) {
      std::vector<int64_t> offsets(5, 0);
      for (size_t group = 1; group < 5; ++group) offsets[group] = problem.offsets[group] > row;
      Matrix out(dtype, 1, problem.width);
      GroupedMatmul(context, problem.x.Rows(row, 1), offsets, problem.packed, out.view());
      EXPECT_TRUE(out.HasSameBits(0, batch, row)) << Name(dtype) << ", row " << row;
    }
  }
}

// Where multiply and add are fused, the chain is exactly the one that the header promises. SSE2 has
// no such instruction: its products are held to the tolerance instead.
TEST(GroupedMatmulFusedChainTest, BitsAreThoseOfOneFusedChain) {
  for (const std::string& isa : AvailableIsas()) {
    if (isa == "sse2") continue;
    SelectIsa(isa);
    for (const DType dtype : kDtypes) {
      const Problem problem(dtype, 37, 301);
      EXPECT_TRUE(problem.Run(MakeContext(2)).HasSameBits(problem.Run(MakeReferenceContext())))
          << isa << ", " << Name(dtype);
    }
  }
  SelectIsa("auto");
}

// A product that underflows to -0: the input that pads an odd pair must not turn it into +0.
TEST_P(GroupedMatmulInvarianceTest, TheSignOfZeroDoesNotDependOnTheNumberOfRows) {
  const Context context = MakeContext(1);
  for (const int64_t k : {1, 3}) {
    Matrix weights(DType::kBf16, 1, k);
    weights.Fill(-1e-30);
    const PackedWeights packed =
        PackExperts(context, weights.Stacked(1), WeightFormat::kBf16, PanelOrder::kPlain);
    Matrix x(DType::kF32, 40, k);
    x.Fill(1e-30);
    Matrix all(DType::kF32, 40, 1);
    Matmul(context, x.view(), packed, all.view());
    for (int64_t rows = 1; rows < 40; ++rows) {
      Matrix some(DType::kF32, 40, 1);
      Matmul(context, x.FirstRows(rows), packed, some.FirstRows(rows));
      ASSERT_TRUE(some.HasSameBits(0, all, 0)) << rows << " rows, K " << k;
    }
  }
}

TEST_P(GroupedMatmulInvarianceTest, NanAndInfinityPoisonTheirRowOnly) {
  const Context context = MakeContext(2);
  for (const DType dtype : kDtypes) {
    Problem problem(dtype);
    const Matrix clean = problem.Run(context);
    problem.x.Set(5, 128, kNan);
    problem.x.Set(43, 0, kInfinity);
    problem.x.Set(289, 64, -kInfinity);
    const Matrix out = problem.Run(context);
    for (int64_t row = 0; row < out.rows(); ++row) {
      if (row == 5) {
        for (const double value : out.Row(row)) ASSERT_TRUE(std::isnan(value));
      } else if (row == 43 || row == 289) {
        for (const double value : out.Row(row)) ASSERT_TRUE(std::isinf(value)) << value;
      } else {
        ASSERT_TRUE(out.HasSameBits(row, clean, row)) << Name(dtype) << ", row " << row;
      }
    }
  }
}

// The pair of an odd input must not turn infinity into NaN either.
TEST_P(GroupedMatmulInvarianceTest, InfinityTimesAWeightIsInfinityForEveryOddLength) {
  const Context context = MakeContext(1);
  for (const DType dtype : kDtypes) {
    for (const int64_t k : {1, 3, 255, 257}) {
      Matrix weights(dtype, 3, k);
      weights.Fill(2);
      Matrix x(dtype, 30, k);
      x.Fill(1);
      for (int64_t row = 0; row < 30; ++row) x.Set(row, k - 1, kInfinity);
      const PackedWeights packed =
          PackExperts(context, weights.Stacked(1), FormatOf(dtype), PanelOrder::kPlain);
      for (const int64_t rows : {1, 30}) {
        Matrix out(dtype, 30, 3);
        Matmul(context, x.FirstRows(rows), packed, out.FirstRows(rows));
        EXPECT_EQ(out.At(rows - 1, 2), kInfinity) << Name(dtype) << ", K " << k;
      }
    }
  }
}

TEST_P(GroupedMatmulInvarianceTest, BrokenWeightsPoisonTheirGroupOnly) {
  Problem problem(DType::kF32);
  const Context context = MakeContext(2);
  const Matrix clean = problem.Run(context);
  problem.weights.Set(2 * problem.width + 9, 3, kNan);
  problem.packed =
      PackExperts(context, problem.weights.Stacked(4), WeightFormat::kF32, PanelOrder::kPlain);
  const Matrix out = problem.Run(context);
  for (int64_t row = 0; row < out.rows(); ++row) {
    for (int64_t n = 0; n < problem.width; ++n) {
      if (row >= 40 && row < 47 && n == 9) {
        ASSERT_TRUE(std::isnan(out.At(row, n)));
      } else {
        ASSERT_EQ(out.At(row, n), clean.At(row, n)) << row << " " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, GroupedMatmulInvarianceTest, testing::ValuesIn(AvailableIsas()),
                         IsaName);

// One context, several callers: sections take turns, scratch memory is not shared.
TEST(GroupedMatmulThreadsTest, CallersMayShareAContext) {
  const Problem problem(DType::kBf16, 40, 65);
  const Context context = MakeContext(2);
  const Matrix wanted = problem.Run(context);
  std::vector<int> num_wrong(4, 0);
  std::vector<std::thread> callers;
  for (int& wrong : num_wrong) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 10; ++repeat)
        wrong += !problem.Run(context).HasSameBits(wanted);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace opst
