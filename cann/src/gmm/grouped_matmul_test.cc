// Grouped products against sums in fp64: all splits, kinds of group lists and dtypes; the added
// weight gradients; the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_grouped_matmul.h"
#include "aclnnop/aclnn_grouped_matmul_add.h"
#include "aclnnop/aclnn_grouped_matmul_v5.h"
#include "cann/testing/grouped_case.h"

namespace opst::cann {
namespace {

class GroupedMatmulTest : public GroupedCaseTest {};

// Counts as a group list of the type.
Ints ListOf(const Ints& counts, int64_t type) {
  Ints list = counts;
  if (type == 0) std::partial_sum(list.begin(), list.end(), list.begin());
  if (type != 2) return list;
  list.clear();  // pairs of the groups that have rows, then the end
  for (size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] > 0) list.push_back(static_cast<int64_t>(g)), list.push_back(counts[g]);
  }
  list.resize(2 * counts.size(), 0);
  return list;
}

TEST_F(GroupedMatmulTest, RowGroupsMeetTheirWeightsAndOtherRowsStay) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const aclDataType dtype = kDTypes[Integer(0, 2)];
    const int64_t groups = Integer(1, 4), rows = Integer(1, 8), inner = Integer(1, 9);
    const int64_t columns = Integer(1, 9), list_type = Integer(0, 2);
    const bool is_listed = Coin(), has_bias = Coin();
    const Ints counts = Counts(groups, rows);
    const Ints list = ListOf(counts, list_type);
    const auto x = Values(dtype, rows * inner), w = Values(dtype, groups * inner * columns);
    const aclDataType bias_dtype = dtype == ACL_BF16 ? ACL_FLOAT : dtype;
    const auto bias = Values(bias_dtype, groups * columns);
    std::vector<DeviceTensor> weights, biases;
    if (is_listed) {
      for (int64_t g = 0; g < groups; ++g) {
        const auto first = w.begin() + g * inner * columns;
        weights.push_back(DeviceTensor::Floats(dtype, {inner, columns},
                                               {first, first + inner * columns}, AnyLayout()));
        const auto line = bias.begin() + g * columns;
        biases.push_back(DeviceTensor::Floats(bias_dtype, {columns}, {line, line + columns}));
      }
    } else {
      weights.push_back(DeviceTensor::Floats(dtype, {groups, inner, columns}, w, AnyLayout()));
      biases.push_back(DeviceTensor::Floats(bias_dtype, {groups, columns}, bias));
    }
    const auto x_in = DeviceTensor::Floats(dtype, {rows, inner}, x, AnyLayout());
    const auto list_in = DeviceTensor::Ints(
        ACL_INT64, list_type == 2 ? Ints{groups, 2} : Ints{groups}, list, AnyLayout());
    const auto out = DeviceTensor::Floats(dtype, {rows, columns},
                                          std::vector<float>(At(rows * columns), 9), AnyLayout());
    const List x_list({x_in}), out_list({out});
    const List w_list({weights.begin(), weights.end()}), b_list({biases.begin(), biases.end()});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulV5GetWorkspaceSize(
                        x_list.list, w_list.list, has_bias ? b_list.list : nullptr, nullptr,
                        nullptr, nullptr, nullptr, nullptr, list_in, nullptr, nullptr, nullptr, 3,
                        0, list_type, 0, nullptr, out_list.list, nullptr, nullptr, size, executor);
                  },
                  aclnnGroupedMatmulV5),
              0)
        << LastError();
    Sums expected;
    int64_t row = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const Sums part =
          Product(x, w, row, row + counts[At(g)], inner, columns, g * inner * columns);
      row += counts[At(g)];
      for (size_t i = 0; i < part.values.size(); ++i) {
        const double shift = has_bias ? bias[At(g * columns) + i % At(columns)] : 0.0f;
        expected.values.push_back(part.values[i] + shift);
        expected.magnitudes.push_back(part.magnitudes[i] + std::abs(shift));
      }
    }
    expected.values.resize(At(rows * columns), 9);
    expected.magnitudes.resize(At(rows * columns), 0);
    ASSERT_TRUE(Near(dtype, out.ReadFloats(), expected.values, expected.magnitudes));
  }
}

