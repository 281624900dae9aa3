// Tests of packing: every weight is found again, padding is zero, bits are kept or rounded once.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
constexpr PanelOrder kOrders[] = {PanelOrder::kPlain, PanelOrder::kGateUp};

// Random patterns of a float type, rows `stride` apart; NaN, infinities and denormals included.
struct Source {
  Source(DType type, int64_t rows, int64_t columns, int64_t row_stride, uint32_t seed)
      : dtype(type),
        shape{rows, columns},
        stride(row_stride),
        bytes(static_cast<size_t>(rows * row_stride) * ByteSize(type)) {
    std::mt19937 random(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
  ConstTensorView view() const { return {bytes.data(), dtype, shape, stride}; }
  ConstTensorView rows(int64_t begin, int64_t count) const {
    return {view().row(begin), dtype, Shape{count, shape[1]}, stride};
  }
  float At(int64_t row, int64_t column) const {
    const std::byte* element = view().row(row) + static_cast<size_t>(column) * ByteSize(dtype);
    uint32_t bits = 0;
    std::memcpy(&bits, element, ByteSize(dtype));
    if (dtype == DType::kF32) return std::bit_cast<float>(bits);
    const auto half = static_cast<uint16_t>(bits);
    return dtype == DType::kBf16 ? ToFloat(Bf16{half}) : ToFloat(F16{half});
  }

  DType dtype;
  Shape shape;
  int64_t stride;
  std::vector<std::byte> bytes;
};

float Rounded(float value, WeightFormat format) {
  if (format == WeightFormat::kBf16) return ToFloat(ToBf16(value));
  return format == WeightFormat::kF16 ? ToFloat(ToF16(value)) : value;
}

bool IsSame(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Packs with a pattern behind it, so that unwritten and overwritten bytes show.
std::vector<std::byte> Pack(const PanelLayout& layout, const Source& source) {
  constexpr size_t kGuard = 64;
  std::vector<std::byte> out(layout.matrix_bytes() + kGuard, std::byte{0xA5});
  if (layout.order == PanelOrder::kPlain) {
    PackMatrix(layout, source.view(), out.data());
  } else {
    const int64_t ffn = layout.out / 2;
    PackGateUp(layout, source.rows(0, ffn), source.rows(ffn, ffn), out.data());
  }
  for (size_t i = layout.matrix_bytes(); i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xA5});
  out.resize(layout.matrix_bytes());
  return out;
}

void ExpectRoundTrip(const PanelLayout& layout, const Source& source) {
  const std::vector<std::byte> packed = Pack(layout, source);
  const PackedWeights weights(layout, 1, packed.data());
  for (int64_t row = 0; row < layout.out; ++row) {
    for (int64_t k = 0; k < layout.in; ++k) {
      const float wanted = Rounded(source.At(row, k), layout.format);
      ASSERT_TRUE(IsSame(weights.At(0, row, k), wanted))
          << layout.ToString() << " from " << Name(source.dtype) << " at [" << row << "," << k
          << "]: " << weights.At(0, row, k) << " instead of " << wanted;
    }
  }
}

TEST(PackTest, EveryWeightIsFoundAgain) {
  for (const DType from : kDtypes) {
    for (const DType to : kDtypes) {
      for (const PanelOrder order : kOrders) {
        for (const int64_t half : {1, 3, 7, 8, 9, 16, 17, 33}) {
          for (const int64_t in : {1, 2, 3, 31, 64, 255, 256, 257, 511, 513}) {
            const int64_t out = order == PanelOrder::kPlain ? half : 2 * half;
            const Source source(from, out, in, in + half % 3,
                                static_cast<uint32_t>(31 * in + half));
            ExpectRoundTrip({FormatOf(to), order, out, in}, source);
          }
        }
      }
    }
  }
}

// Padding lanes, and the odd input that a bf16 pair lacks, must be zeros whatever the memory held.
TEST(PackTest, PaddingIsZero) {
  for (const DType dtype : kDtypes) {
    for (const PanelOrder order : kOrders) {
      for (const int64_t in : {1, 5, 257}) {
        const PanelLayout layout{FormatOf(dtype), order, order == PanelOrder::kPlain ? 19 : 22, in};
        std::vector<std::byte> packed = Pack(layout, Source(dtype, layout.out, in, in, 5));
        for (int64_t panel = 0; panel < layout.num_panels(); ++panel) {
          for (int64_t lane = 0; lane < PanelLayout::kWidth; ++lane) {
            if (layout.SourceRow(panel, lane) < 0) continue;
            for (int64_t k = 0; k < in; ++k) {
              std::memset(packed.data() + layout.ElementOffset(panel, lane, k), 0, ByteSize(dtype));
            }
          }
        }
        for (size_t i = 0; i < packed.size(); ++i) {
          ASSERT_EQ(packed[i], std::byte{0}) << layout.ToString() << " byte " << i;
        }
      }
    }
  }
}

// Signalling NaNs and payloads included: a same-type pack is a permutation of the source's bits.
TEST(PackTest, BitsAreKeptWhenTheTypeIsTheFormat) {
  const Source source(DType::kF16, 16, 300, 300, 3);
  const PanelLayout layout{WeightFormat::kF16, PanelOrder::kPlain, 16, 300};
  const std::vector<std::byte> packed = Pack(layout, source);
  for (int64_t row = 0; row < 16; ++row) {
    for (int64_t k = 0; k < 300; ++k) {
      EXPECT_EQ(std::memcmp(packed.data() + layout.ElementOffset(0, row, k),
                            source.view().row(row) + 2 * k, 2),
                0);
    }
  }
}

TEST(PackTest, BorrowedPointersOfExpertsMayStandInAnyOrder) {
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain, 3, 2};
  const Source first(DType::kF32, 3, 2, 2, 1);
  const Source second(DType::kF32, 3, 2, 2, 2);
  const std::vector<std::byte> a = Pack(layout, first);
  const std::vector<std::byte> b = Pack(layout, second);
  const PackedWeights weights(layout, {b.data(), a.data()});
  EXPECT_TRUE(IsSame(weights.At(0, 2, 1), second.At(2, 1)));
  EXPECT_TRUE(IsSame(weights.At(1, 2, 1), first.At(2, 1)));
}

TEST(PackExpertsTest, EqualsPackingOneByOneForAnyNumberOfThreads) {
  constexpr int64_t kExperts = 5;
  for (const int threads : {1, 2, 3}) {
    ContextOptions options;
    options.num_threads = threads;
    const Context context(options);
    for (const DType from : kDtypes) {
      for (const PanelOrder order : kOrders) {
        const PanelLayout layout{WeightFormat::kBf16, order, 14, 9};
        const Source source(from, kExperts * 14, 9, 9, 11);
        const ConstTensorView all(source.bytes.data(), from, Shape{kExperts, 14, 9});
        const PackedWeights weights = PackExperts(context, all, WeightFormat::kBf16, order);
        EXPECT_EQ(weights.layout(), layout);
        ASSERT_EQ(weights.num_experts(), kExperts);
        for (int64_t expert = 0; expert < kExperts; ++expert) {
          Source one(from, 14, 9, 9, 0);
          std::memcpy(one.bytes.data(), source.view().row(expert * 14), one.bytes.size());
          const std::vector<std::byte> wanted = Pack(layout, one);
          EXPECT_EQ(std::memcmp(weights.expert(expert), wanted.data(), wanted.size()), 0);
        }
      }
    }
  }
}

TEST(PackExpertsTest, MemoryOutlivesTheCallAndIsAligned) {
  const Context context;
  PackedWeights weights;
  {
    const Source source(DType::kF32, 2 * 17, 3, 3, 4);
    weights = PackExperts(context, {source.bytes.data(), DType::kF32, Shape{2, 17, 3}},
                          WeightFormat::kF32, PanelOrder::kPlain);
    EXPECT_TRUE(IsSame(weights.At(1, 16, 2), source.At(17 + 16, 2)));
  }
  EXPECT_TRUE(IsSame(weights.At(1, 16, 2), weights.At(1, 16, 2)));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights.expert(0)) % 64, 0u);
}

