// The feed-forward layer against its formula in fp64: floats, int8 throughout, floats with int8 and
// int4 weights; all activations and versions; the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "aclnnop/aclnn_ffn.h"
#include "aclnnop/aclnn_ffn_v2.h"
#include "aclnnop/aclnn_ffn_v3.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

constexpr double kF32 = 0x1p-24;  // what one operation rounds

double Unit(aclDataType dtype) {
  return dtype == ACL_FLOAT16 ? 0x1p-11 : dtype == ACL_BF16 ? 0x1p-8 : kF32;
}

struct NamedFunction {
  const char* name;
  double (*function)(double);
  bool is_gated;
};
double Gelu(double v) {
  return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}
double Silu(double v) { return v / (1 + std::exp(-v)); }
double Relu(double v) { return std::max(v, 0.0); }
constexpr NamedFunction kFunctions[] = {
    {"FastGelu", [](double v) { return v / (1 + std::exp(-1.702 * v)); }, false},
    {"gelu", Gelu, false},
    {"relu", Relu, false},
    {"SILU", Silu, false},
    {"geglu", Gelu, true},
    {"swiglu", Silu, true},
    {"reglu", Relu, true},
};

// A value and how far f32 arithmetic may be from it.
struct Bounded {
  double value = 0;
  double error = 0;
};

// A layer; the rows of each expert follow each other. Weights are [E,K,N] as the products see them.
struct Layer {
  const NamedFunction* function = nullptr;
  int64_t rows = 0, in = 0, inner = 0, hidden = 0;
  Ints counts;
  Doubles x, w1, w2, b1, b2;
  // Of int8 layers alone; scale has one number an expert or `inner` of them.
  std::vector<float> deq1, deq2, scale, offset;

  bool is_int() const { return !deq1.empty(); }

  // Σ_k row[k] · w[e,k,n] + b[e,n], times a scale.
  Bounded Product(const std::vector<Bounded>& row, const Doubles& w, const Doubles& b,
                  const std::vector<float>& deq, int64_t columns, int64_t cell) const {
    const int64_t expert = cell / columns, n = cell % columns;
    const auto depth = static_cast<int64_t>(row.size());
    double sum = b.empty() ? 0 : b[At(cell)], magnitude = std::abs(sum), error = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const double factor = w[At((expert * depth + k) * columns + n)];
      sum += row[At(k)].value * factor;
      magnitude += std::abs(row[At(k)].value * factor);
      error += row[At(k)].error * std::abs(factor);
    }
    if (deq.empty()) return {sum, error + static_cast<double>(depth + 4) * kF32 * magnitude};
    const double scaled = sum * deq[At(cell)];  // exact sums
    return {scaled, error * std::abs(deq[At(cell)]) + 4 * kF32 * std::abs(scaled)};
  }

  // f16 at every step, then to nearest even.
  double Quantized(double v, int64_t expert, int64_t k) const {
    const auto half = [](float value) { return Rounded(ACL_FLOAT16, value); };
    const bool is_per_column = scale.size() > counts.size();
    const float s = scale[At(is_per_column ? expert * inner + k : expert)];
    const float product = half(half(static_cast<float>(v)) * half(s));
    const float sum = half(product + half(offset[At(expert)]));
    return std::clamp(std::nearbyint(sum), -128.0f, 127.0f);
  }

  Bounded Activated(const std::vector<Bounded>& h, int64_t expert, int64_t k) const {
    const Bounded gate = h[At(function->is_gated ? k + inner : k)];
    const double active = function->function(gate.value);
    // No slope is above 1.2; the functions themselves are good to 16 units.
    Bounded result{active, 1.2 * gate.error + 16 * kF32 * std::abs(gate.value)};
    if (function->is_gated) {
      const Bounded left = h[At(k)];
      result.value = active * left.value;
      result.error = result.error * (std::abs(left.value) + left.error) +
                     left.error * std::abs(active) + kF32 * std::abs(result.value);
    }
    if (!is_int()) return result;
    const double low = Quantized(result.value - result.error, expert, k);
    const double high = Quantized(result.value + result.error, expert, k);
    const double q = Quantized(result.value, expert, k);
    return {q, std::max(std::abs(high - q), std::abs(low - q))};
  }

  std::vector<Bounded> Expected() const {
    std::vector<Bounded> result;
    int64_t row = 0;
    for (int64_t e = 0; e < static_cast<int64_t>(counts.size()); ++e) {
      for (const int64_t end = row + counts[At(e)]; row < end; ++row) {
        std::vector<Bounded> input, h, a;
        for (int64_t k = 0; k < in; ++k) input.push_back({x[At(row * in + k)], 0});
        for (int64_t n = 0; n < hidden; ++n) {
          h.push_back(Product(input, w1, b1, deq1, hidden, e * hidden + n));
        }
        for (int64_t k = 0; k < inner; ++k) a.push_back(Activated(h, e, k));
        for (int64_t n = 0; n < in; ++n) {
          result.push_back(Product(a, w2, b2, deq2, in, e * in + n));
        }
      }
    }
    return result;
  }
};

