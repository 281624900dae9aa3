// The fused int8 products against plain integer sums: SwiGLU with quantisation, and the weighted
// sum per token; plain, fractal and four-bit weights.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "aclnnop/aclnn_grouped_matmul_finalize_routing.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_v3.h"
#include "aclnnop/aclnn_grouped_matmul_finalize_routing_weight_nz.h"
#include "aclnnop/aclnn_grouped_matmul_swiglu_quant.h"
#include "aclnnop/aclnn_permute.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

class QuantizedProductTest : public DeviceTest {
 protected:
  void NewCase(int64_t inner, int64_t columns) {
    experts_ = Integer(1, 3), rows_ = Integer(1, 6), inner_ = inner, columns_ = columns;
    x_ = RandomInts(At(rows_ * inner_), -128, 127);
    weight_ = RandomInts(At(experts_ * inner_ * columns_), -8, 7);
    scale_ = RandomFloats(At(experts_ * columns_), 1e-3f, 2e-3f);
    token_ = RandomFloats(At(rows_), 0.5f, 2);
    counts_.clear();
    int64_t left = rows_;
    for (int64_t e = 0; e < experts_; ++e) {
      counts_.push_back(Integer(0, left));
      left -= counts_.back();
    }
  }
  int64_t ExpertOf(int64_t row) const {  // -1 behind the last group
    int64_t end = 0;
    for (int64_t e = 0; e < experts_; ++e) {
      if (row < (end += counts_[At(e)])) return e;
    }
    return -1;
  }
  int64_t Sum(int64_t row, int64_t expert, int64_t column) const {
    int64_t sum = 0;
    for (int64_t k = 0; k < inner_; ++k) {
      sum += x_[At(row * inner_ + k)] * weight_[At((expert * inner_ + k) * columns_ + column)];
    }
    return sum;
  }
  // [E,K,N] as the blocks of 16 rows and 32 columns that CANN multiplies.
  Ints Fractal() const {
    Ints blocks;
    for (int64_t e = 0; e < experts_; ++e) {
      for (int64_t nb = 0; nb < columns_ / 32; ++nb) {
        for (int64_t k = 0; k < inner_; ++k) {
          for (int64_t n = nb * 32; n < nb * 32 + 32; ++n) {
            blocks.push_back(weight_[At((e * inner_ + k) * columns_ + n)]);
          }
        }
      }
    }
    return blocks;
  }

  int64_t experts_ = 0, rows_ = 0, inner_ = 0, columns_ = 0;
  Ints x_, weight_, counts_;
  std::vector<float> scale_, token_;
};

TEST_F(QuantizedProductTest, SwigluActivatesTheFirstHalfAndQuantisesRows) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    NewCase(16 * Integer(1, 2), 32 * Integer(1, 2));
    const bool is_fractal = Coin();
    const auto x = DeviceTensor::Ints(ACL_INT8, {rows_, inner_}, x_, AnyLayout());
    const auto plain =
        DeviceTensor::Ints(ACL_INT8, {experts_, inner_, columns_}, weight_, AnyLayout());
    const Ints dims = {experts_, columns_ / 32, inner_ / 16, 16, 32};
    const auto blocks = DeviceTensor::Ints(ACL_INT8, dims, Fractal());
    aclTensor* const fractal =
        aclCreateTensor(dims.data(), dims.size(), ACL_INT8, nullptr, 0, ACL_FORMAT_FRACTAL_NZ,
                        dims.data(), dims.size(), blocks.address());
    const auto scale = DeviceTensor::Floats(ACL_FLOAT, {experts_, columns_}, scale_);
    const auto token = DeviceTensor::Floats(ACL_FLOAT, {rows_}, token_);
    Ints ends = counts_;
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    const auto list = DeviceTensor::Ints(ACL_INT64, {experts_}, ends);
    const DeviceTensor out(ACL_INT8, {rows_, columns_ / 2}, AnyLayout());
    const DeviceTensor out_scale(ACL_FLOAT, {rows_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulSwigluQuantGetWorkspaceSize(
                        x, is_fractal ? fractal : plain.get(), nullptr, nullptr, scale, token, list,
                        out, out_scale, nullptr, size, executor);
                  },
                  aclnnGroupedMatmulSwigluQuant),
              0)
        << LastError();
    aclDestroyTensor(fractal);
    const Ints q = out.ReadInts();
    const auto scales = out_scale.ReadFloats();
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t e = ExpertOf(row);
      if (e < 0) continue;
      Doubles values;
      double largest = 0;
      for (int64_t n = 0; n < columns_ / 2; ++n) {
        const auto part = [&](int64_t column) {
          return static_cast<double>(Sum(row, e, column)) * token_[At(row)] *
                 scale_[At(e * columns_ + column)];
        };
        const double gate = part(n);
        values.push_back(gate / (1 + std::exp(-gate)) * part(n + columns_ / 2));
        largest = std::max(largest, std::abs(values.back()));
      }
      ASSERT_NEAR(scales[At(row)], largest / 127, largest / 127 * 1e-5);
      for (int64_t n = 0; n < columns_ / 2; ++n) {  // half a step, and f16 near 127
        const double got = static_cast<double>(q[At(row * columns_ / 2 + n)]) * scales[At(row)];
        ASSERT_NEAR(got, values[At(n)], largest / 127 * 0.54);
      }
    }
  }
}

