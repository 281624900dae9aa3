// Grouped products with weights in every layout that CANN has: int8 and int4 with float inputs
// against sums in fp64, plain, packed and fractal; the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_grouped_matmul_v5.h"
#include "aclnnop/aclnn_grouped_matmul_weight_nz.h"
#include "cann/testing/grouped_case.h"

namespace opst::cann {
namespace {

class WeightMatrixTest : public GroupedCaseTest {};

// A product of floats with integer weights: one tensor for all experts, or one for each.
struct IntWeights {
  Stored stored = Stored::kInt8;
  aclDataType dtype = ACL_FLOAT;
  bool is_listed = false, has_offset = false, has_bias = false;
  int64_t experts = 1, parts = 1, inner = 1, columns = 1;  // `parts` groups of rows
  Ints values;
  std::vector<float> scale, offset, bias;

  // What the weights stand for, in f32.
  std::vector<float> Matrix() const {
    std::vector<float> matrix;
    for (int64_t i = 0; i < experts * inner * columns; ++i) {
      const size_t at = At(i / columns * parts / inner * columns + i % columns);
      matrix.push_back((static_cast<float>(values[At(i)]) + (has_offset ? offset[at] : 0)) *
                       scale[at]);
    }
    return matrix;
  }
  struct Tensors {
    std::vector<DeviceTensor> weights, scales, offsets, biases;
  };
  Tensors Make(Layout layout) const {
    Tensors tensors;
    const int64_t share = is_listed ? 1 : experts;
    for (int64_t e = 0; e < experts; e += share) {
      const auto dims = [&](Ints of_one) {
        if (!is_listed) of_one.insert(of_one.begin(), experts);
        return of_one;
      };
      const auto slice = [&](const auto& all, int64_t size) {
        return std::decay_t<decltype(all)>(all.begin() + e * size,
                                           all.begin() + (e + share) * size);
      };
      tensors.weights.push_back(
          Store(stored, dims({inner, columns}), slice(values, inner * columns), layout));
      const Ints line = dims(parts > 1 ? Ints{parts, columns} : Ints{columns});
      tensors.scales.push_back(DeviceTensor::Floats(dtype, line, slice(scale, parts * columns)));
      tensors.offsets.push_back(DeviceTensor::Floats(dtype, line, slice(offset, parts * columns)));
      tensors.biases.push_back(
          DeviceTensor::Floats(ACL_FLOAT, dims({columns}), slice(bias, columns)));
    }
    return tensors;
  }
  // Rows of each expert, then rows that hold 9.
  Sums Expected(const std::vector<float>& x, const Ints& counts, int64_t rows) const {
    const std::vector<float> matrix = Matrix();
    Sums expected;
    int64_t row = 0;
    for (int64_t e = 0; e < experts; ++e) {
      const Sums sums =
          Product(x, matrix, row, row + counts[At(e)], inner, columns, e * inner * columns);
      row += counts[At(e)];
      for (size_t i = 0; i < sums.values.size(); ++i) {
        const double shift = has_bias ? bias[At(e * columns) + i % At(columns)] : 0.0f;
        expected.values.push_back(sums.values[i] + shift);
        expected.magnitudes.push_back(sums.magnitudes[i] + std::abs(shift));
      }
    }
    expected.values.resize(At(rows * columns), 9);
    expected.magnitudes.resize(At(rows * columns), 0);
    return expected;
  }
};

TEST_F(WeightMatrixTest, IntegerWeightsAreScaledPerColumnOrGroup) {
  for (int repeat = 0; repeat < 600; ++repeat) {
    IntWeights w;
    w.stored = static_cast<Stored>(Integer(0, 5)), w.dtype = kDTypes[Integer(0, 2)];
    w.is_listed = Coin(), w.has_offset = Coin(), w.has_bias = Coin();
    w.experts = Integer(1, 3), w.parts = Integer(1, 2);
    const bool is_fractal = w.stored >= Stored::kFractalInt8;
    const bool is_int8 = w.stored == Stored::kInt8 || w.stored == Stored::kFractalInt8;
    w.inner = is_fractal ? 16 * w.parts : w.parts * Integer(1, 9);
    w.columns = is_fractal                            ? (is_int8 ? 32 : 64) * Integer(1, 2)
                : w.stored == Stored::kEightInAnInt32 ? 8 * Integer(1, 2)
                                                      : Integer(1, 9);
    w.values =
        RandomInts(At(w.experts * w.inner * w.columns), is_int8 ? -128 : -8, is_int8 ? 127 : 7);
    w.offset = w.scale = Values(w.dtype, w.experts * w.parts * w.columns);
    for (float& value : w.scale) value = Rounded(w.dtype, value / 64);
    w.bias = Values(ACL_FLOAT, w.experts * w.columns);
    const int64_t rows = Integer(1, 6);
    const Ints counts = Counts(w.experts, rows);
    const auto x = Values(w.dtype, rows * w.inner);
    const IntWeights::Tensors tensors = w.Make(AnyLayout());
    const auto list = DeviceTensor::Ints(ACL_INT64, {w.experts}, counts);
    const auto x_in = DeviceTensor::Floats(w.dtype, {rows, w.inner}, x, AnyLayout());
    const auto out = DeviceTensor::Floats(w.dtype, {rows, w.columns},
                                          std::vector<float>(At(rows * w.columns), 9), AnyLayout());
    const auto listed = [](const std::vector<DeviceTensor>& members) {
      return List({members.begin(), members.end()}).list;
    };
    const List xs({x_in}), outs({out});
    const bool is_nz = Coin();
    const auto prepare = [&](uint64_t* size, aclOpExecutor** executor) {
      const auto call = [&](const auto& function, auto... group_size) {
        return function(xs.list, listed(tensors.weights),
                        w.has_bias ? listed(tensors.biases) : nullptr, nullptr, nullptr,
                        listed(tensors.scales), w.has_offset ? listed(tensors.offsets) : nullptr,
                        nullptr, list, nullptr, nullptr, nullptr, 3, 0, 1, 0, nullptr,
                        group_size..., outs.list, nullptr, nullptr, size, executor);
      };
      return is_nz ? call(aclnnGroupedMatmulWeightNzGetWorkspaceSize, w.inner / w.parts)
                   : call(aclnnGroupedMatmulV5GetWorkspaceSize);
    };
    ASSERT_EQ(Execute(prepare, is_nz ? aclnnGroupedMatmulWeightNz : aclnnGroupedMatmulV5), 0)
        << LastError();
    const Sums expected = w.Expected(x, counts, rows);
    ASSERT_TRUE(Near(w.dtype, out.ReadFloats(), expected.values, expected.magnitudes));
  }
}

TEST_F(WeightMatrixTest, FractalFloatsAreThePlainOnes) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    const aclDataType dtype = Coin() ? ACL_FLOAT16 : ACL_BF16;
    const int64_t experts = Integer(1, 3), rows = Integer(1, 6), inner = 16 * Integer(1, 3);
    const int64_t columns = 16 * Integer(1, 3);
    const auto x = Values(dtype, rows * inner), w = Values(dtype, experts * inner * columns);
    const auto x_in = DeviceTensor::Floats(dtype, {rows, inner}, x);
    const auto plain = DeviceTensor::Floats(dtype, {experts, inner, columns}, w, AnyLayout());
    const auto blocks = DeviceTensor::Fractal(dtype, {experts, inner, columns}, w);
    const auto list = DeviceTensor::Ints(ACL_INT64, {experts}, Counts(experts, rows));
    std::vector<float> results[2];
    for (const bool is_fractal : {false, true}) {
      const auto out =
          DeviceTensor::Floats(dtype, {rows, columns}, std::vector<float>(At(rows * columns), 9));
      const List xs({x_in}), ws({is_fractal ? blocks.get() : plain.get()}), outs({out});
      ASSERT_EQ(Execute(
                    [&](auto* size, auto** executor) {
                      return aclnnGroupedMatmulWeightNzGetWorkspaceSize(
                          xs.list, ws.list, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                          list, nullptr, nullptr, nullptr, 3, 0, 1, 0, nullptr, 0, outs.list,
                          nullptr, nullptr, size, executor);
                    },
                    aclnnGroupedMatmulWeightNz),
                0)
          << LastError();
      results[is_fractal ? 1 : 0] = out.ReadFloats();
    }
    ASSERT_EQ(results[0], results[1]);
  }
}