// The optional tensors of a call.
struct Tensors {
  const aclTensor *x = nullptr, *w1 = nullptr, *w2 = nullptr, *b1 = nullptr, *b2 = nullptr;
  const aclTensor *scale = nullptr, *offset = nullptr, *deq1 = nullptr, *deq2 = nullptr;
  const aclTensor *anti_scale1 = nullptr, *anti_scale2 = nullptr;
  const aclTensor *anti_offset1 = nullptr, *anti_offset2 = nullptr;
  const aclTensor* y = nullptr;
};

class FfnTest : public DeviceTest {
 protected:
  // An integer matrix for each expert, as a tensor and as the numbers that it stands for.
  struct IntWeight {
    DeviceTensor weight, scale, offset;
    Doubles values;
  };

  void NewLayer(int64_t step = 1) {
    layer_ = {};
    layer_.function = &kFunctions[Integer(0, 6)];
    const bool is_gated = layer_.function->is_gated;
    has_experts_ = !is_gated && Coin();
    layer_.in = step * Integer(1, 6);
    layer_.inner = step * Integer(1, 6);
    layer_.hidden = layer_.inner * (is_gated ? 2 : 1);
    layer_.counts = RandomInts(At(has_experts_ ? Integer(1, 3) : 1), 0, 3);
    layer_.rows = std::accumulate(layer_.counts.begin(), layer_.counts.end(), int64_t{0});
  }
  int64_t experts() const { return static_cast<int64_t>(layer_.counts.size()); }
  // Dims of a tensor that has one more with experts.
  Ints Dims(Ints dims) const {
    if (has_experts_) dims.insert(dims.begin(), experts());
    return dims;
  }
  DeviceTensor RandomTensor(aclDataType dtype, const Ints& dims, Doubles& values, float limit = 1) {
    const int64_t count =
        std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> floats = RandomFloats(At(count), -limit, limit);
    for (float& value : floats) value = Rounded(dtype, value);
    values.assign(floats.begin(), floats.end());
    return DeviceTensor::Floats(dtype, dims, floats, AnyLayout());
  }
  DeviceTensor RandomInt8(const Ints& dims, Doubles& values) {
    const int64_t count =
        std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    const Ints ints = RandomInts(At(count), -128, 127);
    values.assign(ints.begin(), ints.end());
    return DeviceTensor::Ints(ACL_INT8, dims, ints, AnyLayout());
  }

