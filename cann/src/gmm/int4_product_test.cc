// Products with four-bit weights against sums in fp64: int8 and int4 inputs, every layout, groups
// of rows with a scale each, the bias that makes up for CANN's shift; SwiGLU; the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "aclnnop/aclnn_grouped_matmul_swiglu_quant.h"
#include "aclnnop/aclnn_grouped_matmul_swiglu_quant_weight_nz.h"
#include "aclnnop/aclnn_grouped_matmul_v5.h"
#include "aclnnop/aclnn_grouped_matmul_weight_nz.h"
#include "cann/testing/grouped_case.h"

namespace opst::cann {
namespace {

class Int4ProductTest : public GroupedCaseTest {
 protected:
  // [E,K,N] in any layout of int4, the scales [E,parts,N] and the bias that makes up for x - 8.
  void NewCase(bool is_int8_input) {
    constexpr Stored kInt4Layouts[] = {Stored::kInt4, Stored::kEightInAnInt32, Stored::kFractalInt4,
                                       Stored::kFractalInt32};
    stored_ = kInt4Layouts[Integer(0, 3)];
    const bool is_fractal = stored_ >= Stored::kFractalInt8;
    is_int8_input_ = is_int8_input;
    experts_ = Integer(1, 3), rows_ = Integer(1, 6), parts_ = Integer(1, 3);
    inner_ = parts_ * (is_fractal ? 16 : 8 * Integer(1, 2)), columns_ = is_fractal ? 64 : 8;
    columns_ *= Integer(1, 2);
    x_ = RandomInts(At(rows_ * inner_), is_int8_input ? -128 : -8, is_int8_input ? 127 : 7);
    weight_ = RandomInts(At(experts_ * inner_ * columns_), -8, 7);
    scale_ = RandomFloats(At(experts_ * parts_ * columns_), 1e-3f, 2e-3f);
    offset_ = RandomFloats(At(experts_ * columns_), -1e-2f, 1e-2f);
    token_ = RandomFloats(At(rows_), 0.5f, 2);
    counts_ = Counts(experts_, rows_);
    bias_.assign(At(experts_ * columns_), 0);
    for (int64_t e = 0; e < experts_; ++e) {
      for (int64_t n = 0; n < columns_; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < inner_; ++k) sum += 8 * Scale(e, k, n) * Weight(e, k, n);
        bias_[At(e * columns_ + n)] = static_cast<float>(sum);
      }
    }
  }
  double Scale(int64_t e, int64_t k, int64_t n) const {
    return scale_[At((e * parts_ + k / (inner_ / parts_)) * columns_ + n)];
  }
  double Weight(int64_t e, int64_t k, int64_t n) const {
    return static_cast<double>(weight_[At((e * inner_ + k) * columns_ + n)]);
  }
  int64_t ExpertOf(int64_t row) const {  // -1 behind the last group
    int64_t end = 0;
    for (int64_t e = 0; e < experts_; ++e) {
      if (row < (end += counts_[At(e)])) return e;
    }
    return -1;
  }
  // x · W with its scales and the factor of the token: without the shift, which the bias undoes.
  // The second number is what rounding may be measured by.
  std::pair<double, double> Value(int64_t row, int64_t n, bool has_offset, bool has_token) const {
    const int64_t e = ExpertOf(row);
    double sum = 0, magnitude = 0, row_sum = 0;
    for (int64_t k = 0; k < inner_; ++k) {
      const auto x = static_cast<double>(x_[At(row * inner_ + k)]);
      const double weight = Scale(e, k, n) * Weight(e, k, n);
      sum += x * weight;
      magnitude += (std::abs(x) + (is_int8_input_ ? 16 : 0)) * std::abs(weight);
      row_sum += x;
    }
    if (has_offset) sum += offset_[At(e * columns_ + n)] * row_sum;
    magnitude += has_offset ? std::abs(offset_[At(e * columns_ + n)] * row_sum) : 0;
    const double token = has_token ? token_[At(row)] : 1;
    return {sum * token, magnitude * token};
  }
  DeviceTensor ScaleBits(bool has_parts) const {
    Ints bits;
    for (const float value : scale_) bits.push_back(std::bit_cast<int32_t>(value));
    return DeviceTensor::Ints(
        Coinless() ? ACL_INT64 : ACL_UINT64,
        has_parts ? Ints{experts_, parts_, columns_} : Ints{experts_, columns_}, bits);
  }
  bool Coinless() const { return rows_ % 2 == 0; }
  void CheckProduct(aclDataType dtype, const std::vector<float>& actual, bool has_offset,
                    bool has_token) const {
    Doubles expected(At(rows_ * columns_), 9), magnitudes(expected.size(), 0);
    for (int64_t row = 0; row < rows_ && ExpertOf(row) >= 0; ++row) {
      for (int64_t n = 0; n < columns_; ++n) {
        const auto [value, magnitude] = Value(row, n, has_offset, has_token);
        const size_t at = At(row * columns_ + n);
        expected[at] = value;
        magnitudes[at] = OnceRounded(dtype, value, magnitude);
      }
    }
    ASSERT_TRUE(Near(ACL_FLOAT, actual, expected, magnitudes));
  }