TEST(PackExpertsTest, NoExpertsAndEmptyMatricesAreNoWork) {
  const Context context;
  const float none = 0;
  for (const Shape& shape : {Shape{0, 4, 4}, Shape{3, 0, 4}, Shape{3, 4, 0}}) {
    const PackedWeights weights =
        PackExperts(context, ConstTensorView(&none, shape), WeightFormat::kF32, PanelOrder::kPlain);
    EXPECT_EQ(weights.num_experts(), shape[0]);
  }
}

TEST(PackTest, WrongArgumentsAreNamed) {
  const Context context;
  const std::vector<float> data(64);
  std::vector<std::byte> out(4096);
  const ConstTensorView matrix(data.data(), Shape{4, 4});
  const PanelLayout plain{WeightFormat::kF32, PanelOrder::kPlain, 4, 4};
  const PanelLayout gate_up{WeightFormat::kF32, PanelOrder::kGateUp, 8, 4};
  EXPECT_EQ(Rejection([&] { PackMatrix(gate_up, matrix, out.data()); }),
            "[pack] the layout must be plain; got [8,4] f32 gate_up panels");
  EXPECT_EQ(Rejection([&] { PackGateUp(plain, matrix, matrix, out.data()); }),
            "[pack] the layout must be gate_up with an even number of rows; got [4,4] f32 panels");
  EXPECT_EQ(Rejection([&] {
              PackMatrix({plain.format, plain.order, 5, 4}, matrix, out.data());
            }),
            "[pack] weights must be [5,4]; got [4,4] f32");
  const ConstTensorView halves(data.data(), DType::kF16, Shape{4, 4});
  EXPECT_EQ(Rejection([&] { PackGateUp(gate_up, matrix, halves, out.data()); }),
            "[pack] gate and up must have one dtype; got [4,4] f32 and [4,4] f16");
  const ConstTensorView integers(data.data(), DType::kI32, Shape{4, 4});
  EXPECT_EQ(Rejection([&] { PackMatrix(plain, integers, out.data()); }),
            "[pack] weights must be f32, bf16 or f16; got [4,4] i32");
  EXPECT_EQ(Rejection([&] { PackExperts(context, matrix, plain.format, plain.order); }),
            "[pack] expert weights must be [E, out, in]; got [4,4] f32");
  const ConstTensorView odd(data.data(), Shape{2, 3, 4});
  EXPECT_EQ(Rejection([&] { PackExperts(context, odd, plain.format, PanelOrder::kGateUp); }),
            "[pack] gate_up weights must have an even number of rows (2F); got [2,3,4] f32");
  EXPECT_EQ(
      Rejection([&] {
        PackExperts(context, {data.data(), DType::kI32, Shape{0, 4, 4}}, plain.format, plain.order);
      }),
      "[pack] weights must be f32, bf16 or f16; got [0,4,4] i32");
  std::vector<float> both(64);
  EXPECT_EQ(Rejection([&] {
              PackMatrix(plain, {both.data(), Shape{4, 4}},
                         reinterpret_cast<std::byte*>(both.data() + 15));
            }),
            "[pack] panels must not overlap the weights; got [4,4] f32");
  EXPECT_THAT(Rejection([&] { PackMatrix(plain, matrix, out.data() + 1); }),
              testing::StartsWith("[pack] panels must be aligned to 4 bytes; got 0x"));
}

}  // namespace
}  // namespace opst
