// Tests of shapes, views and owners: arithmetic, limits and error texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

using testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(ShapeTest, KnowsExtentsElementsAndText) {
  const Shape shape{8, 14336, 4096};
  EXPECT_EQ(shape.rank(), 3u);
  EXPECT_EQ(shape[1], 14336);
  EXPECT_EQ(shape.num_elements(), int64_t{8} * 14336 * 4096);
  EXPECT_EQ(shape.ToString(), "[8,14336,4096]");
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ((Shape{0, 5}.num_elements()), 0);
  EXPECT_EQ((Shape{1, 2, 3, 4}.num_elements()), 24);
}

TEST(ShapeTest, EqualityNeedsTheSameRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
}

TEST(ShapeTest, ByteCountsBeyond63BitsAreRefused) {
  EXPECT_EQ((Shape{kMax / 8}.num_elements()), kMax / 8);
  for (const auto& dims : std::vector<std::vector<int64_t>>{{kMax / 8 + 1},
                                                            {kMax},
                                                            {int64_t{1} << 30, int64_t{1} << 30},
                                                            {int64_t{1} << 32, int64_t{1} << 32},
                                                            {2, kMax / 8},
                                                            {3, 5, 7, kMax / 64},
                                                            {int64_t{1} << 40, 0, int64_t{1} << 40},
                                                            {0, kMax}}) {
    EXPECT_THAT(Rejection([&] { (void)Shape(std::span<const int64_t>(dims)); }),
                HasSubstr("[shape] the number of bytes must fit 63 bits; got "));
  }
}

TEST(ShapeTest, NegativeExtentsAndFiveDimensionsAreRefused) {
  EXPECT_EQ(Rejection([] {
              (void)Shape{2, -1};
            }),
            "[shape] extents must not be negative; got -1 at axis 1");
  EXPECT_EQ(Rejection([] {
              (void)Shape{1, 1, 1, 1, 1};
            }),
            "[shape] a tensor has at most 4 dimensions; got 5");
}

TEST(TensorViewTest, ContiguousViewsWalkRowsOfTheLastAxis) {
  std::vector<float> data(24);
  const TensorView view(data.data(), Shape{2, 3, 4});
  EXPECT_EQ(view.dtype(), DType::kF32);
  EXPECT_EQ(view.row_stride(), 4);
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.num_bytes(), 96u);
  EXPECT_EQ(view.mutable_row(5), reinterpret_cast<std::byte*>(&data[20]));
  EXPECT_EQ(view.ToString(), "[2,3,4] f32");
}

TEST(TensorViewTest, StridedViewsSkipTheGaps) {
  std::vector<uint16_t> data(30);
  const TensorView view(data.data(), DType::kBf16, Shape{3, 7}, 10);
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(view.row(2), reinterpret_cast<const std::byte*>(&data[20]));
  EXPECT_EQ(view.num_bytes(), 42u);
  EXPECT_EQ(view.ToString(), "[3,7] bf16");
}

TEST(TensorViewTest, OverlappingRowsAndStridesOfOtherRanksAreRefused) {
  float data[8] = {};
  EXPECT_EQ(Rejection([&] {
              (void)TensorView(data, DType::kF32, Shape{2, 4}, 3);
            }),
            "[tensor] rows must not overlap; got row stride 3 for rows of 4");
  EXPECT_EQ(Rejection([&] { (void)TensorView(data, DType::kF32, Shape{8}, 8); }),
            "[tensor] a strided view has two dimensions; got [8]");
}

TEST(TensorViewTest, RowsBeyond63BitsAreRefused) {
  float data[1] = {};
  EXPECT_THAT(Rejection([&] {
                (void)TensorView(data, DType::kF32, Shape{int64_t{1} << 40, 1}, int64_t{1} << 40);
              }),
              HasSubstr("the number of bytes must fit 63 bits"));
}

TEST(TensorViewTest, OverlapIsFoundByElementsNotByExtent) {
  std::vector<float> data(60);
  const auto view = [&](int64_t first, Shape shape, int64_t stride) {
    return ConstTensorView(data.data() + first, DType::kF32, shape, stride);
  };
  const ConstTensorView left = view(0, Shape{6, 4}, 10);
  EXPECT_TRUE(left.Overlaps(left));
  EXPECT_FALSE(left.Overlaps(view(4, Shape{6, 6}, 10)));  // the columns beside it
  EXPECT_FALSE(view(4, Shape{6, 6}, 10).Overlaps(left));
  EXPECT_TRUE(left.Overlaps(view(3, Shape{5, 6}, 10)));
  EXPECT_TRUE(view(3, Shape{5, 6}, 10).Overlaps(left));
  EXPECT_TRUE(left.Overlaps(view(8, Shape{5, 3}, 10)));  // reaches into the next row
  EXPECT_TRUE(left.Overlaps(view(20, Shape{1, 1}, 1)));
  EXPECT_FALSE(view(0, Shape{2, 10}, 10).Overlaps(view(20, Shape{2, 10}, 10)));
  EXPECT_FALSE(left.Overlaps(view(0, Shape{0, 4}, 10)));
  EXPECT_FALSE(left.Overlaps(ConstTensorView()));
  const ConstTensorView bytes(reinterpret_cast<const uint8_t*>(data.data()) + 16, Shape{8});
  EXPECT_TRUE(view(5, Shape{1, 1}, 1).Overlaps(bytes));
  EXPECT_FALSE(view(6, Shape{1, 1}, 1).Overlaps(bytes));
}

static_assert(!std::is_constructible_v<TensorView, const float*, Shape>);
static_assert(!std::is_copy_constructible_v<Tensor>);

// The products of row and stride that fail elsewhere are those just beyond 32 bits.
TEST(TensorViewTest, RowOffsetsBeyond32BitsAreExact) {
  const Tensor tensor(DType::kI8, Shape{52430, 40960});  // never touched, so never backed by memory
  const auto* begin = tensor.as<std::byte>();
  EXPECT_EQ(tensor.view().row(52429) - begin, 2'147'491'840);
  const ConstTensorView view(begin, DType::kI8, Shape{3, 16}, int64_t{1} << 30);
  EXPECT_EQ(view.row(1) - begin, int64_t{1} << 30);
}

TEST(TensorTest, OwnsZeroedMemoryOnACacheLine) {
  for (const int64_t n : {1, 63, 1'000'003}) {
    const Tensor tensor(DType::kF32, Shape{n});
    const float* data = tensor.as<float>();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_TRUE(std::all_of(data, data + n, [](float x) { return x == 0; }));
  }
  EXPECT_EQ(Tensor().view().data(), nullptr);
  EXPECT_EQ(Tensor(DType::kF32, Shape{0, 4}).view().num_bytes(), 0u);
}

TEST(TensorTest, MovingKeepsTheMemory) {
  Tensor first(DType::kI32, Shape{2, 2});
  first.as<int32_t>()[3] = 7;
  const Tensor second = std::move(first);
  EXPECT_EQ(second.as<int32_t>()[3], 7);
  EXPECT_EQ(first.view().data(), nullptr);  // NOLINT(bugprone-use-after-move): that is the point
  const TensorView view = second;
  EXPECT_EQ(view.shape(), (Shape{2, 2}));
}

TEST(TensorTest, ImpossibleSizesAreOutOfMemory) {
  const auto allocate = [] { const Tensor tensor(DType::kF64, Shape{kMax / 8}); };
  ErrorOf(ErrorKind::kOutOfMemory, allocate);
}

}  // namespace
}  // namespace opst
