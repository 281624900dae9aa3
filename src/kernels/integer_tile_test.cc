// Tests of the integer tiles, of the rounding of activations, and of integer slabs, against integer
// sums and fp64.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/quantized_row.h"
#include "kernels/testing/each_isa.h"
#include "tensor/integer_panels.h"

namespace opst {
namespace {

constexpr WeightType kTypes[] = {{WeightFormat::kInt8, 32},  {WeightFormat::kInt8, 128},
                                 {WeightFormat::kInt4, 32},  {WeightFormat::kInt4, 64},
                                 {WeightFormat::kInt4, 128}, {WeightFormat::kMxfp4, 32}};

// Two panels of random codes, extremes among them, and scales; laid out by PanelLayout.
struct IntegerPanels {
  IntegerPanels(WeightType type, size_t k)
      : layout{type.format, PanelOrder::kPlain, 2 * PanelLayout::kWidth, static_cast<int64_t>(k),
               type.group},
        bytes(layout.matrix_bytes()),
        weights(layout, 1, bytes.data()) {
    std::mt19937 random(static_cast<uint32_t>(k));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    std::uniform_real_distribution<float> scale(-0.01f, 0.02f);
    for (int64_t group = 0; group < layout.num_groups(); ++group) {
      for (int64_t column = 0; column < layout.out; ++column) {
        const F16 half = ToF16(scale(random));
        const size_t place = layout.ScaleOffset(column / 16, column % 16, group * layout.group);
        std::memcpy(bytes.data() + place, &half, sizeof(half));
      }
    }
  }
  float At(size_t column, size_t i) const {
    return weights.At(0, static_cast<int64_t>(column), static_cast<int64_t>(i));
  }

