// Tests of integer packing: errors within the promised parts of a scale, bits of numbers that are
// codes already, tails, zeros, and weights that no scale can hold.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/isa.h"
#include "opst/pack.h"

namespace opst {
namespace {

constexpr WeightType kTypes[] = {{WeightFormat::kInt8, 32},  {WeightFormat::kInt8, 64},
                                 {WeightFormat::kInt8, 128}, {WeightFormat::kInt4, 32},
                                 {WeightFormat::kInt4, 64},  {WeightFormat::kInt4, 128},
                                 {WeightFormat::kMxfp4, 32}};

std::vector<float> RandomWeights(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> weights(static_cast<size_t>(count));
  for (float& weight : weights) weight = normal(random);
  return weights;
}

ConstTensorView Stacked(const std::vector<float>& weights, int64_t experts, int64_t columns) {
  const int64_t rows = static_cast<int64_t>(weights.size()) / experts / columns;
  return ConstTensorView(weights.data(), Shape{experts, rows, columns});
}

float ScaleAt(const PackedWeights& weights, int64_t row, int64_t k) {
  const PanelLayout& layout = weights.layout();
  F16 scale;
  std::memcpy(&scale, weights.expert(0) + layout.ScaleOffset(row / 16, row % 16, k), sizeof(scale));
  return ToFloat(scale);
}

TEST(QuantizeTest, ErrorsAreWithinTheirPartOfAScale) {
  const Context context;
  for (const WeightType type : kTypes) {
    for (const int64_t in : {1, 31, 32, 33, 129, 300}) {
      const std::vector<float> weights = RandomWeights(21 * in, 1);
      const PackedWeights packed =
          PackExperts(context, Stacked(weights, 1, in), type, PanelOrder::kPlain);
      double squares = 0;
      for (int64_t row = 0; row < 21; ++row) {
        for (int64_t k = 0; k < in; ++k) {
          const float scale = std::abs(ScaleAt(packed, row, k));
          const double error = packed.At(0, row, k) - weights[static_cast<size_t>(row * in + k)];
          const double most = type.format == WeightFormat::kInt8 ? 0.5001 : 2.0;
          ASSERT_LE(std::abs(error), most * scale) << type.ToString() << " [" << row << "," << k;
          squares += error * error;
        }
      }
      // Uniform roundings of a step of (3 deviations of 0.02) / codes, with half as much again. The
      // steps of mxfp4 are 1 to 4 of 12; most weights are where they are 1 or 2.
      const double codes = type.format == WeightFormat::kInt8 ? 127 : 7.5;
      const double step = 3.2 * 0.02 / (type.format == WeightFormat::kMxfp4 ? 6 : codes);
      EXPECT_LE(std::sqrt(squares / static_cast<double>(weights.size())),
                1.5 * step / std::sqrt(12));
    }
  }
}

// What Q8_0 and Q4_0 hold is such numbers: packing them again loses nothing.
TEST(QuantizeTest, NumbersThatAreCodesKeepTheirBits) {
  const Context context;
  std::mt19937 random(5);
  for (const WeightType type : {WeightType(WeightFormat::kInt8), WeightType(WeightFormat::kInt4)}) {
    const bool is_int8 = type.format == WeightFormat::kInt8;
    std::vector<float> weights(32 * 96);
    for (size_t begin = 0; begin < weights.size(); begin += 32) {
      const float scale =
          ToFloat(ToF16(std::uniform_real_distribution<float>(1e-4f, 0.1f)(random)));
      const int sign = random() % 2 == 0 ? 1 : -1;
      for (size_t i = 0; i < 32; ++i) {
        const int code =
            is_int8 ? static_cast<int>(random() % 255) - 127 : static_cast<int>(random() % 16) - 8;
        weights[begin + i] = scale * static_cast<float>(sign * code);
      }
      weights[begin + random() % 32] = scale * static_cast<float>(sign * (is_int8 ? 127 : -8));
    }
    const PackedWeights packed =
        PackExperts(context, Stacked(weights, 1, 96), type, PanelOrder::kPlain);
    for (int64_t row = 0; row < 32; ++row) {
      for (int64_t k = 0; k < 96; ++k) {
        ASSERT_EQ(packed.At(0, row, k), weights[static_cast<size_t>(row * 96 + k)])
            << type.ToString() << " [" << row << "," << k << "]";
      }
    }
  }
}

// What MXFP4 checkpoints hold, with any largest code: packing it again loses nothing.
TEST(QuantizeTest, FourBitFloatsKeepTheirValues) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const Context context;
  std::mt19937 random(6);
  std::vector<float> weights;
  for (int exponent = -23; exponent <= 16; ++exponent) {
    for (size_t largest = 1; largest < 8; ++largest) {
      for (size_t i = 0; i < 32; ++i) {
        const float value = i == 0 ? kValues[largest] : kValues[random() % (largest + 1)];
        weights.push_back(std::ldexp(random() % 2 == 0 ? value : -value, exponent));
      }
    }
  }
  const PackedWeights packed =
      PackExperts(context, Stacked(weights, 1, 32), WeightFormat::kMxfp4, PanelOrder::kPlain);
  for (size_t i = 0; i < weights.size(); ++i) {
    ASSERT_EQ(packed.At(0, static_cast<int64_t>(i / 32), static_cast<int64_t>(i % 32)), weights[i])
        << "row " << i / 32;
  }
}

TEST(QuantizeTest, GroupsOfZerosAreZerosWithAScaleOfOne) {
  const Context context;
  for (const WeightType type : kTypes) {
    std::vector<float> weights(3 * 200, 0.0f);
    weights[199] = 1e-30f;  // rounds to zero, with the least scale there is
    const PackedWeights packed =
        PackExperts(context, Stacked(weights, 1, 200), type, PanelOrder::kPlain);
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t k = 0; k < 200; ++k) {
        ASSERT_EQ(packed.At(0, row, k), 0);
        ASSERT_NE(ScaleAt(packed, row, k), 0);
      }
    }
    EXPECT_EQ(ScaleAt(packed, 1, 0), 1);
    EXPECT_EQ(ScaleAt(packed, 5, 0), 1) << "a padding lane";
  }
}

