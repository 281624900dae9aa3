// Tests of the fused grouped products: fp64, the unfused operators bit for bit, and errors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/grouped_matmul_fused.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/moe_oracle.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/sparse_rows.h"
#include "opst/pack.h"

namespace opst {
namespace {

// Rows of some type; those of int8 have scales.
class Input {
 public:
  Input(DType type, int64_t rows, int64_t columns, uint32_t seed)
      : is_int8_(type == DType::kI8),
        floats_(Matrix::Random(is_int8_ ? DType::kF32 : type, rows, columns, seed, 1, 1)),
        scales_(static_cast<size_t>(rows), 1.0f) {
    if (!is_int8_) return;
    std::mt19937 random(seed);
    for (int64_t row = 0; row < rows; ++row) {
      scales_[static_cast<size_t>(row)] = static_cast<float>(1 + random() % 100) / 4096;
      for (int64_t k = 0; k < columns; ++k) {
        integers_.push_back(static_cast<int8_t>(static_cast<int>(random() % 256) - 128));
      }
    }
  }

  ConstTensorView view() const {
    if (!is_int8_) return floats_.view();
    return {integers_.data(), DType::kI8, Shape{floats_.rows(), floats_.columns()}};
  }
  ConstTensorView scales() const {
    if (!is_int8_) return {};
    return {scales_.data(), Shape{static_cast<int64_t>(scales_.size())}};
  }
  std::vector<double> Row(int64_t row) const {
    if (!is_int8_) return floats_.Row(row);
    std::vector<double> values;
    for (int64_t k = 0; k < floats_.columns(); ++k) {
      const int8_t integer = integers_[static_cast<size_t>(row * floats_.columns() + k)];
      values.push_back(integer * static_cast<double>(scales_[static_cast<size_t>(row)]));
    }
    return values;
  }
  Matrix& floats() { return floats_; }

 private:
  bool is_int8_;
  Matrix floats_;
  std::vector<int8_t> integers_;
  std::vector<float> scales_;
};

// Random sizes of groups, each with any of the matrices.
struct Groups {
  Groups(std::mt19937& random, int64_t experts) {
    const int64_t count = 1 + random() % 4;
    for (int64_t group = 0; group < count; ++group) {
      offsets.push_back(offsets.back() + random() % 8);
      experts_of.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(experts)));
    }
  }
  int64_t num_rows() const { return offsets.back(); }
  int64_t expert_of(int64_t row) const {
    size_t group = 0;
    while (row >= offsets[group + 1]) ++group;
    return experts_of[group];
  }

  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> experts_of;
};

struct Quantized {
  Quantized(int64_t rows, int64_t width)
      : num_rows(rows),
        ffn(width),
        values(static_cast<size_t>(rows * width), 99),
        scales(static_cast<size_t>(rows), 99) {}
  QuantizedRows views() {
    return {TensorView(values.data(), DType::kI8, Shape{num_rows, ffn}),
            TensorView(scales.data(), Shape{num_rows})};
  }
  bool operator==(const Quantized&) const = default;

  int64_t num_rows, ffn;
  std::vector<int8_t> values;
  std::vector<float> scales;
};

constexpr DType kInputs[] = {DType::kF32, DType::kBf16, DType::kF16, DType::kI8};
constexpr DType kFloats[] = {DType::kF32, DType::kBf16, DType::kF16};

class GroupedMatmulFusedTest : public EachIsaTest {
 protected:
  void CheckQuantize(uint32_t seed);
  void CheckFinalize(uint32_t seed);

  const Context context_ = MakeContext(2);
};

