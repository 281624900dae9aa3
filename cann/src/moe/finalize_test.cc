// Finalize routing of both versions and its gradient against sums in fp64, and the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_moe_finalize_routing.h"
#include "aclnnop/aclnn_moe_finalize_routing_v2.h"
#include "aclnnop/aclnn_moe_finalize_routing_v2_grad.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

constexpr aclDataType kDTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

class FinalizeTest : public DeviceTest {
 protected:
  // A random permutation of rows over slots, some of them without a row.
  void NewCase(bool is_padded, bool drops) {
    dtype_ = kDTypes[Integer(0, 2)];
    tokens_ = Integer(1, 5), k_ = Integer(1, 4), width_ = Integer(1, 6), experts_ = Integer(1, 5);
    capacity_ = Integer(1, 4);
    const int64_t slots = tokens_ * k_;
    num_rows_ = is_padded ? experts_ * capacity_ : slots;
    Ints all(At(std::max(num_rows_, slots)));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random_);
    row_ids_.assign(all.begin(), all.begin() + slots);
    for (int64_t& row : row_ids_) {
      if (row >= num_rows_ || (drops && Integer(0, 3) == 0)) row = -1;
    }
    rows_ = Values(num_rows_ * width_);
    bias_ = Values(experts_ * width_);
    scales_ = Values(slots);
    x1_ = Values(tokens_ * width_);
    x2_ = Values(tokens_ * width_);
    ids_ = RandomInts(At(slots), 0, experts_ - 1);
  }
  std::vector<float> Values(int64_t count) {
    std::vector<float> values = RandomFloats(At(count));
    for (float& value : values) value = Rounded(dtype_, value);
    return values;
  }
  DeviceTensor Of(std::vector<int64_t> dims, const std::vector<float>& values) {
    return DeviceTensor::Floats(dtype_, std::move(dims), values, AnyLayout());
  }
  Ints ByChoice(const Ints& by_token) const {
    Ints result(by_token.size());
    for (int64_t slot = 0; slot < tokens_ * k_; ++slot) {
      result[At(slot % k_ * tokens_ + slot / k_)] = by_token[At(slot)];
    }
    return result;
  }
  // Values and magnitudes of the definition.
  Sums Expected(bool has_x1, bool has_x2, bool has_bias, bool has_scales) const {
    Sums sums{Doubles(At(tokens_ * width_), 0), Doubles(At(tokens_ * width_), 0)};
    const auto add = [&](int64_t at, double term) {
      sums.values[At(at)] += term;
      sums.magnitudes[At(at)] += std::abs(term);
    };
    for (int64_t at = 0; at < tokens_ * width_; ++at) {
      if (has_x1) add(at, x1_[At(at)]);
      if (has_x2) add(at, x2_[At(at)]);
    }
    for (int64_t slot = 0; slot < tokens_ * k_; ++slot) {
      const int64_t row = row_ids_[At(slot)];
      if (row < 0) continue;
      const double scale = has_scales ? scales_[At(slot)] : 1.0f;
      for (int64_t h = 0; h < width_; ++h) {
        const double bias = has_bias ? bias_[At(ids_[At(slot)] * width_ + h)] : 0.0f;
        add(slot / k_ * width_ + h, scale * (rows_[At(row * width_ + h)] + bias));
      }
    }
    return sums;
  }

  aclDataType dtype_ = ACL_FLOAT;
  int64_t tokens_ = 0, k_ = 0, width_ = 0, experts_ = 0, capacity_ = 0, num_rows_ = 0;
  Ints row_ids_, ids_;
  std::vector<float> rows_, bias_, scales_, x1_, x2_;
};

TEST_F(FinalizeTest, FirstVersionReadsRowsChoiceByChoice) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase(false, false);
    const bool has_x2 = Coin();
    const auto rows = Of({num_rows_, width_}, rows_), x1 = Of({tokens_, width_}, x1_),
               x2 = Of({tokens_, width_}, x2_), bias = Of({experts_, width_}, bias_),
               scales = Of({tokens_, k_}, scales_);
    const auto index = DeviceTensor::Ints(ACL_INT32, {num_rows_}, ByChoice(row_ids_), AnyLayout());
    const auto ids = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout());
    const DeviceTensor out(dtype_, {tokens_, width_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeFinalizeRoutingGetWorkspaceSize(
                        rows, x1, has_x2 ? x2.get() : nullptr, bias, scales, index, ids, out, size,
                        executor);
                  },
                  aclnnMoeFinalizeRouting),
              0)
        << LastError();
    const Sums sums = Expected(true, has_x2, true, true);
    ASSERT_TRUE(Near(dtype_, out.ReadFloats(), sums.values, sums.magnitudes));
    ASSERT_TRUE(out.gaps_are_untouched());
  }
}

