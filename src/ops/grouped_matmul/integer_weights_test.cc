// Tests of the matrix product and the fused layer with int8 and int4 weights, whatever activations
// are rounded to, against fp64 sums over the very weights that the panels hold.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/moe_oracle.h"
#include "ops/testing/plans.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/pack.h"

namespace opst {
namespace {

constexpr WeightType kTypes[] = {{WeightFormat::kInt8, 32},  {WeightFormat::kInt8, 128},
                                 {WeightFormat::kInt4, 32},  {WeightFormat::kInt4, 64},
                                 {WeightFormat::kInt4, 128}, {WeightFormat::kMxfp4, 32}};

// Half of the largest rounding of an activation, in parts of its group's maximum.
double HalfStep(const std::string& act) {
  if (act == "f32") return 0;
  return 0.5 / (act == "int8" ? 127 : 32767) + 0x1p-23;
}

// E matrices of normal weights, packed; and the values that the panels hold.
struct IntegerWeights {
  IntegerWeights(const Context& context, WeightType weight_type, int64_t experts, int64_t rows,
                 int64_t columns, PanelOrder order, uint32_t seed)
      : type(weight_type), held(DType::kF32, experts * rows, columns) {
    const double deviation = 1 / std::sqrt(static_cast<double>(columns));
    const Matrix exact = Matrix::Random(DType::kF32, experts * rows, columns, seed, deviation);
    packed = PackExperts(context, exact.Stacked(experts), type, order);
    for (int64_t row = 0; row < held.rows(); ++row) {
      for (int64_t k = 0; k < columns; ++k) held.Set(row, k, packed.At(row / rows, row % rows, k));
    }
  }