void GroupedMatmulFusedTest::CheckQuantize(uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t experts = 1 + random() % 4;
  const int64_t hidden = 1 + random() % 40;
  const int64_t ffn = 1 + random() % 40;
  const Groups groups(random, experts);
  const Input x(kInputs[random() % 4], groups.num_rows(), hidden, seed);
  TestExperts weights(context_, kFloats[random() % 3], experts, hidden, ffn, seed);
  const bool has_gate = random() % 3 > 0;
  if (!has_gate) weights.DropGate(context_);
  if (random() % 2 == 0) weights.AddBiases(seed);
  const int64_t smooth_rows = random() % 2 == 0 ? 1 : experts;
  const Matrix smooth = Matrix::Random(DType::kF32, smooth_rows, ffn, seed + 9, 1, 1);
  const bool is_smooth = random() % 2 == 0;
  const MoeFfnOptions options{.activation = static_cast<Activation>(random() % 6)};
  if (!has_gate && options.activation == Activation::kClampedSwiglu) return;
  Quantized out(groups.num_rows(), ffn);
  GroupedMatmulQuantize(context_, x.view(), groups.offsets, weights.packed.gate_up,
                        {.activation = options.activation,
                         .x_scales = x.scales(),
                         .bias = weights.packed.gate_up_bias,
                         .smooth = is_smooth ? smooth.view() : ConstTensorView(),
                         .group_experts = groups.experts_of},
                        out.views());
  for (int64_t row = 0; row < groups.num_rows(); ++row) {
    const int64_t expert = groups.expert_of(row);
    std::vector<Bounded> wanted = HiddenActivations(weights, expert, options, x.Row(row));
    Bounded most;
    for (int64_t f = 0; f < ffn; ++f) {
      Bounded& v = wanted[static_cast<size_t>(f)];
      const double factor = is_smooth ? smooth.At(smooth_rows == 1 ? 0 : expert, f) : 1;
      v = {v.value * factor,
           1.02 * v.error * std::abs(factor) + 0x1p-24 * std::abs(v.value * factor)};
      most.value = std::max(most.value, std::abs(v.value));
      most.error = std::max(most.error, v.error);
    }
    const double scale = out.scales[static_cast<size_t>(row)];
    ASSERT_NEAR(scale, most.value / 127, most.error / 127 + 0x1p-23 * most.value / 127 + 0x1p-126);
    for (int64_t f = 0; f < ffn; ++f) {
      const Bounded& v = wanted[static_cast<size_t>(f)];
      const double q = out.values[static_cast<size_t>(row * ffn + f)];
      ASSERT_LE(std::abs(q * scale - v.value), scale * (0.5 + 0x1p-15) + v.error + 0x1p-119)
          << seed << ": " << row << "," << f;
    }
  }
}

TEST_P(GroupedMatmulFusedTest, AThousandQuantizedProductsAreWithinTheBoundOfInt8) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) CheckQuantize(seed);
}