// out[g,m,n] = start + Σ x[k,m] · w[k,n] over the k of group g.
Sums SumsOverGroups(const std::vector<float>& x, const std::vector<float>& w, const Ints& counts,
                    int64_t rows, int64_t columns, double start) {
  Sums sums;
  int64_t begin = 0;
  for (const int64_t count : counts) {
    for (int64_t cell = 0; cell < rows * columns; ++cell) {
      double sum = start, magnitude = start;
      for (int64_t k = begin; k < begin + count; ++k) {
        const double term = static_cast<double>(x[At(k * rows + cell / columns)]) *
                            w[At(k * columns + cell % columns)];
        sum += term;
        magnitude += std::abs(term);
      }
      sums.values.push_back(sum);
      sums.magnitudes.push_back(magnitude);
    }
    begin += count;
  }
  return sums;
}

TEST_F(GroupedMatmulTest, GroupsOfTheInnerDimGiveAProductEach) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const int64_t groups = Integer(1, 4), rows = Integer(1, 6), inner = Integer(1, 9);
    const int64_t columns = Integer(1, 6);
    const Ints counts = Counts(groups, inner);
    const auto xt = Values(ACL_FLOAT, inner * rows), w = Values(ACL_FLOAT, inner * columns);
    std::vector<float> x;
    for (int64_t at = 0; at < rows * inner; ++at) {
      x.push_back(xt[At(at % inner * rows + at / inner)]);
    }
    const auto x_in = DeviceTensor::Floats(ACL_FLOAT, {rows, inner}, x, AnyLayout());
    const auto w_in = DeviceTensor::Floats(ACL_FLOAT, {inner, columns}, w, AnyLayout());
    const auto list = DeviceTensor::Ints(ACL_INT64, {groups}, ListOf(counts, 0));
    const DeviceTensor out(ACL_FLOAT, {groups, rows, columns}, AnyLayout());
    const List x_list({x_in}), w_list({w_in}), out_list({out});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulV5GetWorkspaceSize(
                        x_list.list, w_list.list, nullptr, nullptr, nullptr, nullptr, nullptr,
                        nullptr, list, nullptr, nullptr, nullptr, 3, 2, 0, 0, nullptr,
                        out_list.list, nullptr, nullptr, size, executor);
                  },
                  aclnnGroupedMatmulV5),
              0)
        << LastError();
    const Sums sums = SumsOverGroups(xt, w, counts, rows, columns, 0);
    ASSERT_TRUE(Near(ACL_FLOAT, out.ReadFloats(), sums.values, sums.magnitudes));
  }
}

TEST_F(GroupedMatmulTest, AddKeepsWhatIsThere) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const aclDataType dtype = Coin() ? ACL_FLOAT16 : ACL_BF16;
    const int64_t groups = Integer(1, 4), rows = Integer(1, 6), inner = Integer(1, 9);
    const int64_t columns = Integer(1, 6);
    const Ints counts = Counts(groups, inner);
    const auto x = Values(dtype, inner * rows), w = Values(dtype, inner * columns);
    const auto x_in = DeviceTensor::Floats(dtype, {inner, rows}, x, AnyLayout());
    const auto w_in = DeviceTensor::Floats(dtype, {inner, columns}, w, AnyLayout());
    const auto list = DeviceTensor::Ints(ACL_INT64, {groups}, ListOf(counts, 0));
    const auto y = DeviceTensor::Floats(ACL_FLOAT, {groups * rows, columns},
                                        std::vector<float>(At(groups * rows * columns), 2));
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulAddGetWorkspaceSize(x_in, w_in, list, y, true, false,
                                                                 2, size, executor);
                  },
                  aclnnGroupedMatmulAdd),
              0)
        << LastError();
    const Sums sums = SumsOverGroups(x, w, counts, rows, columns, 2);
    ASSERT_TRUE(Near(ACL_FLOAT, y.ReadFloats(), sums.values, sums.magnitudes));
  }
}