  WeightType type;
  Matrix held;
  PackedWeights packed;
};

// The largest |x| of each element's group.
std::vector<double> GroupMaxima(const std::vector<double>& x, size_t group) {
  std::vector<double> maxima(x.size());
  for (size_t begin = 0; begin < x.size(); begin += group) {
    const size_t end = std::min(begin + group, x.size());
    double most = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
    std::fill(maxima.begin() + static_cast<std::ptrdiff_t>(begin),
              maxima.begin() + static_cast<std::ptrdiff_t>(end), most);
  }
  return maxima;
}

class IntegerWeightsTest : public EachIsaTest {
 protected:
  void ExpectCorrect(const std::vector<int64_t>& offsets, int64_t n, int64_t k, WeightType type,
                     const std::string& act) {
    const Context context = MakeContext(1, {{"act", act}});
    const auto num_groups = static_cast<int64_t>(offsets.size()) - 1;
    const IntegerWeights weights(context, type, num_groups, n, k, PanelOrder::kPlain, 2);
    const Matrix x = Matrix::Random(DType::kF32, offsets.back(), k, 1);
    Matrix out(DType::kF32, offsets.back(), n);
    GroupedMatmul(context, x.view(), offsets, weights.packed, out.view());
    WorstElement worst;
    for (int64_t row = 0; row < x.rows(); ++row) {
      const auto above = std::upper_bound(offsets.begin(), offsets.end(), row);
      const int64_t group = above - offsets.begin() - 1;
      const std::vector<double> input = x.Row(row);
      const auto maxima = GroupMaxima(input, static_cast<size_t>(type.group));
      for (int64_t column = 0; column < n; ++column) {
        const std::vector<double> w = weights.held.Row(group * n + column);
        const DotProduct dot = Dot(input, w);
        const DotProduct rounding = Dot(maxima, w);
        worst.Add(row, column, out.At(row, column), dot.value,
                  ChainError(k + 3, dot.magnitude) + HalfStep(act) * rounding.magnitude);
      }
    }
    EXPECT_TRUE(worst.is_within_tolerance())
        << worst << "; N " << n << ", K " << k << ", " << type.ToString() << ", act " << act;
  }
};

TEST_P(IntegerWeightsTest, ProductsAreWithinTheRoundingOfActivations) {
  for (const WeightType type : kTypes) {
    for (const char* act : {"int16", "int8", "f32"}) {
      for (const int64_t k : {1, 31, 33, 128, 255, 257, 600}) {
        ExpectCorrect({0, 1}, 17, k, type, act);
        ExpectCorrect({0, 3, 3, 29}, 35, k, type, act);
      }
    }
  }
}

// All numbers of rows, any number of workers and any size of tasks.
TEST_P(IntegerWeightsTest, ARowsBitsDependOnTheRowAlone) {
  constexpr int64_t kMost = 70;
  for (const WeightType type : kTypes) {
    for (const char* act : {"int16", "int8", "f32"}) {
      const Context context = MakeContext(1, {{"act", act}});
      const IntegerWeights weights(context, type, 1, 300, 290, PanelOrder::kPlain, 2);
      Matrix x = Matrix::Random(DType::kBf16, kMost, 290, 1);
      Matrix most(DType::kF32, kMost, 300);
      Matmul(context, x.view(), weights.packed, most.view());
      for (int64_t rows = 0; rows < kMost; ++rows) {
        Matrix out(DType::kF32, rows, 300);
        Matmul(context, x.FirstRows(rows), weights.packed, out.view());
        for (int64_t row = 0; row < rows; ++row) ASSERT_TRUE(out.HasSameBits(row, most, row));
      }
      for (const char* batch : {"1", "7", "32"}) {
        Matrix out(DType::kF32, kMost, 300);
        const Context other = MakeContext(3, {{"act", act}, {"expert_batch_size", batch}});
        Matmul(other, x.view(), weights.packed, out.view());
        EXPECT_TRUE(out.HasSameBits(most)) << batch << ", act " << act;
      }
    }
  }
}

TEST_P(IntegerWeightsTest, NotANumberAndInfinityStayInTheirRow) {
  const Context context = MakeContext(1);
  for (const WeightType type : kTypes) {
    const IntegerWeights weights(context, type, 1, 20, 70, PanelOrder::kPlain, 2);
    Matrix x = Matrix::Random(DType::kF32, 14, 70, 1);
    Matrix clean(DType::kF32, 14, 20);
    Matmul(context, x.view(), weights.packed, clean.view());
    x.Set(3, 69, std::numeric_limits<double>::quiet_NaN());
    x.Set(9, 0, std::numeric_limits<double>::infinity());
    Matrix out(DType::kF32, 14, 20);
    Matmul(context, x.view(), weights.packed, out.view());
    for (int64_t row = 0; row < 14; ++row) {
      if (row == 3 || row == 9) {
        for (int64_t n = 0; n < 20; ++n) EXPECT_TRUE(std::isnan(out.At(row, n)));
      } else {
        EXPECT_TRUE(out.HasSameBits(row, clean, row));
      }
    }
  }
}

// TestExperts whose matrices are what integer panels hold.
TestExperts IntegerExperts(const Context& context, WeightType type, int64_t hidden, int64_t ffn) {
  TestExperts experts(context, DType::kF32, 5, hidden, ffn, 1);
  const IntegerWeights gate_up(context, type, 5, 2 * ffn, hidden, PanelOrder::kGateUp, 7);
  const IntegerWeights down(context, type, 5, hidden, ffn, PanelOrder::kPlain, 8);
  experts.gate_up = gate_up.held;
  experts.down = down.held;
  experts.packed = {gate_up.packed, down.packed};
  return experts;
}

// Σ (a - b)² / Σ b².
double RelativeSquare(const Matrix& a, const Matrix& b) {
  double difference = 0;
  double total = 0;
  for (int64_t row = 0; row < a.rows(); ++row) {
    for (int64_t column = 0; column < a.columns(); ++column) {
      const double wanted = b.At(row, column);
      difference += (a.At(row, column) - wanted) * (a.At(row, column) - wanted);
      total += wanted * wanted;
    }
  }
  return difference / total;
}

TEST_P(IntegerWeightsTest, TheFusedLayerEqualsFp64AndItsRoundingIsThatOfItsActivations) {
  for (const WeightType type : kTypes) {
    for (const auto& [hidden, ffn] : {std::pair<int64_t, int64_t>{33, 41}, {290, 270}}) {
      const Context exact = MakeContext(1, {{"act", "f32"}});
      const TestExperts experts = IntegerExperts(exact, type, hidden, ffn);
      const Matrix x = Matrix::Random(DType::kF32, 40, hidden, 3);
      const RoutingPlan plan = MakePlan(exact, RandomSlots(40, 5, 2, 4, {.skew = 1}), 5);
      Matrix wanted(DType::kF32, 40, hidden);
      MoeFfn(exact, x.view(), plan, experts.packed, {}, wanted.view());
      const WorstElement worst = CompareMoe(MoeOracle(x, plan, experts, {}), wanted, 40);
      EXPECT_TRUE(worst.is_within_tolerance()) << worst << "; " << type.ToString();
      // A rounding of step s has the variance s²/12; s is the maximum of a group, 3 deviations,
      // over the largest integer. Two products in a row, and twice the deviation for luck.
      for (const auto& [act, largest] :
           {std::pair<const char*, double>{"int16", 32767}, {"int8", 127}}) {
        Matrix out(DType::kF32, 40, hidden);
        MoeFfn(MakeContext(2, {{"act", act}}), x.view(), plan, experts.packed, {}, out.view());
        const double step = 3 / largest;
        EXPECT_LE(RelativeSquare(out, wanted), 2 * 4 * step * step / 12)
            << type.ToString() << ", act " << act;
      }
    }
  }
}

TEST_P(IntegerWeightsTest, ChunksAndThreadsDoNotChangeTheFusedLayer) {
  for (const WeightType type : {WeightType(WeightFormat::kInt8), WeightType(WeightFormat::kInt4)}) {
    const Context one = MakeContext(1);
    const TestExperts experts = IntegerExperts(one, type, 77, 300);
    const Matrix x = Matrix::Random(DType::kBf16, 200, 77, 3);
    const RoutingPlan plan = MakePlan(one, RandomSlots(200, 5, 2, 4, {.skew = 2}), 5);
    Matrix wanted(DType::kBf16, 200, 77);
    MoeFfn(one, x.view(), plan, experts.packed, {}, wanted.view());
    for (const int threads : {2, 3}) {
      for (const char* bytes : {"0", "2MB"}) {
        Matrix out(DType::kBf16, 200, 77);
        MoeFfn(MakeContext(threads, {{"stage1_buffer_size", bytes}}), x.view(), plan,
               experts.packed, {}, out.view());
        EXPECT_TRUE(out.HasSameBits(wanted)) << threads << " threads, " << bytes;
      }
    }
  }
}

TEST(IntegerWeightsSettingTest, ForcedF32IsActF32) {
  const Context f32 = MakeContext(1, {{"act", "f32"}});
  const IntegerWeights weights(f32, WeightFormat::kInt4, 1, 20, 70, PanelOrder::kPlain, 2);
  const Matrix x = Matrix::Random(DType::kF32, 3, 70, 1);
  Matrix wanted(DType::kF32, 3, 20);
  Matrix forced(DType::kF32, 3, 20);
  Matmul(f32, x.view(), weights.packed, wanted.view());
  Matmul(MakeContext(1, {{"force_fp32", "1"}}), x.view(), weights.packed, forced.view());
  EXPECT_TRUE(forced.HasSameBits(wanted));
}

TEST(IntegerWeightsSettingTest, AutoIsInt8FromFourRowsAMatrixOn) {
  const Context context = MakeContext(1, {{"act", "auto"}});
  const IntegerWeights weights(context, WeightFormat::kInt4, 2, 20, 70, PanelOrder::kPlain, 2);
  for (const int64_t rows : {6, 7, 8, 30}) {
    const Matrix x = Matrix::Random(DType::kF32, rows, 70, 1);
    const std::vector<int64_t> offsets{0, rows / 2, rows};
    Matrix wanted(DType::kF32, rows, 20);
    Matrix got(DType::kF32, rows, 20);
    const Context named = MakeContext(1, {{"act", rows >= 8 ? "int8" : "int16"}});
    GroupedMatmul(named, x.view(), offsets, weights.packed, wanted.view());
    GroupedMatmul(context, x.view(), offsets, weights.packed, got.view());
    EXPECT_TRUE(got.HasSameBits(wanted)) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, IntegerWeightsTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