TEST_F(QuantizedProductTest, ProductsAreAddedToTheirTokensOnTopOfSharedRows) {
  for (int repeat = 0; repeat < 500; ++repeat) {
    NewCase(Integer(1, 12), Integer(1, 9));
    const bool has_shared = Coin();
    const int64_t tokens = Integer(1, rows_), shared_rows = Integer(1, tokens);
    const int64_t offset = Integer(0, tokens - shared_rows);
    Ints targets = RandomInts(At(rows_), 0, tokens - 1);
    const auto logit = RandomFloats(At(rows_), 0, 1);
    auto shared = RandomFloats(At(shared_rows * columns_));
    for (float& value : shared) value = Rounded(ACL_BF16, value);
    const auto x = DeviceTensor::Ints(ACL_INT8, {rows_, inner_}, x_, AnyLayout());
    const auto w = DeviceTensor::Ints(ACL_INT8, {experts_, inner_, columns_}, weight_, AnyLayout());
    const auto scale = DeviceTensor::Floats(ACL_FLOAT, {experts_, columns_}, scale_);
    const auto token = DeviceTensor::Floats(ACL_FLOAT, {rows_}, token_);
    const auto list = DeviceTensor::Ints(ACL_INT64, {experts_}, counts_);
    const auto shared_in = DeviceTensor::Floats(ACL_BF16, {shared_rows, columns_}, shared);
    const auto logit_in = DeviceTensor::Floats(ACL_FLOAT, {rows_}, logit);
    const auto target_in = DeviceTensor::Ints(ACL_INT64, {rows_}, targets, AnyLayout());
    const auto out = DeviceTensor::Floats(ACL_FLOAT, {tokens, columns_},
                                          std::vector<float>(At(tokens * columns_), 5));
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulFinalizeRoutingWeightNzGetWorkspaceSize(
                        x, w, scale, nullptr, token, list, has_shared ? shared_in.get() : nullptr,
                        has_shared ? logit_in.get() : nullptr, target_in, 0, 0.5f, offset, false,
                        false, 1, out, size, executor);
                  },
                  aclnnGroupedMatmulFinalizeRoutingWeightNz),
              0)
        << LastError();
    Doubles expected(At(tokens * columns_), has_shared ? 0 : 5), magnitudes(expected.size(), 0);
    for (size_t i = 0; i < shared.size() && has_shared; ++i) {
      expected[At(offset * columns_) + i] = shared[i] * 0.5;
      magnitudes[At(offset * columns_) + i] = std::abs(shared[i] * 0.5);
    }
    for (int64_t row = 0; row < rows_ && ExpertOf(row) >= 0; ++row) {
      for (int64_t n = 0; n < columns_; ++n) {
        const int64_t e = ExpertOf(row);
        double value =
            static_cast<double>(Sum(row, e, n)) * scale_[At(e * columns_ + n)] * token_[At(row)];
        if (has_shared) value *= logit[At(row)];
        const size_t at = At(targets[At(row)] * columns_ + n);
        expected[at] = has_shared ? expected[at] + value : value;
        magnitudes[at] += std::abs(value);
      }
    }
    ASSERT_TRUE(Near(ACL_FLOAT, out.ReadFloats(), expected, magnitudes));
  }
}