  PanelLayout layout;
  std::vector<std::byte> bytes;
  PackedWeights weights;
};

// Rows of a tile as it wants them, and the same integers as Int16Row.
struct Rows {
  std::vector<float> for_tile;
  std::vector<float> as_int16;
};

Rows QuantizedRows(size_t rows, size_t k, WeightType type, ActivationFormat act,
                   ActivationFormat row_format) {
  std::mt19937 random(static_cast<uint32_t>(k + rows));
  std::normal_distribution<float> normal;
  std::vector<float> a(rows * kBlockK);
  for (float& value : a) value = normal(random);
  Rows out{a, a};
  const auto group = static_cast<size_t>(type.group);
  const bool is_int8 = act == ActivationFormat::kInt8;
  for (size_t row = 0; row < rows; ++row) {
    QuantizeToInt16(out.as_int16.data() + row * kBlockK, k, group,
                    is_int8 ? kLargestInt8 : kLargestInt16);
    float* place = out.for_tile.data() + row * kBlockK;
    if (row_format == ActivationFormat::kInt8) QuantizeToInt8(place, k, group, type.format);
  }
  if (row_format == ActivationFormat::kInt16) out.for_tile = out.as_int16;
  return out;
}

const Int16Row& RowAt(const std::vector<float>& a, size_t row) {
  return *reinterpret_cast<const Int16Row*>(a.data() + row * kBlockK);
}

constexpr ActivationFormat kActivations[] = {ActivationFormat::kInt16, ActivationFormat::kInt8};

class IntegerTileTest : public EachIsaTest {};

// Every tile of one kind for k inputs, against sums of the integers that it was given.
void ExpectExactSums(WeightType type, ActivationFormat act, size_t k) {
  const TileKernels& tiles = GetIntegerTileKernels(type.format, act);
  const IntegerPanels panels(type, k);
  const auto group = static_cast<size_t>(type.group);
  for (size_t rows = 1; rows <= tiles.max_rows; ++rows) {
    const Rows a = QuantizedRows(rows, k, type, act, tiles.row_format);
    const size_t num_panels = tiles.PanelsPerTile(rows);
    const size_t ldc = num_panels * kPanelWidth + 3;
    std::vector<float> c(rows * ldc, 0.25f);
    tiles.tile[rows - 1][num_panels - 1]({a.for_tile.data(),
                                          panels.bytes.data(),
                                          panels.layout.panel_bytes(),
                                          k,
                                          c.data(),
                                          ldc,
                                          {},
                                          group});
    for (size_t i = 0; i < c.size(); ++i) {
      const size_t row = i / ldc;
      const size_t column = i % ldc;
      if (column >= num_panels * kPanelWidth) {
        ASSERT_EQ(c[i], 0.25f) << "written outside at row " << row << ", column " << column;
        continue;
      }
      double sum = 0.25;
      double magnitude = 0.25;
      const Int16Row& quantized = RowAt(a.as_int16, row);
      for (size_t j = 0; j < k; ++j) {
        const double product = static_cast<double>(quantized.scales[j / group]) *
                               quantized.values[j] * panels.At(column, j);
        sum += product;
        magnitude += std::abs(product);
      }
      // Roundings: the sum as f32, the product of scales, and the addition, a group each.
      const double groups = static_cast<double>(k) / static_cast<double>(group) + 1;
      ASSERT_NEAR(c[i], sum, (groups + 3) * 0x1p-24 * magnitude)
          << panels.layout.ToString() << ", " << rows << " rows, row " << row << ", column "
          << column;
    }
  }
}

TEST_P(IntegerTileTest, EveryTileEqualsExactSumsOfEachGroup) {
  for (const WeightType type : kTypes) {
    for (const ActivationFormat act : kActivations) {
      for (const size_t k : {size_t{0}, size_t{1}, size_t{5}, size_t{32}, size_t{100}, kBlockK}) {
        ExpectExactSums(type, act, k);
      }
    }
  }
}

// A row's bits must not depend on the tile, nor on what is fetched ahead.
void ExpectSameBitsOfAllTiles(WeightType type, ActivationFormat act) {
  constexpr size_t kInputs = kBlockK - 1;
  const TileKernels& tiles = GetIntegerTileKernels(type.format, act);
  const IntegerPanels panels(type, kInputs);
  const size_t stride = panels.layout.panel_bytes();
  const auto group = static_cast<size_t>(type.group);
  const std::vector<float> a =
      QuantizedRows(kMaxTileRows, kInputs, type, act, tiles.row_format).for_tile;
  const size_t ldc = 2 * kPanelWidth;
  std::vector<float> alone(tiles.max_rows * ldc);
  for (size_t row = 0; row < tiles.max_rows; ++row) {
    for (size_t panel = 0; panel < 2; ++panel) {
      tiles.tile[0][0]({a.data() + row * kBlockK, panels.bytes.data() + panel * stride, stride,
                        kInputs, alone.data() + row * ldc + panel * kPanelWidth, ldc,
                        TilePrefetch{panels.bytes.data(), stride, 64}, group});
    }
  }
  for (size_t rows = 1; rows <= tiles.max_rows; ++rows) {
    std::vector<float> together(rows * ldc);
    const size_t step = tiles.PanelsPerTile(rows);
    for (size_t panel = 0; panel < 2; panel += step) {
      tiles.tile[rows - 1][step - 1]({a.data(),
                                      panels.bytes.data() + panel * stride,
                                      stride,
                                      kInputs,
                                      together.data() + panel * kPanelWidth,
                                      ldc,
                                      {},
                                      group});
    }
    EXPECT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
        << type.ToString() << ", " << rows << " rows";
  }
}

TEST_P(IntegerTileTest, AllTilesGiveTheSameBits) {
  for (const WeightType type : kTypes) {
    for (const ActivationFormat act : kActivations) ExpectSameBitsOfAllTiles(type, act);
  }
}

// The largest codes everywhere: 128 · 128 · 32767 stays below 2^31, and 15 · 127 twice in 16 bits
// for 32 inputs. With both signs: a saturating sum would not show when it only grows.
TEST_P(IntegerTileTest, TheLargestSumsDoNotOverflow) {
  for (const WeightType type : kTypes) {
    for (const ActivationFormat act : kActivations) {
      const TileKernels& tiles = GetIntegerTileKernels(type.format, act);
      const auto group = static_cast<size_t>(type.group);
      for (const float x : {3.0f, -3.0f}) {
        for (const std::byte code : {std::byte{0x00}, std::byte{0x80}, std::byte{0xFF}}) {
          IntegerPanels panels(type, group);
          std::fill_n(panels.bytes.begin(), panels.layout.panel_bytes() - 2 * kPanelWidth, code);
          std::vector<float> a(kBlockK, x);
          if (tiles.row_format == ActivationFormat::kInt8) {
            QuantizeToInt8(a.data(), group, group, type.format);
          } else {
            const bool is_int8 = act == ActivationFormat::kInt8;
            QuantizeToInt16(a.data(), group, group, is_int8 ? kLargestInt8 : kLargestInt16);
          }
          float c[kPanelWidth] = {};
          tiles.tile[0][0]({a.data(), panels.bytes.data(), 0, group, c, kPanelWidth, {}, group});
          for (size_t column = 0; column < kPanelWidth; ++column) {
            double expected = 0;
            for (size_t i = 0; i < group; ++i) expected += x * panels.At(column, i);
            ASSERT_NEAR(c[column], expected, std::abs(expected) * 4 * 0x1p-24) << type.ToString();
          }
        }
      }
    }
  }
}

TEST_P(IntegerTileTest, DecodedSlabsHoldScaleTimesCode) {
  for (const WeightType type : kTypes) {
    for (const size_t k : {size_t{1}, size_t{32}, size_t{130}, kBlockK}) {
      const IntegerPanels panels(type, k);
      std::vector<float> decoded(2 * kBlockK * kPanelWidth);
      DecodeSlab(type, panels.bytes.data(), k, decoded.data());
      for (size_t column = 0; column < kPanelWidth; ++column) {
        for (size_t i = 0; i < k; ++i) {
          ASSERT_EQ(decoded[i * kPanelWidth + column], panels.At(column, i))
              << type.ToString() << ", column " << column << ", input " << i;
        }
      }
    }
  }
}

TEST_P(IntegerTileTest, ActivationsAreWithinHalfAStepOfTheirGroup) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const float largest : {kLargestInt16, kLargestInt8}) {
    for (const size_t group : {32, 64, 128}) {
      for (const size_t k : {size_t{1}, size_t{33}, size_t{200}, kBlockK}) {
        std::vector<float> row(kBlockK, std::numeric_limits<float>::quiet_NaN());
        for (size_t i = 0; i < k; ++i) row[i] = normal(random) * (i % 50 == 0 ? 1000.0f : 1.0f);
        const std::vector<float> x = row;
        QuantizeToInt16(row.data(), k, group, largest);
        const Int16Row& out = RowAt(row, 0);
        const size_t padded = (k + group - 1) / group * group;
        for (size_t begin = 0; begin < padded; begin += group) {
          int32_t sum = 0;
          const float scale = out.scales[begin / group];
          for (size_t i = begin; i < begin + group; ++i) {
            sum += out.values[i];
            const float value = i < k ? x[i] : 0;
            ASSERT_LE(std::abs(out.values[i]), largest);
            // Half a step, and the roundings of the scale and of x / scale.
            ASSERT_NEAR(scale * out.values[i], value, scale * (0.5 + largest * 0x1p-22))
                << "input " << i << " of " << k << ", group " << group;
          }
          ASSERT_EQ(out.sums[begin / group], sum);
        }
      }
    }
  }
}