TEST(QuantizeTest, TransposedAndGateUpHoldTheSameCodes) {
  const Context context;
  for (const WeightType type : kTypes) {
    const int64_t out = 22;
    const int64_t in = 77;
    const std::vector<float> weights = RandomWeights(2 * out * in, 3);
    std::vector<float> transposed(weights.size());
    for (int64_t expert = 0; expert < 2; ++expert) {
      for (int64_t row = 0; row < out; ++row) {
        for (int64_t k = 0; k < in; ++k) {
          transposed[static_cast<size_t>((expert * in + k) * out + row)] =
              weights[static_cast<size_t>((expert * out + row) * in + k)];
        }
      }
    }
    const PackedWeights plain =
        PackExperts(context, Stacked(weights, 2, in), type, PanelOrder::kPlain);
    const PackedWeights turned = PackExpertsTransposed(context, Stacked(transposed, 2, out), type);
    const PackedWeights gate_up =
        PackExperts(context, Stacked(weights, 2, in), type, PanelOrder::kGateUp);
    ASSERT_EQ(turned.layout(), plain.layout());
    for (int64_t expert = 0; expert < 2; ++expert) {
      EXPECT_EQ(
          std::memcmp(plain.expert(expert), turned.expert(expert), plain.layout().matrix_bytes()),
          0);
      for (int64_t row = 0; row < out; ++row) {
        for (int64_t k = 0; k < in; ++k) {
          ASSERT_EQ(gate_up.At(expert, row, k), plain.At(expert, row, k));
        }
      }
    }
  }
}

// A packed file must not depend on the machine that wrote it.
TEST(QuantizeTest, EveryInstructionSetWritesTheSameBytes) {
  const Context context;
  const std::vector<float> weights = RandomWeights(48 * 500, 9);
  for (const WeightType type : kTypes) {
    SelectIsa("auto");
    const PackedWeights wanted =
        PackExperts(context, Stacked(weights, 1, 500), type, PanelOrder::kPlain);
    for (const std::string& isa : AvailableIsas()) {
      SelectIsa(isa);
      const PackedWeights packed =
          PackExperts(context, Stacked(weights, 1, 500), type, PanelOrder::kPlain);
      EXPECT_EQ(std::memcmp(packed.expert(0), wanted.expert(0), wanted.layout().matrix_bytes()), 0)
          << isa << ", " << type.ToString();
    }
    SelectIsa("auto");
  }
}

TEST(QuantizeTest, WeightsThatNoScaleHoldsAreRefused) {
  const Context context;
  const auto pack = [&](float bad, WeightType type) {
    std::vector<float> weights(64, 0.5f);
    weights[40] = bad;
    return Rejection(
        [&] { (void)PackExperts(context, Stacked(weights, 1, 64), type, PanelOrder::kPlain); });
  };
  EXPECT_EQ(pack(std::numeric_limits<float>::quiet_NaN(), WeightFormat::kInt8),
            "[pack] weights must be finite and at most 8319008 for int8; got nan");
  EXPECT_EQ(pack(-std::numeric_limits<float>::infinity(), WeightFormat::kInt4),
            "[pack] weights must be finite and at most 458528 for int4; got -inf");
  EXPECT_EQ(pack(458529, WeightFormat::kInt4),
            "[pack] weights must be finite and at most 458528 for int4; got 458529");
  EXPECT_EQ(pack(0.5f, WeightType(WeightFormat::kInt4, 48)),
            "[pack] groups of integer weights must be 32, 64 or 128; got 48");
  EXPECT_EQ(pack(0.5f, WeightType(WeightFormat::kMxfp4, 64)),
            "[pack] groups of mxfp4 weights must be 32; got 64");
  EXPECT_EQ(pack(393217, WeightFormat::kMxfp4),
            "[pack] weights must be finite and at most 393216 for mxfp4; got 393217");
}

}  // namespace
}  // namespace opst
