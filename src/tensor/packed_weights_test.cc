// Tests of the panel layout's arithmetic: every element has one place, every place one element.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBf16, WeightFormat::kF16};

TEST(PanelLayoutTest, SizesFollowFromFormatAndShape) {
  const PanelLayout f32{WeightFormat::kF32, PanelOrder::kPlain, 17, 5};
  EXPECT_EQ(f32.num_panels(), 2);
  EXPECT_EQ(f32.panel_bytes(), 5u * 64);
  EXPECT_EQ(f32.matrix_bytes(), 2u * 5 * 64);
  const PanelLayout bf16{WeightFormat::kBf16, PanelOrder::kPlain, 16, 5};
  EXPECT_EQ(bf16.num_panels(), 1);
  EXPECT_EQ(bf16.panel_bytes(), 3u * 64);  // three pairs, the last one half empty
  EXPECT_EQ(bf16.slab_bytes(4), 2u * 64);
  const PanelLayout f16{WeightFormat::kF16, PanelOrder::kGateUp, 2 * 9, 5};
  EXPECT_EQ(f16.num_panels(), 2);
  EXPECT_EQ(f16.panel_bytes(), 5u * 32);
  EXPECT_EQ(f16.ToString(), "[18,5] f16 gate_up panels");
  EXPECT_EQ(bf16.ToString(), "[16,5] bf16 panels");
}

TEST(PanelLayoutTest, EmptyMatricesHaveNoBytes) {
  for (const WeightFormat format : kFormats) {
    EXPECT_EQ((PanelLayout{format, PanelOrder::kPlain, 0, 7}.matrix_bytes()), 0u);
    EXPECT_EQ((PanelLayout{format, PanelOrder::kGateUp, 4, 0}.matrix_bytes()), 0u);
  }
}

TEST(PanelLayoutTest, PlainPanelsHoldConsecutiveColumns) {
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain, 20, 3};
  for (int64_t lane = 0; lane < 16; ++lane) {
    EXPECT_EQ(layout.SourceRow(0, lane), lane);
    EXPECT_EQ(layout.SourceRow(1, lane), lane < 4 ? 16 + lane : -1);
  }
}

TEST(PanelLayoutTest, GateUpPanelsPairEightGatesWithTheirUps) {
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kGateUp, 2 * 11, 3};
  for (int64_t lane = 0; lane < 8; ++lane) {
    EXPECT_EQ(layout.SourceRow(0, lane), lane);
    EXPECT_EQ(layout.SourceRow(0, 8 + lane), 11 + lane);
    EXPECT_EQ(layout.SourceRow(1, lane), lane < 3 ? 8 + lane : -1);
    EXPECT_EQ(layout.SourceRow(1, 8 + lane), lane < 3 ? 19 + lane : -1);
  }
}

TEST(PanelLayoutTest, EveryElementHasAPlaceOfItsOwn) {
  for (const WeightFormat format : kFormats) {
    for (const PanelOrder order : {PanelOrder::kPlain, PanelOrder::kGateUp}) {
      for (const int64_t out : {2, 16, 18, 34, 66}) {
        for (const int64_t in : {1, 2, 3, 8, 33}) {
          const PanelLayout layout{format, order, out, in};
          std::set<size_t> offsets;
          std::set<int64_t> rows;
          for (int64_t panel = 0; panel < layout.num_panels(); ++panel) {
            for (int64_t lane = 0; lane < PanelLayout::kWidth; ++lane) {
              rows.insert(layout.SourceRow(panel, lane));
              for (int64_t k = 0; k < in; ++k) {
                offsets.insert(layout.ElementOffset(panel, lane, k));
              }
            }
          }
          rows.erase(-1);
          EXPECT_EQ(static_cast<int64_t>(rows.size()), out) << layout.ToString();
          EXPECT_EQ(*rows.rbegin(), out - 1);
          EXPECT_EQ(static_cast<int64_t>(offsets.size()), layout.num_panels() * 16 * in);
          EXPECT_LE(*offsets.rbegin() + ByteSize(DTypeOfFormat(format)), layout.matrix_bytes());
        }
      }
    }
  }
}

TEST(PanelLayoutTest, OffsetsBeyond32BitsAreExact) {
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain, 1 << 20, 1 << 14};
  EXPECT_EQ(layout.matrix_bytes(), size_t{1} << 36);
  EXPECT_EQ(layout.ElementOffset((1 << 16) - 1, 15, (1 << 14) - 1), (size_t{1} << 36) - 4);
}

TEST(WeightFormatTest, FollowsTheModelFloatTypes) {
  for (const WeightFormat format : kFormats) {
    EXPECT_EQ(FormatOf(DTypeOfFormat(format)), format);
    EXPECT_EQ(Name(format), Name(DTypeOfFormat(format)));
  }
  for (const DType dtype : {DType::kF64, DType::kI8, DType::kBool}) {
    EXPECT_EQ(
        Rejection([&] { FormatOf(dtype); }),
        "[weights] the dtype of weights must be f32, bf16 or f16; got " + std::string(Name(dtype)));
  }
}

TEST(PackedWeightsTest, BorrowsOneBlockOrOnePointerPerExpert) {
  const PanelLayout layout{WeightFormat::kF16, PanelOrder::kPlain, 16, 4};
  std::vector<std::byte> data(3 * layout.matrix_bytes());
  const PackedWeights block(layout, 3, data.data());
  EXPECT_EQ(block.num_experts(), 3);
  EXPECT_EQ(block.expert(2), data.data() + 2 * layout.matrix_bytes());
  EXPECT_EQ(block.ToString(), "3 x [16,4] f16 panels");
  const PackedWeights scattered(layout, {data.data() + 64, data.data()});
  EXPECT_EQ(scattered.num_experts(), 2);
  EXPECT_EQ(scattered.expert(0), data.data() + 64);
  EXPECT_EQ(PackedWeights().num_experts(), 0);
}

TEST(PackedWeightsTest, KeepsItsOwnerAlive) {
  auto owner = std::make_shared<std::vector<std::byte>>(1024);
  const std::weak_ptr<std::vector<std::byte>> watch = owner;
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain, 16, 1};
  auto weights = std::make_unique<PackedWeights>(layout, 1, owner->data(), owner);
  const auto copy = std::make_unique<PackedWeights>(*weights);
  owner.reset();
  weights.reset();
  EXPECT_FALSE(watch.expired());
}

}  // namespace
}  // namespace opst