TEST_F(FinalizeTest, AllFourModesSkipSlotsWithoutARow) {
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const int64_t mode = Integer(0, 3);
    NewCase(mode % 2 == 1, true);
    const bool has_scales = Coin();
    if (!has_scales) {  // then there is one row a token
      k_ = 1;
      row_ids_.resize(At(tokens_)), ids_.resize(At(tokens_));
      if (mode % 2 == 0) num_rows_ = tokens_, rows_.resize(At(num_rows_ * width_));
      for (int64_t& row : row_ids_) row = row < num_rows_ ? row : -1;
    }
    const bool has_x1 = Coin(), has_x2 = has_x1 && Coin(), has_bias = Coin();
    const auto rows =
        mode % 2 == 1 ? Of({experts_, capacity_, width_}, rows_) : Of({num_rows_, width_}, rows_);
    const auto x1 = Of({tokens_, width_}, x1_), x2 = Of({tokens_, width_}, x2_),
               bias = Of({experts_, width_}, bias_);
    scales_.resize(At(tokens_ * k_));
    const auto scales = Of({tokens_, k_}, scales_);
    const auto index = DeviceTensor::Ints(ACL_INT32, {tokens_ * k_},
                                          mode < 2 ? ByChoice(row_ids_) : row_ids_, AnyLayout());
    const auto ids = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout());
    const DeviceTensor out(dtype_, {tokens_, width_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeFinalizeRoutingV2GetWorkspaceSize(
                        rows, index, has_x1 ? x1.get() : nullptr, has_x2 ? x2.get() : nullptr,
                        has_bias ? bias.get() : nullptr, has_scales ? scales.get() : nullptr,
                        has_bias ? ids.get() : nullptr, mode, out, size, executor);
                  },
                  aclnnMoeFinalizeRoutingV2),
              0)
        << LastError();
    const Sums sums = Expected(has_x1, has_x2, has_bias, has_scales);
    ASSERT_TRUE(Near(dtype_, out.ReadFloats(), sums.values, sums.magnitudes)) << "mode " << mode;
  }
}

TEST_F(FinalizeTest, GradientsAreThoseOfTheSum) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const bool is_padded = Coin();
    NewCase(is_padded, true);
    const bool has_bias = Coin();
    const Ints row_dims = is_padded ? Ints{experts_, capacity_, width_} : Ints{num_rows_, width_};
    const std::vector<float> d_out = Values(tokens_ * width_);
    const auto gradient = Of({tokens_, width_}, d_out), rows = Of(row_dims, rows_),
               scales = Of({tokens_, k_}, scales_), bias = Of({experts_, width_}, bias_);
    const auto index = DeviceTensor::Ints(ACL_INT32, {tokens_ * k_}, row_ids_, AnyLayout());
    const auto ids = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout());
    const auto d_rows =
        DeviceTensor::Floats(dtype_, row_dims, std::vector<float>(rows_.size(), 7.0f), AnyLayout());
    const DeviceTensor d_scales(dtype_, {tokens_, k_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeFinalizeRoutingV2GradGetWorkspaceSize(
                        gradient, index, rows, scales, has_bias ? ids.get() : nullptr,
                        has_bias ? bias.get() : nullptr, is_padded, 0, experts_, capacity_, d_rows,
                        d_scales, size, executor);
                  },
                  aclnnMoeFinalizeRoutingV2Grad),
              0)
        << LastError();
    Doubles expected_rows(rows_.size(), is_padded ? 0.0 : 7.0), expected_scales, magnitudes;
    for (int64_t slot = 0; slot < tokens_ * k_; ++slot) {
      const int64_t row = row_ids_[At(slot)];
      double dot = 0, magnitude = 0;
      for (int64_t h = 0; h < width_; ++h) {
        const double d = d_out[At(slot / k_ * width_ + h)];
        if (row >= 0) expected_rows[At(row * width_ + h)] = d * scales_[At(slot)];
        const double b = has_bias ? bias_[At(ids_[At(slot)] * width_ + h)] : 0.0f;
        const double value = (row >= 0 ? rows_[At(row * width_ + h)] : 0.0f) + b;
        dot += value * d;
        magnitude += std::abs(value * d);
      }
      expected_scales.push_back(dot);
      magnitudes.push_back(magnitude);
    }
    ASSERT_TRUE(Near(dtype_, d_rows.ReadFloats(), expected_rows));
    ASSERT_TRUE(Near(dtype_, d_scales.ReadFloats(), expected_scales, magnitudes));
  }
}

TEST_F(FinalizeTest, ErrorsHaveCannsCodes) {
  const DeviceTensor rows(ACL_FLOAT, {4, 3}), scales(ACL_FLOAT, {2, 2}), out(ACL_FLOAT, {2, 3});
  const auto index = DeviceTensor::Ints(ACL_INT32, {4}, {0, 1, 2, 4});
  const DeviceTensor other(ACL_FLOAT16, {2, 3});
  const auto prepare = [&](const aclTensor* x, const aclTensor* i, const aclTensor* x1,
                           const aclTensor* x2, const aclTensor* bias, int64_t mode) {
    return [=, &scales, &out](uint64_t* size, aclOpExecutor** executor) {
      return aclnnMoeFinalizeRoutingV2GetWorkspaceSize(x, i, x1, x2, bias, scales, nullptr, mode,
                                                       out, size, executor);
    };
  };
  EXPECT_EQ(Check(prepare(rows, index, nullptr, nullptr, nullptr, 2)), 0) << LastError();
  EXPECT_EQ(Check(prepare(nullptr, index, nullptr, nullptr, nullptr, 2)), 161001);
  EXPECT_EQ(Check(prepare(rows, rows, nullptr, nullptr, nullptr, 2)), 161002);
  EXPECT_EQ(Check(prepare(rows, index, other, nullptr, nullptr, 2)), 161002);
  EXPECT_EQ(Check(prepare(rows, index, nullptr, out, nullptr, 2)), 561002) << "x2 without x1";
  EXPECT_EQ(Check(prepare(rows, index, nullptr, nullptr, rows, 2)), 561002) << "bias alone";
  EXPECT_EQ(Check(prepare(rows, index, nullptr, nullptr, nullptr, 4)), 561002);
  EXPECT_EQ(Check(prepare(rows, index, nullptr, nullptr, nullptr, 3)), 561002) << "needs 3 dims";
  EXPECT_EQ(Execute(prepare(rows, index, nullptr, nullptr, nullptr, 2), aclnnMoeFinalizeRoutingV2),
            507015);
  EXPECT_THAT(LastError(), testing::HasSubstr("expandedRowIdx must be -1 to 3; got 4"));
}

}  // namespace
}  // namespace opst::cann
