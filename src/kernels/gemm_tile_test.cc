// Tests of every register tile of every weight format against fp64, and of the decoding of slabs.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_tile.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/testing/each_isa.h"

namespace opst {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kF16};

// Panels of random weights, laid out by the arithmetic of PanelLayout, with their f32 values.
struct Panels {
  Panels(WeightFormat format, size_t num_panels, size_t k, uint32_t seed)
      : layout{format, PanelOrder::kPlain, static_cast<int64_t>(num_panels * kPanelWidth),
               static_cast<int64_t>(k)},
        bytes(layout.matrix_bytes()),
        values(num_panels * kPanelWidth * k) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (size_t column = 0; column < num_panels * kPanelWidth; ++column) {
      for (size_t i = 0; i < k; ++i) Set(column, i, normal(random));
    }
  }

  void Set(size_t column, size_t i, float value) {
    const auto panel = static_cast<int64_t>(column / kPanelWidth);
    const auto lane = static_cast<int64_t>(column % kPanelWidth);
    std::byte* place = bytes.data() + layout.ElementOffset(panel, lane, static_cast<int64_t>(i));
    float& stored = values[column * static_cast<size_t>(layout.in) + i];
    if (layout.format == WeightFormat::kF32) {
      stored = value;
      std::memcpy(place, &value, sizeof(value));
    } else if (layout.format == WeightFormat::kBf16) {
      const Bf16 rounded = ToBf16(value);
      stored = ToFloat(rounded);
      std::memcpy(place, &rounded, sizeof(rounded));
    } else {
      const F16 rounded = ToF16(value);
      stored = ToFloat(rounded);
      std::memcpy(place, &rounded, sizeof(rounded));
    }
  }
  float At(size_t column, size_t i) const {
    return values[column * static_cast<size_t>(layout.in) + i];
  }

  PanelLayout layout;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

class GemmTileTest : public EachIsaTest {
 protected:
  static std::vector<float> RandomInputs(size_t rows, size_t k, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> a(rows * kBlockK);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < k; ++i) a[row * kBlockK + i] = normal(random);
    }
    return a;
  }

  // One tile of the current instruction set against a chain in double; c starts at 0.25.
  static void ExpectTile(const Panels& panels, size_t rows, size_t num_panels, size_t k) {
    const TileFn tile = GetTileKernels(panels.layout.format).tile[rows - 1][num_panels - 1];
    const size_t columns = num_panels * kPanelWidth;
    const size_t ldc = columns + 5;
    const std::vector<float> a = RandomInputs(rows, k, static_cast<uint32_t>(k));
    std::vector<float> c(rows * ldc + 5, 0.25f);
    tile({a.data(), panels.bytes.data(), panels.layout.panel_bytes(), k, c.data(), ldc, {}});
    for (size_t i = 0; i < c.size(); ++i) {
      const size_t row = i / ldc;
      const size_t column = i % ldc;
      if (row >= rows || column >= columns) {
        ASSERT_EQ(c[i], 0.25f) << "written outside at row " << row << ", column " << column;
        continue;
      }
      double sum = 0.25;
      double magnitude = 0.25;
      for (size_t j = 0; j < k; ++j) {
        const double product = static_cast<double>(a[row * kBlockK + j]) * panels.At(column, j);
        sum += product;
        magnitude += std::abs(product);
      }
      const double tolerance = static_cast<double>(k + 1) * 0x1p-24 * magnitude;
      ASSERT_NEAR(c[i], sum, tolerance) << panels.layout.ToString() << ", tile " << rows << " x "
                                        << num_panels << ", row " << row << ", column " << column;
    }
  }
};

TEST_P(GemmTileTest, EveryTileEqualsFp64) {
  for (const WeightFormat format : kFormats) {
    const TileKernels& tiles = GetTileKernels(format);
    ASSERT_GE(tiles.max_rows, 1u);
    ASSERT_LE(tiles.max_rows, kMaxTileRows);
    for (const size_t k : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{16},
                           size_t{31}, size_t{64}, kBlockK - 1, kBlockK}) {
      const Panels panels(format, 2, k, static_cast<uint32_t>(k + 1));
      for (size_t rows = 1; rows <= tiles.max_rows; ++rows) {
        ASSERT_NE(tiles.tile[rows - 1][0], nullptr);
        ExpectTile(panels, rows, 1, k);
        if (tiles.PanelsPerTile(rows) == 2) ExpectTile(panels, rows, 2, k);
      }
    }
  }
}