  // Runs the layer in any version and compares.
  void Compare(const Tensors& t, const DeviceTensor& y, aclDataType dtype) {
    const int64_t version = Integer(1, 3);
    const bool are_sums = version > 1 && Coin();
    Ints list = layer_.counts;
    if (are_sums) std::partial_sum(list.begin(), list.end(), list.begin());
    const auto tokens = DeviceTensor::Ints(ACL_INT64, {experts()}, list);
    aclIntArray* const array = aclCreateIntArray(list.data(), list.size());
    const aclIntArray* const host = has_experts_ ? array : nullptr;
    const char* const name = layer_.function->name;
    const auto prepare = [&](uint64_t* size, aclOpExecutor** executor) {
      const auto call = [&](const auto& function, const auto*... groups) {
        return [&, groups...](auto... rest) {
          return function(t.x, t.w1, t.w2, groups..., t.b1, t.b2, t.scale, t.offset, t.deq1, t.deq2,
                          t.anti_scale1, t.anti_scale2, t.anti_offset1, t.anti_offset2, name, 0,
                          rest..., y, size, executor);
        };
      };
      if (version == 1) return call(aclnnFFNGetWorkspaceSize, host)();
      if (version == 2) return call(aclnnFFNV2GetWorkspaceSize, host)(are_sums);
      const aclTensor* const groups = has_experts_ ? tokens.get() : nullptr;
      return call(aclnnFFNV3GetWorkspaceSize, groups)(are_sums);
    };
    ASSERT_EQ(Execute(prepare, version == 1   ? aclnnFFN
                               : version == 2 ? aclnnFFNV2
                                              : aclnnFFNV3),
              0)
        << LastError();
    aclDestroyIntArray(array);
    const std::vector<Bounded> expected = layer_.Expected();
    const std::vector<float> actual = y.ReadFloats();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const auto [value, error] = expected[i];
      const double rounding = Unit(dtype) * (std::abs(value) + error) + 0x1p-25;
      ASSERT_LE(std::abs(actual[i] - value), error + rounding)
          << name << " element " << i << ": " << actual[i] << " for " << value;
    }
    EXPECT_TRUE(y.gaps_are_untouched());
  }

  Layer layer_;
  bool has_experts_ = false;
};

TEST_F(FfnTest, FloatsMeetTheirExperts) {
  for (int repeat = 0; repeat < 600; ++repeat) {
    NewLayer();
    const aclDataType dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}, dtype = dtypes[Integer(0, 2)];
    const aclDataType bias = dtype == ACL_FLOAT16 ? ACL_FLOAT16 : ACL_FLOAT;
    const auto x = RandomTensor(dtype, {1, layer_.rows, layer_.in}, layer_.x);
    const auto w1 = RandomTensor(dtype, Dims({layer_.in, layer_.hidden}), layer_.w1);
    const auto w2 = RandomTensor(dtype, Dims({layer_.inner, layer_.in}), layer_.w2);
    const auto b1 = RandomTensor(bias, Dims({layer_.hidden}), layer_.b1);
    const auto b2 = RandomTensor(bias, Dims({layer_.in}), layer_.b2);
    const DeviceTensor y(dtype, {1, layer_.rows, layer_.in}, AnyLayout());
    ASSERT_NO_FATAL_FAILURE(Compare({.x = x, .w1 = w1, .w2 = w2, .b1 = b1, .b2 = b2}, y, dtype));
  }
}