TEST_P(GroupedMatmulFusedTest, WideQuantizedRowsInAnyPartsAndThreadsHaveTheSameBits) {
  const TestExperts weights(context_, DType::kBf16, 3, 300, 530, 1);
  const Input x(DType::kBf16, 150, 300, 2);
  const std::vector<int64_t> offsets = {0, 140, 140, 150};
  const auto run = [&](int threads, size_t workspace_bytes) {
    Quantized out(150, 530);
    GroupedMatmulQuantize(MakeContext(threads), x.view(), offsets, weights.packed.gate_up,
                          {.workspace_bytes = workspace_bytes}, out.views());
    return out;
  };
  const Quantized wanted = run(1, size_t{1} << 30);
  for (const int threads : {1, 2, 5}) {
    for (const size_t bytes : {size_t{1}, size_t{40'000}, size_t{1} << 20}) {
      EXPECT_EQ(run(threads, bytes), wanted) << threads << ", " << bytes;
    }
  }
}

TEST_P(GroupedMatmulFusedTest, ARowThatIsNoNumberHasAScaleThatIsNone) {
  const TestExperts weights(context_, DType::kF32, 1, 7, 9, 1);
  Input x(DType::kF32, 4, 7, 2);
  const std::vector<int64_t> offsets = {0, 4};
  Quantized before(4, 9);
  GroupedMatmulQuantize(context_, x.view(), offsets, weights.packed.gate_up, {}, before.views());
  x.floats().Set(1, 3, std::numeric_limits<double>::quiet_NaN());
  for (int64_t k = 0; k < 7; ++k) x.floats().Set(2, k, 0);
  Quantized out(4, 9);
  GroupedMatmulQuantize(context_, x.view(), offsets, weights.packed.gate_up, {}, out.views());
  EXPECT_TRUE(std::isnan(out.scales[1]));
  EXPECT_EQ(out.scales[2], 0);
  for (const size_t row : {size_t{0}, size_t{3}}) EXPECT_EQ(out.scales[row], before.scales[row]);
  for (size_t f = 0; f < 18; ++f) EXPECT_EQ(out.values[9 + f], 0);
}

// One random product with its targets, and its elements in fp64.
struct FinalizeCase {
  explicit FinalizeCase(std::mt19937& random, uint32_t seed)
      : experts(1 + random() % 4),
        k(1 + random() % 40),
        n(1 + random() % 40),
        tokens(1 + random() % 8),
        groups(random, experts),
        x(kInputs[random() % 4], groups.num_rows(), k, seed),
        weights(Matrix::Random(kFloats[random() % 3], experts * n, k, seed + 1)),
        bias(Matrix::Random(DType::kF32, experts, n, seed + 2, 1, 1)),
        row_weights(Matrix::Random(DType::kF32, 1, groups.num_rows(), seed + 3)),
        num_shared(random() % static_cast<uint32_t>(tokens + 1)),
        shared(Matrix::Random(kFloats[random() % 3], num_shared, n, seed + 4, 1, 2)),
        before(Matrix::Random(kFloats[random() % 3], tokens, n, seed + 5, 1, 3)) {
    const auto upper = [&](int64_t most) {
      return static_cast<int64_t>(random() % static_cast<uint32_t>(most + 1));
    };
    const Shape rows{groups.num_rows()};
    for (int64_t row = 0; row < rows[0]; ++row) {
      targets.push_back(static_cast<int32_t>(upper(tokens)) - 1);
    }
    options.row_indices = {targets.data(), rows};
    if (upper(1) == 0) options.row_weights = {row_weights.view().data(), DType::kF32, rows};
    options.x_scales = x.scales();
    if (upper(1) == 0) options.bias = bias.view();
    if (num_shared > 0) options.shared = shared.view();
    options.shared_weight = 0.75f;
    options.first_shared_row = upper(tokens - num_shared);
    options.group_experts = groups.experts_of;
    if (upper(1) == 0) options.output_mode = OutputMode::kAdd;
  }

  Bounded Element(int64_t token, int64_t column) const {
    DotProduct sum;
    double error = 0;
    const auto add = [&](double value) {
      sum.value += value;
      sum.magnitude += std::abs(value);
    };
    if (options.output_mode == OutputMode::kAdd) add(before.At(token, column));
    const int64_t from = token - options.first_shared_row;
    if (from >= 0 && from < num_shared) add(0.75 * shared.At(from, column));
    int64_t terms = 2;
    for (int64_t row = 0; row < groups.num_rows(); ++row) {
      if (targets[static_cast<size_t>(row)] != token) continue;
      const int64_t expert = groups.expert_of(row);
      const DotProduct dot = Dot(x.Row(row), weights.Row(expert * n + column));
      const double offset = options.bias.rank() > 0 ? bias.At(expert, column) : 0;
      const double weight = options.row_weights.rank() > 0 ? row_weights.At(0, row) : 1;
      add(weight * (dot.value + offset));
      // A scale and a bias are two more roundings.
      error += std::abs(weight) * ChainError(k + 2, dot.magnitude + std::abs(offset));
      ++terms;
    }
    return {sum.value, 1.01 * error + ChainError(terms, sum.magnitude)};
  }

  int64_t experts, k, n, tokens;
  Groups groups;
  Input x;
  Matrix weights, bias, row_weights;
  int64_t num_shared;
  Matrix shared, before;
  std::vector<int32_t> targets;
  GroupedMatmulFinalizeOptions options = {};
};

void GroupedMatmulFusedTest::CheckFinalize(uint32_t seed) {
  std::mt19937 random(seed);
  const FinalizeCase one(random, seed);
  Matrix out = one.before;
  GroupedMatmulFinalize(context_, one.x.view(), one.groups.offsets,
                        PackExperts(context_, one.weights.Stacked(one.experts),
                                    FormatOf(one.weights.dtype()), PanelOrder::kPlain),
                        one.options, out.view());
  WorstElement worst;
  for (int64_t token = 0; token < one.tokens; ++token) {
    for (int64_t column = 0; column < one.n; ++column) {
      const Bounded wanted = one.Element(token, column);
      worst.Add(token, column, out.At(token, column), wanted.value,
                wanted.error + 1.01 * RoundingError(out.dtype(), wanted.value));
    }
  }
  ASSERT_TRUE(worst.is_within_tolerance()) << worst << " seed " << seed;
  ASSERT_TRUE(out.HasUntouchedGaps());
}

TEST_P(GroupedMatmulFusedTest, AThousandFinalizedProductsEqualFp64) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) CheckFinalize(seed);
}