TEST_P(GemmTileTest, TilesBeyondTheLargestDoNotExist) {
  for (const WeightFormat format : kFormats) {
    const TileKernels& tiles = GetTileKernels(format);
    for (size_t rows = tiles.max_rows + 1; rows <= kMaxTileRows; ++rows) {
      EXPECT_EQ(tiles.tile[rows - 1][0], nullptr);
      EXPECT_EQ(tiles.tile[rows - 1][1], nullptr);
    }
  }
}

// A row's bits must not depend on the height and width of the tile that computed it.
TEST_P(GemmTileTest, AllTilesGiveTheSameBits) {
  constexpr size_t kInputs = kBlockK - 1;
  for (const WeightFormat format : kFormats) {
    const TileKernels& tiles = GetTileKernels(format);
    const Panels panels(format, 2, kInputs, 5);
    const size_t stride = panels.layout.panel_bytes();
    const std::vector<float> a = RandomInputs(kMaxTileRows, kInputs, 6);
    const size_t ldc = 2 * kPanelWidth;
    std::vector<float> alone(tiles.max_rows * ldc);
    for (size_t row = 0; row < tiles.max_rows; ++row) {
      for (size_t panel = 0; panel < 2; ++panel) {
        tiles.tile[0][0]({a.data() + row * kBlockK,
                          panels.bytes.data() + panel * stride,
                          stride,
                          kInputs,
                          alone.data() + row * ldc + panel * kPanelWidth,
                          ldc,
                          {}});
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
                                        {}});
      }
      EXPECT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
          << Name(format) << ", " << rows << " rows";
    }
  }
}

// Fetching the next weights cuts the inputs into chunks; the chain must be the same.
TEST_P(GemmTileTest, PrefetchingDoesNotChangeBits) {
  for (const WeightFormat format : kFormats) {
    const TileKernels& tiles = GetTileKernels(format);
    for (size_t k = 0; k <= 49; ++k) {
      const Panels panels(format, 2, k, 5);
      const size_t stride = panels.layout.panel_bytes();
      const std::vector<float> a = RandomInputs(tiles.max_rows, k, 6);
      const size_t panel_count = tiles.PanelsPerTile(tiles.max_rows);
      std::vector<float> plain(tiles.max_rows * 2 * kPanelWidth);
      std::vector<float> fetching = plain;
      TileRequest request{a.data(),     panels.bytes.data(), stride, k,
                          plain.data(), 2 * kPanelWidth,     {}};
      const TileFn tile = tiles.tile[tiles.max_rows - 1][panel_count - 1];
      tile(request);
      request.c = fetching.data();
      request.prefetch = {panels.bytes.data(), stride, 64};
      tile(request);
      EXPECT_EQ(fetching, plain) << Name(format) << ", k " << k;
    }
  }
}

TEST_P(GemmTileTest, DecodedSlabsHoldTheExactWeights) {
  for (const WeightFormat format : kFormats) {
    for (const size_t k : {size_t{0}, size_t{1}, size_t{2}, size_t{5}, kBlockK}) {
      Panels panels(format, 1, k, 3);
      if (k > 1) {
        panels.Set(0, 0, std::numeric_limits<float>::infinity());
        panels.Set(1, 1, std::numeric_limits<float>::quiet_NaN());
        panels.Set(2, 1, 6e-8f);  // a denormal of f16
        panels.Set(3, 0, -65504.0f);
      }
      const size_t stored = format == WeightFormat::kBf16 ? k + k % 2 : k;
      std::vector<float> decoded(stored * kPanelWidth + 3, -3.0f);
      DecodeSlab(format, panels.bytes.data(), k, decoded.data());
      for (size_t column = 0; column < kPanelWidth; ++column) {
        for (size_t i = 0; i < k; ++i) {
          const float value = decoded[i * kPanelWidth + column];
          if (std::isnan(panels.At(column, i))) {
            EXPECT_TRUE(std::isnan(value));
          } else {
            EXPECT_EQ(value, panels.At(column, i));
          }
        }
      }
      for (size_t i = stored * kPanelWidth; i < decoded.size(); ++i) EXPECT_EQ(decoded[i], -3.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, GemmTileTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