TEST_F(FfnTest, Int8LayersAreExactUpToTheirScales) {
  for (int repeat = 0; repeat < 600; ++repeat) {
    NewLayer();
    const aclDataType dtype = Coin() ? ACL_FLOAT16 : ACL_BF16;
    const bool has_bias = Coin(), is_per_column = Coin();
    const auto x = RandomInt8({layer_.rows, layer_.in}, layer_.x);
    const auto w1 = RandomInt8(Dims({layer_.in, layer_.hidden}), layer_.w1);
    const auto w2 = RandomInt8(Dims({layer_.inner, layer_.in}), layer_.w2);
    const auto bias = [&](int64_t columns, Doubles& values) {
      const Ints ints = RandomInts(At(experts() * columns), -20000000, 20000000);
      if (has_bias) values.assign(ints.begin(), ints.end());
      return DeviceTensor::Ints(ACL_INT32, Dims({columns}), ints);
    };
    const auto b1 = bias(layer_.hidden, layer_.b1), b2 = bias(layer_.in, layer_.b2);
    // bf16 for bf16; the bits of a float or a float for f16.
    const aclDataType scales[] = {ACL_FLOAT, ACL_INT64, ACL_UINT64};
    const aclDataType scale_dtype = dtype == ACL_BF16 ? ACL_BF16 : scales[Integer(0, 2)];
    const auto deq = [&](int64_t columns, float low, std::vector<float>& values) {
      values = RandomFloats(At(experts() * columns), low, 2 * low);
      for (float& value : values) value = Rounded(dtype == ACL_BF16 ? ACL_BF16 : ACL_FLOAT, value);
      if (scale_dtype == ACL_FLOAT || scale_dtype == ACL_BF16) {
        return DeviceTensor::Floats(scale_dtype, Dims({columns}), values);
      }
      Ints bits;
      for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
      return DeviceTensor::Ints(scale_dtype, Dims({columns}), bits);
    };
    const auto deq1 = deq(layer_.hidden, has_bias ? 1e-7f : 5e-5f, layer_.deq1);
    const auto deq2 = deq(layer_.in, has_bias ? 1e-7f : 1e-4f, layer_.deq2);
    layer_.scale = RandomFloats(At(experts() * (is_per_column ? layer_.inner : 1)), 10, 60);
    layer_.offset = RandomFloats(At(experts()), -20, 20);
    const auto scale = DeviceTensor::Floats(
        ACL_FLOAT, is_per_column ? Dims({layer_.inner}) : Ints{experts()}, layer_.scale);
    const auto offset = DeviceTensor::Floats(ACL_FLOAT, {experts()}, layer_.offset);
    const DeviceTensor y(dtype, {layer_.rows, layer_.in}, AnyLayout());
    ASSERT_NO_FATAL_FAILURE(Compare({.x = x,
                                     .w1 = w1,
                                     .w2 = w2,
                                     .b1 = has_bias ? b1.get() : nullptr,
                                     .b2 = has_bias ? b2.get() : nullptr,
                                     .scale = scale,
                                     .offset = offset,
                                     .deq1 = deq1,
                                     .deq2 = deq2},
                                    y, dtype));
  }
}

TEST_F(FfnTest, IntegerWeightsAreScaledPerColumnOrGroup) {
  for (int repeat = 0; repeat < 600; ++repeat) {
    const bool is_int4 = Coin(), has_offset = Coin(), has_bias = Coin();
    const int64_t step = Coin() ? 2 : 1, groups = is_int4 && Coin() ? step : 1;
    NewLayer(step);
    const aclDataType dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}, dtype = dtypes[Integer(0, 2)];
    const auto x = RandomTensor(dtype, {layer_.rows, layer_.in}, layer_.x);
    const auto weight = [&](int64_t rows, int64_t columns, Doubles& values) -> IntWeight {
      const int64_t count = experts() * rows * columns;
      const Ints ints = RandomInts(At(count), is_int4 ? -8 : -128, is_int4 ? 7 : 127);
      Doubles scales, offsets;
      const Ints dims = groups > 1 ? Dims({groups, columns}) : Dims({columns});
      DeviceTensor scale = RandomTensor(dtype, dims, scales, is_int4 ? 0.1f : 0.01f);
      DeviceTensor offset = RandomTensor(dtype, dims, offsets);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t group = i / columns % rows * groups / rows;
        const size_t at = At((i / (rows * columns) * groups + group) * columns + i % columns);
        const double shift = has_offset ? offsets[at] : 0;
        values.push_back((static_cast<double>(ints[At(i)]) + shift) * scales[at]);
      }
      DeviceTensor tensor =
          is_int4 ? DeviceTensor::Int4(Dims({rows, columns}), ints)
                  : DeviceTensor::Ints(ACL_INT8, Dims({rows, columns}), ints, AnyLayout());
      return {std::move(tensor), std::move(scale), std::move(offset), values};
    };
    const IntWeight w1 = weight(layer_.in, layer_.hidden, layer_.w1);
    const IntWeight w2 = weight(layer_.inner, layer_.in, layer_.w2);
    Doubles bias1, bias2;
    const auto b1 = RandomTensor(ACL_FLOAT, Dims({layer_.hidden}), bias1);
    const auto b2 = RandomTensor(ACL_FLOAT, Dims({layer_.in}), bias2);
    if (has_bias) layer_.b1 = bias1, layer_.b2 = bias2;
    const DeviceTensor y(dtype, {layer_.rows, layer_.in}, AnyLayout());
    ASSERT_NO_FATAL_FAILURE(Compare({.x = x,
                                     .w1 = w1.weight,
                                     .w2 = w2.weight,
                                     .b1 = has_bias ? b1.get() : nullptr,
                                     .b2 = has_bias ? b2.get() : nullptr,
                                     .anti_scale1 = w1.scale,
                                     .anti_scale2 = w2.scale,
                                     .anti_offset1 = has_offset ? w1.offset.get() : nullptr,
                                     .anti_offset2 = has_offset ? w2.offset.get() : nullptr},
                                    y, dtype));
  }
}