TEST_P(GroupedMatmulFusedTest, FinalizeEqualsProductAndScatterBitForBitForAnyThreads) {
  const int64_t rows = 300, k = 270, n = 530, tokens = 120;
  const Input x(DType::kBf16, rows, k, 1);
  const Matrix weights = Matrix::Random(DType::kBf16, 3 * n, k, 2);
  const Matrix row_weights = Matrix::Random(DType::kF32, 1, rows, 3);
  const ConstTensorView weight_view(row_weights.view().data(), DType::kF32, Shape{rows});
  const std::vector<int64_t> offsets = {0, 200, 200, rows};
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < rows; ++row) {
    targets.push_back(static_cast<int32_t>(row * 7 % (tokens + 1)) - 1);
  }
  const ConstTensorView target_view(targets.data(), Shape{rows});
  const PackedWeights packed =
      PackExperts(context_, weights.Stacked(3), WeightFormat::kBf16, PanelOrder::kPlain);
  Matrix products(DType::kF32, rows, n);
  GroupedMatmul(context_, x.view(), offsets, packed, products.view());
  for (const DType dtype : kFloats) {
    Matrix wanted(dtype, tokens, n);
    SparseScatterAdd(context_, products.view(), target_view, weight_view, OutputMode::kOverwrite,
                     wanted.view());
    for (const int threads : {1, 2, 5}) {
      Matrix out(dtype, tokens, n);
      GroupedMatmulFinalize(MakeContext(threads), x.view(), offsets, packed,
                            {.row_indices = target_view, .row_weights = weight_view}, out.view());
      EXPECT_TRUE(out.HasSameBits(wanted)) << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, GroupedMatmulFusedTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(GroupedMatmulFusedErrorsTest, WrongArgumentsOfQuantizeAreNamedAndNothingIsWritten) {
  const Context context = MakeContext(1);
  const TestExperts weights(context, DType::kF32, 2, 4, 3, 1);
  const Input x(DType::kF32, 5, 4, 1), integers(DType::kI8, 5, 4, 1);
  Quantized out(5, 3), wide(5, 6);
  const std::vector<int64_t> offsets = {0, 2, 5};
  const auto reject = [&](const Input& input, const GroupedMatmulQuantizeOptions& options,
                          QuantizedRows rows) {
    return Rejection([&] {
      GroupedMatmulQuantize(context, input.view(), offsets, weights.packed.gate_up, options, rows);
    });
  };
  EXPECT_EQ(reject(integers, {}, out.views()),
            "[grouped_matmul_quantize] x_scales must be contiguous [R] f32 for an i8 input, else "
            "absent; got [] f32 for [5,4] i8");
  EXPECT_EQ(reject(x, {}, wide.views()),
            "[grouped_matmul_quantize] values must be [R,F] i8; got [5,6] i8 for [5,3]");
  const Matrix smooth(DType::kF32, 3, 3);
  EXPECT_EQ(reject(x, {.smooth = smooth.view()}, out.views()),
            "[grouped_matmul_quantize] smooth must be [E,F] or [1,F] f32, or absent; got [3,3] f32 "
            "for weights 2 x [6,4] f32 gate_up panels");
  const std::vector<int32_t> ids = {0, 2};
  EXPECT_EQ(reject(x, {.group_experts = ids}, out.views()),
            "[grouped_matmul_quantize] group_experts must be 0..1; got invalid expert index 2 at "
            "[1]");
  EXPECT_EQ(out, Quantized(5, 3));
}

TEST(GroupedMatmulFusedErrorsTest, WrongArgumentsOfFinalizeAreNamedAndNothingIsWritten) {
  const Context context = MakeContext(1);
  const Matrix weights = Matrix::Random(DType::kF32, 2 * 3, 4, 1);
  const PackedWeights packed =
      PackExperts(context, weights.Stacked(2), WeightFormat::kF32, PanelOrder::kPlain);
  const Input x(DType::kF32, 5, 4, 1);
  const std::vector<int64_t> offsets = {0, 2, 5};
  Matrix out(DType::kF32, 2, 3);
  const auto reject = [&](const GroupedMatmulFinalizeOptions& options) {
    return Rejection(
        [&] { GroupedMatmulFinalize(context, x.view(), offsets, packed, options, out.view()); });
  };
  const std::vector<int32_t> targets = {0, 1, -1, 2, 0};
  const ConstTensorView view(targets.data(), Shape{5});
  EXPECT_EQ(reject({.row_indices = view}),
            "[grouped_matmul_finalize] row indices must be -1 or 0..1; got invalid row index 2 at "
            "[3]");
  EXPECT_EQ(reject({.row_indices = ConstTensorView(targets.data(), Shape{4})}),
            "[grouped_matmul_finalize] row_indices must name a place for every row; got [4] i32 "
            "for [5,4] f32");
  const Matrix shared(DType::kF32, 2, 3);
  EXPECT_EQ(reject({.row_indices = view, .shared = shared.view(), .first_shared_row = 1}),
            "[grouped_matmul_finalize] shared must be [S,N] f32, bf16 or f16 that ends inside the "
            "output, or absent; got [2,3] f32 from row 1 of [2,3] f32");
  EXPECT_TRUE(out.IsUnwritten(0));
}

}  // namespace
}  // namespace opst