  Stored stored_ = Stored::kInt4;
  bool is_int8_input_ = true;
  int64_t experts_ = 0, rows_ = 0, parts_ = 0, inner_ = 0, columns_ = 0;
  Ints x_, weight_, counts_;
  std::vector<float> scale_, bias_, offset_, token_;
};

TEST_F(Int4ProductTest, ScalesAreThoseOfColumnsOrGroupsOfRows) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const bool is_int8 = Coin();
    NewCase(is_int8);
    const aclDataType dtype = Coin() ? ACL_FLOAT16 : ACL_BF16;
    const bool has_offset = is_int8 && Coin(), has_token = is_int8 || Coin(), is_nz = Coin();
    const int64_t list_type = Integer(0, 1);
    Ints listed = counts_;
    if (list_type == 0) std::partial_sum(listed.begin(), listed.end(), listed.begin());
    const auto x = Store(is_int8  ? Stored::kInt8
                         : Coin() ? Stored::kInt4
                                  : Stored::kEightInAnInt32,
                         {rows_, inner_}, x_, is_int8 ? AnyLayout() : Layout::kContiguous);
    const auto w = Store(stored_, {experts_, inner_, columns_}, weight_, AnyLayout());
    const auto scale = ScaleBits(parts_ > 1 || Coin());
    const auto bias = DeviceTensor::Floats(ACL_FLOAT, {experts_, columns_}, bias_, AnyLayout());
    const auto offset = DeviceTensor::Floats(ACL_FLOAT, {experts_, 1, columns_}, offset_);
    const auto token = DeviceTensor::Floats(ACL_FLOAT, {rows_, 1}, token_);
    const auto list = DeviceTensor::Ints(ACL_INT64, {experts_}, listed);
    const auto out = DeviceTensor::Floats(dtype, {rows_, columns_},
                                          std::vector<float>(At(rows_ * columns_), 9), AnyLayout());
    const List xs({x}), ws({w}), ss({scale}), bs({bias}), os({offset}), ts({token}), outs({out});
    const auto prepare = [&](uint64_t* size, aclOpExecutor** executor) {
      const auto call = [&](const auto& function, auto... group_size) {
        return function(
            xs.list, ws.list, is_int8 ? bs.list : nullptr, ss.list, has_offset ? os.list : nullptr,
            nullptr, nullptr, has_token ? ts.list : nullptr, list, nullptr, nullptr, nullptr, 3, 0,
            list_type, 0, nullptr, group_size..., outs.list, nullptr, nullptr, size, executor);
      };
      return is_nz ? call(aclnnGroupedMatmulWeightNzGetWorkspaceSize, int64_t{0})
                   : call(aclnnGroupedMatmulV5GetWorkspaceSize);
    };
    ASSERT_EQ(Execute(prepare, is_nz ? aclnnGroupedMatmulWeightNz : aclnnGroupedMatmulV5), 0)
        << LastError();
    CheckProduct(dtype, out.ReadFloats(), has_offset, has_token);
    ASSERT_FALSE(HasFatalFailure()) << "case " << repeat;
  }
}