TEST_P(IntegerTileTest, PoisonStaysInItsGroupAndZerosAreZeros) {
  std::vector<float> row(kBlockK, 1.0f);
  row[3] = std::numeric_limits<float>::quiet_NaN();
  row[40] = -std::numeric_limits<float>::infinity();
  for (size_t i = 64; i < 96; ++i) row[i] = 0;
  for (size_t i = 96; i < 128; ++i) row[i] = 1e-38f;
  QuantizeToInt16(row.data(), kBlockK, 32, 127);
  const Int16Row& out = RowAt(row, 0);
  EXPECT_TRUE(std::isnan(out.scales[0]));
  EXPECT_TRUE(std::isnan(out.scales[1]));
  EXPECT_EQ(out.scales[2], 0);
  EXPECT_EQ(out.scales[3], 0);
  EXPECT_EQ(out.values[64], 0);
  EXPECT_EQ(out.values[96], 0);
  EXPECT_EQ(out.scales[4], 1.0f / 127);
  EXPECT_EQ(out.values[128], 127);
}

// Both rows hold the same integers, those of 8 bits in the order of a lane's planes.
TEST_P(IntegerTileTest, RowsOfInt8HoldTheIntegersOfThoseOfInt16) {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const size_t k : {size_t{1}, size_t{45}, kBlockK}) {
      const WeightType type{format, 32};
      const Rows rows = QuantizedRows(1, k, type, ActivationFormat::kInt8, ActivationFormat::kInt8);
      const Int16Row& expected = RowAt(rows.as_int16, 0);
      const auto& got = *reinterpret_cast<const Int8Row*>(rows.for_tile.data());
      const size_t padded = (k + 31) / 32 * 32;
      for (size_t i = 0; i < padded; ++i) {
        const size_t nibble = kNibbleOfInput[i % kInt4PerLane];
        const size_t place = format == WeightFormat::kInt8
                                 ? i / kInt8PerLane * kInt8PerLane + kByteOfInput[i % kInt8PerLane]
                                 : i / kInt4PerLane * kInt4PerLane + nibble % 2 * 4 + nibble / 2;
        ASSERT_EQ(got.values[place], expected.values[i]) << "input " << i << " of " << k;
      }
      for (size_t g = 0; g < padded / 32; ++g) {
        ASSERT_EQ(got.scales[g], expected.scales[g]);
        ASSERT_EQ(got.sums[g], expected.sums[g]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, IntegerTileTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
