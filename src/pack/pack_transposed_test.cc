// Tests of packing transposed matrices: the same panels as those of the matrix turned round first.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "opst/error.h"
#include "opst/pack.h"

namespace opst {
namespace {

TEST(PackTransposedTest, PanelsAreThoseOfTheMatrixTurnedRound) {
  const Context context;
  uint32_t seed = 1;
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const WeightFormat format :
         {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kF16}) {
      for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
               {1, 1}, {3, 16}, {5, 17}, {32, 31}, {257, 40}, {0, 5}, {5, 0}}) {
        const size_t size = ByteSize(dtype);
        const auto elements = static_cast<size_t>(2 * in * out);
        std::vector<std::byte> rows(elements * size);
        std::mt19937 random(seed++);
        for (size_t i = 0; i < elements; ++i) {
          const auto value = static_cast<float>(random() % 2000) / 512 - 2;
          if (dtype == DType::kF32) {
            std::memcpy(rows.data() + i * size, &value, size);
          } else {
            const uint16_t bits = dtype == DType::kBf16 ? ToBf16(value).bits : ToF16(value).bits;
            std::memcpy(rows.data() + i * size, &bits, size);
          }
        }
        std::vector<std::byte> turned(rows.size());
        for (int64_t expert = 0; expert < 2; ++expert) {
          for (int64_t k = 0; k < in; ++k) {
            for (int64_t n = 0; n < out; ++n) {
              std::memcpy(turned.data() + static_cast<size_t>((expert * out + n) * in + k) * size,
                          rows.data() + static_cast<size_t>((expert * in + k) * out + n) * size,
                          size);
            }
          }
        }
        const PackedWeights got =
            PackExpertsTransposed(context, {rows.data(), dtype, Shape{2, in, out}}, format);
        const PackedWeights wanted = PackExperts(context, {turned.data(), dtype, Shape{2, out, in}},
                                                 format, PanelOrder::kPlain);
        ASSERT_EQ(got.layout(), wanted.layout());
        for (int64_t expert = 0; expert < 2; ++expert) {
          const std::byte* panels = got.expert(expert);
          ASSERT_TRUE(
              std::equal(panels, panels + got.layout().matrix_bytes(), wanted.expert(expert)))
              << in << " x " << out;
        }
      }
    }
  }
}

TEST(PackTransposedTest, WrongRankIsNamed) {
  const std::vector<float> values(6);
  try {
    PackExpertsTransposed(Context(), {values.data(), Shape{2, 3}}, WeightFormat::kF32);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[pack] expert weights must be [E, in, out]; got [2,3] f32");
  }
}

}  // namespace
}  // namespace opst