TEST_F(Int4ProductTest, SwigluTakesThemToo) {
  for (int repeat = 0; repeat < 500; ++repeat) {
    NewCase(true);
    const bool is_nz = Coin();
    Ints ends = counts_;
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    const auto x = DeviceTensor::Ints(ACL_INT8, {rows_, inner_}, x_, AnyLayout());
    const auto w = Store(stored_, {experts_, inner_, columns_}, weight_, AnyLayout());
    const auto scale = ScaleBits(parts_ > 1 || Coin());
    const auto bias = DeviceTensor::Floats(ACL_FLOAT, {experts_, columns_}, bias_);
    const auto token = DeviceTensor::Floats(ACL_FLOAT, {rows_}, token_);
    const auto list = DeviceTensor::Ints(ACL_INT64, {experts_}, ends);
    const DeviceTensor out(ACL_INT8, {rows_, columns_ / 2}, AnyLayout());
    const DeviceTensor out_scale(ACL_FLOAT, {rows_}, AnyLayout());
    const auto prepare = [&](uint64_t* size, aclOpExecutor** executor) {
      return (is_nz ? aclnnGroupedMatmulSwigluQuantWeightNZGetWorkspaceSize
                    : aclnnGroupedMatmulSwigluQuantGetWorkspaceSize)(
          x, w, bias, nullptr, scale, token, list, out, out_scale, nullptr, size, executor);
    };
    ASSERT_EQ(Execute(prepare, is_nz ? aclnnGroupedMatmulSwigluQuantWeightNZ
                                     : aclnnGroupedMatmulSwigluQuant),
              0)
        << LastError();
    const Ints q = out.ReadInts();
    const auto scales = out_scale.ReadFloats();
    for (int64_t row = 0; row < rows_ && ExpertOf(row) >= 0; ++row) {
      Doubles values;
      double largest = 0, noise = 0;  // what f32 sums are off by
      for (int64_t n = 0; n < columns_ / 2; ++n) {
        const auto [gate, gate_magnitude] = Value(row, n, false, true);
        const auto [up, up_magnitude] = Value(row, n + columns_ / 2, false, true);
        values.push_back(gate / (1 + std::exp(-gate)) * up);
        largest = std::max(largest, std::abs(values.back()));
        noise = std::max(
            noise, 32 * 0x1p-24 * 1.2 *
                       (gate_magnitude * (std::abs(up) + 1) + up_magnitude * (std::abs(gate) + 1)));
      }
      ASSERT_NEAR(scales[At(row)] * 127, largest, largest * 1e-5 + noise);
      for (int64_t n = 0; n < columns_ / 2; ++n) {  // half a step, and f16 near 127
        const double got = static_cast<double>(q[At(row * columns_ / 2 + n)]) * scales[At(row)];
        ASSERT_NEAR(got, values[At(n)], largest / 127 * 0.54 + 2 * noise);
      }
    }
  }
}