TEST_F(WeightMatrixTest, ErrorsOfIntegerWeightsHaveCannsCodes) {
  const DeviceTensor x(ACL_FLOAT16, {4, 6}), out(ACL_FLOAT16, {4, 5}), w(ACL_INT8, {2, 6, 5});
  const DeviceTensor scale(ACL_FLOAT16, {2, 5}), groups(ACL_FLOAT16, {2, 3, 5});
  const DeviceTensor uneven(ACL_FLOAT16, {2, 4, 5}), ids(ACL_INT64, {2, 6, 5});
  const auto blocks = DeviceTensor::Fractal(ACL_INT8, {1, 16, 32}, std::vector<float>(512, 1));
  const auto list = DeviceTensor::Ints(ACL_INT64, {2}, {1, 4});
  const auto code = [&](const aclTensor* weight, const aclTensor* scales, const aclTensor* offset,
                        int64_t group_size) {
    const List xs({x}), ws({weight}), outs({out}), ss({scales}), os({offset});
    return Check([&](auto* size, auto** executor) {
      return aclnnGroupedMatmulWeightNzGetWorkspaceSize(
          xs.list, ws.list, nullptr, nullptr, nullptr, scales == nullptr ? nullptr : ss.list,
          offset == nullptr ? nullptr : os.list, nullptr, list, nullptr, nullptr, nullptr, 3, 0, 0,
          0, nullptr, group_size, outs.list, nullptr, nullptr, size, executor);
    });
  };
  EXPECT_EQ(code(w, scale, nullptr, 0), 0) << LastError();
  EXPECT_EQ(code(w, groups, groups, 2), 0) << LastError();
  EXPECT_EQ(code(w, groups, nullptr, 3), 161002) << "groups have 2 rows";
  EXPECT_EQ(code(w, groups, scale, 0), 161002);
  EXPECT_EQ(code(w, uneven, nullptr, 0), 161002);
  EXPECT_EQ(code(w, nullptr, nullptr, 0), 161002);
  EXPECT_EQ(code(w, nullptr, scale, 0), 161002);
  EXPECT_EQ(code(w, w, nullptr, 0), 161002);
  EXPECT_EQ(code(ids, scale, nullptr, 0), 161002);
  EXPECT_EQ(code(blocks, scale, nullptr, 0), 161002);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnGroupedMatmulWeightNzGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, nullptr,
                                                       nullptr, nullptr, nullptr, nullptr, nullptr,
                                                       nullptr, nullptr, 0, 0, 0, 0, nullptr, 0,
                                                       nullptr, nullptr, nullptr, &size, &executor),
            161001);
}

}  // namespace
}  // namespace opst::cann