TEST_F(QuantizedProductTest, FourBitWeightsNeedTheBiasThatMakesUpForTheirShift) {
  for (int repeat = 0; repeat < 500; ++repeat) {
    NewCase(Integer(1, 12), 8 * Integer(1, 2));
    Ints packed, scale_bits;  // eight numbers an int32, the lower bits first
    for (size_t i = 0; i < weight_.size(); i += 8) {
      uint32_t bits = 0;
      for (size_t j = 0; j < 8; ++j) {
        bits |= (static_cast<uint32_t>(weight_[i + j]) & 15u) << (4 * j);
      }
      packed.push_back(static_cast<int32_t>(bits));
    }
    std::vector<float> bias(scale_.size());  // 8 · ΣW · scale
    for (int64_t at = 0; at < experts_ * columns_; ++at) {
      scale_bits.push_back(std::bit_cast<int32_t>(scale_[At(at)]));
      int64_t sum = 0;
      for (int64_t k = 0; k < inner_; ++k) {
        sum += weight_[At((at / columns_ * inner_ + k) * columns_ + at % columns_)];
      }
      bias[At(at)] = static_cast<float>(8 * sum) * scale_[At(at)];
    }
    Ints targets(At(rows_));
    std::iota(targets.begin(), targets.end(), 0);
    const std::vector<float> ones(At(rows_), 1.0f), zeros(At(columns_), 0.0f);
    const auto x = DeviceTensor::Ints(ACL_INT8, {rows_, inner_}, x_);
    const auto w = DeviceTensor::Ints(ACL_INT32, {experts_, inner_, columns_ / 8}, packed);
    const auto scale = DeviceTensor::Ints(ACL_INT64, {experts_, 1, columns_}, scale_bits);
    const auto bias_in = DeviceTensor::Floats(ACL_FLOAT, {experts_, columns_}, bias);
    const auto token = DeviceTensor::Floats(ACL_FLOAT, {rows_}, token_);
    const auto list = DeviceTensor::Ints(ACL_INT64, {experts_}, counts_);
    const auto shared = DeviceTensor::Floats(ACL_BF16, {1, columns_}, zeros);
    const auto logit = DeviceTensor::Floats(ACL_FLOAT, {rows_}, ones);
    const auto index = DeviceTensor::Ints(ACL_INT64, {rows_}, targets);
    const DeviceTensor out(ACL_FLOAT, {rows_, columns_});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
                        x, w, scale, bias_in, nullptr, nullptr, nullptr, token, list, shared, logit,
                        index, 0, 1, 0, false, false, 1, nullptr, out, size, executor);
                  },
                  aclnnGroupedMatmulFinalizeRoutingV3),
              0)
        << LastError();
    Doubles expected(At(rows_ * columns_), 0), magnitudes(expected.size(), 0);
    for (int64_t row = 0; row < rows_ && ExpertOf(row) >= 0; ++row) {
      for (int64_t n = 0; n < columns_; ++n) {
        const int64_t at = ExpertOf(row) * columns_ + n;
        expected[At(row * columns_ + n)] =
            static_cast<double>(Sum(row, ExpertOf(row), n)) * scale_[At(at)] * token_[At(row)];
        magnitudes[At(row * columns_ + n)] = 4 * std::abs(bias[At(at)] * token_[At(row)]) +
                                             2 * std::abs(expected[At(row * columns_ + n)]);
      }
    }
    ASSERT_TRUE(Near(ACL_FLOAT, out.ReadFloats(), expected, magnitudes));
  }
}

TEST_F(QuantizedProductTest, PermuteReordersAxes) {
  const auto x = DeviceTensor::Ints(ACL_INT32, {2, 3}, {0, 1, 2, 3, 4, 5}, Layout::kSpread);
  const DeviceTensor out(ACL_INT32, {3, 2}, Layout::kSpread);
  const int64_t order[] = {1, 0}, twice[] = {1, 1};
  aclIntArray* const dims = aclCreateIntArray(order, 2);
  aclIntArray* const wrong = aclCreateIntArray(twice, 2);
  const auto prepare = [&](const aclIntArray* axes) {
    return [&out, &x, axes](uint64_t* size, aclOpExecutor** executor) {
      return aclnnPermuteGetWorkspaceSize(x, axes, out, size, executor);
    };
  };
  ASSERT_EQ(Execute(prepare(dims), aclnnPermute), 0) << LastError();
  EXPECT_EQ(out.ReadInts(), (Ints{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(Check(prepare(wrong)), 161002);
  EXPECT_EQ(Check(prepare(nullptr)), 161001);
  aclDestroyIntArray(dims);
  aclDestroyIntArray(wrong);
}

TEST_F(QuantizedProductTest, ErrorsHaveCannsCodes) {
  NewCase(16, 32);
  const DeviceTensor x(ACL_INT8, {rows_, 16}), w(ACL_INT8, {experts_, 16, 32}), f(ACL_FLOAT, {1});
  const DeviceTensor scale(ACL_FLOAT, {experts_, 32}), rows(ACL_FLOAT, {rows_});
  const DeviceTensor list(ACL_INT64, {experts_}), out(ACL_INT8, {rows_, 16});
  const auto code = [&](const aclTensor* input, const aclTensor* offset, aclTensor* result) {
    return Check([&](auto* size, auto** executor) {
      return aclnnGroupedMatmulSwigluQuantGetWorkspaceSize(
          input, w, nullptr, offset, scale, rows, list, result, rows, nullptr, size, executor);
    });
  };
  EXPECT_EQ(code(x, nullptr, out), 0) << LastError();
  EXPECT_EQ(code(nullptr, nullptr, out), 161001);
  EXPECT_EQ(code(f, nullptr, out), 161002);
  EXPECT_EQ(code(x, f, out), 161002);
  EXPECT_EQ(code(x, nullptr, w), 161002);
}

}  // namespace
}  // namespace opst::cann