TEST_F(Int4ProductTest, ErrorsHaveCannsCodes) {
  const DeviceTensor x8(ACL_INT8, {4, 16}), out(ACL_FLOAT16, {4, 8}), out32(ACL_FLOAT, {4, 8});
  const DeviceTensor x4(ACL_INT32, {4, 2}), w(ACL_INT32, {2, 16, 1}), w8(ACL_INT8, {2, 16, 8});
  const DeviceTensor scale(ACL_UINT64, {2, 8}), floats(ACL_FLOAT, {2, 8}),
      uneven(ACL_INT64, {2, 3, 8});
  const DeviceTensor token(ACL_FLOAT, {4}), short_token(ACL_FLOAT, {3}),
      halves(ACL_FLOAT16, {2, 8});
  const auto list = DeviceTensor::Ints(ACL_INT64, {2}, {1, 4});
  struct Case {
    const aclTensor *x, *w, *bias, *scale, *offset, *token, *out;
    int64_t activation = 0;
  };
  const auto code = [&](const Case& c) {
    const auto listed = [](const aclTensor* t) { return t == nullptr ? nullptr : List({t}).list; };
    return Check([&](auto* size, auto** executor) {
      return aclnnGroupedMatmulV5GetWorkspaceSize(
          listed(c.x), listed(c.w), listed(c.bias), listed(c.scale), listed(c.offset), nullptr,
          nullptr, listed(c.token), list, nullptr, nullptr, nullptr, 3, 0, 0, c.activation, nullptr,
          listed(c.out), nullptr, nullptr, size, executor);
    });
  };
  EXPECT_EQ(code({x8, w, floats, scale, nullptr, token, out}), 0) << LastError();
  EXPECT_EQ(code({x8, w, floats, scale, floats, token, out}), 0) << LastError();
  EXPECT_EQ(code({x4, w, nullptr, scale, nullptr, nullptr, out}), 0) << LastError();
  EXPECT_EQ(code({nullptr, w, floats, scale, nullptr, token, out}), 161001);
  EXPECT_EQ(code({x8, w, nullptr, scale, nullptr, token, out}), 161002) << "no bias";
  EXPECT_EQ(code({x8, w, halves, scale, nullptr, token, out}), 161002) << "bias f16";
  EXPECT_EQ(code({x8, w, floats, floats, nullptr, token, out}), 161002) << "scale f32";
  EXPECT_EQ(code({x8, w, floats, nullptr, nullptr, token, out}), 161002) << "no scale";
  EXPECT_EQ(code({x8, w, floats, uneven, nullptr, token, out}), 161002) << "3 groups of 16 rows";
  EXPECT_EQ(code({x8, w, floats, scale, nullptr, nullptr, out}), 161002) << "no perTokenScale";
  EXPECT_EQ(code({x8, w, floats, scale, nullptr, short_token, out}), 161002);
  EXPECT_EQ(code({x8, w, floats, scale, nullptr, token, out32}), 161002) << "out f32";
  EXPECT_EQ(code({x8, w, floats, scale, nullptr, token, out, 1}), 161002) << "activation";
  EXPECT_EQ(code({x8, w8, nullptr, scale, floats, token, out}), 161002) << "offset of int8";
  EXPECT_EQ(code({x4, w, floats, scale, nullptr, token, out}), 161002) << "bias of int4";
  EXPECT_EQ(code({x4, w8, nullptr, scale, nullptr, token, out}), 161002) << "int4 by int8";
  EXPECT_EQ(code({x4, w, nullptr, scale, floats, nullptr, out}), 161002) << "offset of int4";
  const DeviceTensor q(ACL_INT8, {4, 4}), q_scale(ACL_FLOAT, {4});
  const auto swiglu = [&](const aclTensor* bias, const aclTensor* scales) {
    return Check([&](auto* size, auto** executor) {
      return aclnnGroupedMatmulSwigluQuantGetWorkspaceSize(
          x8, w, bias, nullptr, scales, token, list, q, q_scale, nullptr, size, executor);
    });
  };
  EXPECT_EQ(swiglu(floats, scale), 0) << LastError();
  EXPECT_EQ(swiglu(nullptr, scale), 161001);
  EXPECT_EQ(swiglu(halves, scale), 161002);
  EXPECT_EQ(swiglu(floats, floats), 161002);
  EXPECT_EQ(swiglu(floats, uneven), 161002);
}

}  // namespace
}  // namespace opst::cann