TEST_F(FfnTest, ErrorsHaveCannsCodes) {
  const auto code = [](const Tensors& t, const char* activation = "relu") {
    return Check([&](auto* size, auto** executor) {
      return aclnnFFNV3GetWorkspaceSize(
          t.x, t.w1, t.w2, nullptr, t.b1, t.b2, t.scale, t.offset, t.deq1, t.deq2, t.anti_scale1,
          t.anti_scale2, t.anti_offset1, t.anti_offset2, activation, 0, false, t.y, size, executor);
    });
  };
  const auto with = [](Tensors t, const aclTensor* Tensors::*member, const aclTensor* tensor) {
    t.*member = tensor;
    return t;
  };
  const DeviceTensor x(ACL_INT8, {3, 4}), w1(ACL_INT8, {4, 6}), w2(ACL_INT8, {6, 4});
  const DeviceTensor f6(ACL_FLOAT, {6}), f4(ACL_FLOAT, {4}), one(ACL_FLOAT, {1});
  const DeviceTensor half(ACL_FLOAT16, {3, 4}), y(ACL_FLOAT, {3, 4}), ids(ACL_INT64, {3, 4});
  const Tensors ints{
      .x = x, .w1 = w1, .w2 = w2, .scale = one, .offset = one, .deq1 = f6, .deq2 = f4, .y = half};
  EXPECT_EQ(code(ints), 0) << LastError();
  EXPECT_EQ(code(with(ints, &Tensors::scale, f6)), 0) << LastError();
  EXPECT_EQ(code(ints, nullptr), 161001);
  EXPECT_EQ(code(ints, "elu"), 161002);
  for (const auto member : {&Tensors::x, &Tensors::w1, &Tensors::w2, &Tensors::y}) {
    EXPECT_EQ(code(with(ints, member, nullptr)), 161001);
    EXPECT_EQ(code(with(ints, member, ids)), 161002);
  }
  for (const auto member : {&Tensors::scale, &Tensors::offset, &Tensors::deq1, &Tensors::deq2}) {
    EXPECT_EQ(code(with(ints, member, nullptr)), 161002);
    EXPECT_EQ(code(with(ints, member, y)), 161002) << "twelve numbers";
  }
  for (const auto member : {&Tensors::b1, &Tensors::anti_scale1, &Tensors::anti_scale2,
                            &Tensors::anti_offset1, &Tensors::anti_offset2}) {
    EXPECT_EQ(code(with(ints, member, f6)), 161002);
  }
  EXPECT_EQ(code(with(ints, &Tensors::y, y)), 161002) << "f32 of int8";
  const DeviceTensor groups(ACL_FLOAT16, {3, 6}), h6(ACL_FLOAT16, {6}), h4(ACL_FLOAT16, {4});
  const Tensors halves{
      .x = half, .w1 = w1, .w2 = w2, .anti_scale1 = h6, .anti_scale2 = h4, .y = half};
  EXPECT_EQ(code(halves), 0) << LastError();
  EXPECT_EQ(code(with(halves, &Tensors::anti_scale2, nullptr)), 161002);
  EXPECT_EQ(code(with(halves, &Tensors::anti_scale1, groups)), 161002) << "3 groups of 4 rows";
  EXPECT_EQ(code(with(halves, &Tensors::anti_offset1, h4)), 161002);
  EXPECT_EQ(code(with(halves, &Tensors::scale, one)), 161002);
  EXPECT_EQ(code(with(halves, &Tensors::b1, x)), 161002);
  EXPECT_EQ(code(with(halves, &Tensors::y, y)), 161002) << "another dtype than x";
}

}  // namespace
}  // namespace opst::cann