TEST_F(GroupedMatmulTest, Int8ProductsAreExactAndScaledPerColumnAndToken) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const int64_t groups = Integer(1, 3), rows = Integer(1, 6), inner = Integer(1, 40);
    const int64_t columns = Integer(1, 6);
    const Ints counts = Counts(groups, rows);
    const bool has_tokens = Coin();
    const Ints x = RandomInts(At(rows * inner), -128, 127);
    const Ints w = RandomInts(At(groups * inner * columns), -128, 127);
    const auto scale = RandomFloats(At(groups * columns), 1e-3f, 2e-3f);
    const auto token = RandomFloats(At(rows), 0.5f, 2);
    const auto x_in = DeviceTensor::Ints(ACL_INT8, {rows, inner}, x, AnyLayout());
    const auto w_in = DeviceTensor::Ints(ACL_INT8, {groups, inner, columns}, w, AnyLayout());
    const auto s_in = DeviceTensor::Floats(ACL_FLOAT, {groups, columns}, scale);
    const auto t_in = DeviceTensor::Floats(ACL_FLOAT, {rows}, token);
    const auto list = DeviceTensor::Ints(ACL_INT64, {groups}, counts);
    const auto out =
        DeviceTensor::Floats(ACL_BF16, {rows, columns}, std::vector<float>(At(rows * columns), 9));
    const List xs({x_in}), ws({w_in}), ss({s_in}), ts({t_in}), outs({out});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnGroupedMatmulV5GetWorkspaceSize(
                        xs.list, ws.list, nullptr, ss.list, nullptr, nullptr, nullptr,
                        has_tokens ? ts.list : nullptr, list, nullptr, nullptr, nullptr, 3, 0, 1,
                        has_tokens ? 1 : 0, nullptr, outs.list, nullptr, nullptr, size, executor);
                  },
                  aclnnGroupedMatmulV5),
              0)
        << LastError();
    Doubles expected;
    int64_t row = 0;
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t end = row + counts[At(g)]; row < end; ++row) {
        for (int64_t n = 0; n < columns; ++n) {
          int64_t sum = 0;
          for (int64_t k = 0; k < inner; ++k) {
            sum += x[At(row * inner + k)] * w[At((g * inner + k) * columns + n)];
          }
          double value = static_cast<double>(sum) * scale[At(g * columns + n)];
          if (has_tokens) value = std::max(value * token[At(row)], 0.0);
          expected.push_back(value);
        }
      }
    }
    expected.resize(At(rows * columns), 9);
    ASSERT_TRUE(Near(ACL_BF16, out.ReadFloats(), expected));
  }
}

TEST_F(GroupedMatmulTest, ErrorsHaveCannsCodes) {
  const DeviceTensor x(ACL_FLOAT, {4, 3}), w(ACL_FLOAT, {2, 3, 5}), out(ACL_FLOAT, {4, 5});
  const DeviceTensor halves(ACL_FLOAT16, {4, 3}), flat(ACL_FLOAT, {12});
  const auto list = DeviceTensor::Ints(ACL_INT64, {2}, {3, 9});
  struct Case {
    int64_t split = 3, type = 0, list_type = 0, activation = 0;
  };
  const auto prepare = [&](const aclTensor* input, const aclTensor* groups, const Case& c) {
    return [=, &w, &out](uint64_t* size, aclOpExecutor** executor) {
      const List xs({input}), ws({w}), outs({out});
      return aclnnGroupedMatmulV5GetWorkspaceSize(
          xs.list, ws.list, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, groups, nullptr,
          nullptr, nullptr, c.split, c.type, c.list_type, c.activation, nullptr, outs.list, nullptr,
          nullptr, size, executor);
    };
  };
  EXPECT_EQ(Check(prepare(x, list, {})), 0) << LastError();
  EXPECT_EQ(Check(prepare(nullptr, list, {})), 161002) << "a null element of a list";
  EXPECT_EQ(Check(prepare(x, nullptr, {})), 161002);
  EXPECT_EQ(Check(prepare(halves, list, {})), 161002);
  EXPECT_EQ(Check(prepare(flat, list, {})), 161002);
  EXPECT_EQ(Check(prepare(x, list, {.split = 4})), 161002);
  EXPECT_EQ(Check(prepare(x, list, {.type = 1})), 161002);
  EXPECT_EQ(Check(prepare(x, list, {.list_type = 3})), 161002);
  EXPECT_EQ(Check(prepare(x, list, {.activation = 3})), 161002);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_EQ(aclnnGroupedMatmulGetWorkspaceSize(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                               nullptr, nullptr, 0, nullptr, &size, &executor),
            161001);
  EXPECT_EQ(Execute(prepare(x, list, {}), aclnnGroupedMatmulV5), 507015);
  EXPECT_THAT(LastError(), testing::HasSubstr("at most the rows; got 6 at position 1"));
}

}  // namespace
}  // namespace opst::cann
