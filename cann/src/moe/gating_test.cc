// The gating operators against obvious loops in fp64, and every error code they have.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "aclnnop/aclnn_moe_gating_top_k.h"
#include "aclnnop/aclnn_moe_gating_top_k_softmax.h"
#include "aclnnop/aclnn_moe_gating_top_k_softmax_v2.h"
#include "cann/testing/device.h"

namespace opst::cann {
namespace {

constexpr aclDataType kDTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

struct Chosen {
  std::vector<int64_t> ids;
  std::vector<double> weights;
  std::vector<double> scores;
};

std::vector<double> Softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> scores;
  double sum = 0;
  for (const double logit : logits) sum += scores.emplace_back(std::exp(logit - largest));
  for (double& score : scores) score /= sum;
  return scores;
}

// Best first, the lower index of equals first.
std::vector<int64_t> Best(const std::vector<double>& values, size_t count) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(count);
  return order;
}

class GatingTest : public DeviceTest {
 protected:
  // Logits whose differences no rounding hides: distinct multiples of 1/8, exact in every dtype.
  std::vector<float> DistinctRows(int64_t rows, int64_t experts) {
    std::vector<float> all;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> values(static_cast<size_t>(experts));
      std::iota(values.begin(), values.end(), -static_cast<float>(experts) / 2);
      std::shuffle(values.begin(), values.end(), random_);
      for (const float value : values) all.push_back(value / 8);
    }
    return all;
  }
  static std::vector<double> Row(const std::vector<float>& all, int64_t row, int64_t width) {
    const auto first = all.begin() + row * width;
    return {first, first + width};
  }
};

// The definition, expert by expert.
Chosen GroupedGate(const std::vector<double>& logits, const std::vector<double>& bias, int64_t k,
                   int64_t kept, int64_t groups, int64_t mode, bool is_sigmoid, double scale,
                   double eps) {
  Chosen chosen;
  chosen.scores = Softmax(logits);
  if (is_sigmoid) {
    std::transform(logits.begin(), logits.end(), chosen.scores.begin(),
                   [](double x) { return 1 / (1 + std::exp(-x)); });
  }
  std::vector<double> selection = chosen.scores;
  for (size_t e = 0; e < selection.size(); ++e) selection[e] += bias[e];
  const size_t width = selection.size() / static_cast<size_t>(groups);
  if (groups != 1 && width != 1 && kept != groups) {
    std::vector<double> group_scores;
    for (size_t g = 0; g < static_cast<size_t>(groups); ++g) {
      std::vector<double> members(selection.begin() + static_cast<int64_t>(g * width),
                                  selection.begin() + static_cast<int64_t>((g + 1) * width));
      std::sort(members.rbegin(), members.rend());
      group_scores.push_back(mode == 0 ? members[0] : members[0] + members[1]);
    }
    const auto best = Best(group_scores, static_cast<size_t>(kept));
    for (size_t e = 0; e < selection.size(); ++e) {
      const auto group = static_cast<int64_t>(e / width);
      if (std::find(best.begin(), best.end(), group) == best.end()) selection[e] = -1e30;
    }
  }
  chosen.ids = Best(selection, static_cast<size_t>(k));
  double sum = 0;
  for (const int64_t id : chosen.ids) sum += chosen.scores[static_cast<size_t>(id)];
  for (const int64_t id : chosen.ids) {
    const double score = chosen.scores[static_cast<size_t>(id)];
    chosen.weights.push_back((is_sigmoid ? score / (sum + eps) : score) * scale);
  }
  return chosen;
}

TEST_F(GatingTest, TopKOfRandomCasesIsThatOfTheDefinition) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const aclDataType dtype = kDTypes[Integer(0, 2)];
    const int64_t groups = Integer(1, 4), experts = groups * Integer(2, 8), rows = Integer(1, 4);
    const int64_t kept = Integer(1, groups), k = Integer(1, experts / groups * kept);
    const int64_t mode = Integer(0, 1);
    const bool is_sigmoid = Coin(), has_bias = Coin(), out_flag = Coin();
    const auto logits = DistinctRows(rows, experts);
    // Multiples of 1/4 are exact in every dtype and larger than the roundings of scores.
    std::vector<float> bias(static_cast<size_t>(experts), 0.0f);
    if (has_bias) {
      for (float& value : bias) value = static_cast<float>(Integer(-4, 4)) / 4;
    }
    const auto x = DeviceTensor::Floats(dtype, {rows, experts}, logits, AnyLayout());
    const auto b = DeviceTensor::Floats(dtype, {experts}, bias, AnyLayout());
    const DeviceTensor y(dtype, {rows, k}, AnyLayout());
    const DeviceTensor ids(ACL_INT32, {rows, k}, AnyLayout());
    const DeviceTensor out(ACL_FLOAT, {rows, experts}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeGatingTopKGetWorkspaceSize(
                        x, has_bias ? b.get() : nullptr, k, kept, groups, mode, 0, is_sigmoid,
                        out_flag, 2.5, 1e-20, y, ids, out, size, executor);
                  },
                  aclnnMoeGatingTopK),
              0)
        << LastError();
    std::vector<double> weights, scores;
    std::vector<int64_t> expected_ids;
    for (int64_t row = 0; row < rows; ++row) {
      const Chosen chosen = GroupedGate(Row(logits, row, experts), {bias.begin(), bias.end()}, k,
                                        kept, groups, mode, is_sigmoid, 2.5, 1e-20);
      weights.insert(weights.end(), chosen.weights.begin(), chosen.weights.end());
      scores.insert(scores.end(), chosen.scores.begin(), chosen.scores.end());
      expected_ids.insert(expected_ids.end(), chosen.ids.begin(), chosen.ids.end());
    }
    ASSERT_EQ(ids.ReadInts(), expected_ids) << "case " << repeat;
    ASSERT_TRUE(Near(dtype, y.ReadFloats(), weights)) << "case " << repeat;
    if (out_flag) {
      ASSERT_TRUE(Near(ACL_FLOAT, out.ReadFloats(), scores)) << "case " << repeat;
    }
    ASSERT_TRUE(y.gaps_are_untouched() && ids.gaps_are_untouched());
  }
}

TEST_F(GatingTest, SoftmaxNumbersRowsChoiceByChoiceAndMarksFinishedTokens) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const aclDataType dtype = kDTypes[Integer(0, 2)];
    const int64_t batch = Integer(1, 2), length = Integer(1, 4), experts = Integer(1, 20);
    const int64_t rows = batch * length, k = Integer(1, experts);
    const bool has_finished = Coin();
    const auto logits = DistinctRows(rows, experts);
    const auto flags = RandomInts(static_cast<size_t>(rows), 0, 1);
    const auto x = DeviceTensor::Floats(dtype, {batch, length, experts}, logits, AnyLayout());
    const auto finished = DeviceTensor::Ints(ACL_BOOL, {batch, length}, flags, AnyLayout());
    const DeviceTensor y(dtype, {batch, length, k}, AnyLayout());
    const DeviceTensor ids(ACL_INT32, {batch, length, k}, AnyLayout());
    const DeviceTensor row_ids(ACL_INT32, {batch, length, k}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(
                        x, has_finished ? finished.get() : nullptr, k, y, ids, row_ids, size,
                        executor);
                  },
                  aclnnMoeGatingTopKSoftmax),
              0)
        << LastError();
    std::vector<double> weights;
    std::vector<int64_t> expected_ids, expected_rows;
    for (int64_t row = 0; row < rows; ++row) {
      const auto scores = Softmax(Row(logits, row, experts));
      const auto best = Best(scores, static_cast<size_t>(k));
      const bool is_finished = has_finished && flags[static_cast<size_t>(row)] != 0;
      for (int64_t j = 0; j < k; ++j) {
        const int64_t id = best[static_cast<size_t>(j)];
        weights.push_back(scores[static_cast<size_t>(id)]);
        expected_ids.push_back(is_finished ? experts : id);
        expected_rows.push_back(j * rows + row);
      }
    }
    ASSERT_EQ(ids.ReadInts(), expected_ids);
    ASSERT_EQ(row_ids.ReadInts(), expected_rows);
    ASSERT_TRUE(Near(dtype, y.ReadFloats(), weights));
  }
}

TEST_F(GatingTest, SoftmaxV2RenormalisesOverTheChosenOrReturnsTheWholeSoftmax) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const aclDataType dtype = kDTypes[Integer(0, 2)];
    const int64_t rows = Integer(1, 4), experts = Integer(1, 20), k = Integer(1, experts);
    const int64_t renorm = Integer(0, 1);
    const bool flag = Coin();
    const auto logits = DistinctRows(rows, experts);
    const auto x = DeviceTensor::Floats(dtype, {rows, experts}, logits, AnyLayout());
    const DeviceTensor y(dtype, {rows, k}), ids(ACL_INT32, {rows, k});
    const DeviceTensor softmax(ACL_FLOAT, {rows, experts}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize(
                        x, nullptr, k, renorm, flag, y, ids, softmax, size, executor);
                  },
                  aclnnMoeGatingTopKSoftmaxV2),
              0)
        << LastError();
    std::vector<double> weights, all_scores;
    std::vector<int64_t> expected_ids;
    for (int64_t row = 0; row < rows; ++row) {
      const auto values = Row(logits, row, experts);
      auto scores = Softmax(values);
      all_scores.insert(all_scores.end(), scores.begin(), scores.end());
      const auto best = Best(values, static_cast<size_t>(k));
      expected_ids.insert(expected_ids.end(), best.begin(), best.end());
      std::vector<double> kept;
      for (const int64_t id : best) {
        kept.push_back((renorm == 1 ? values : scores)[static_cast<size_t>(id)]);
      }
      if (renorm == 1) kept = Softmax(kept);
      weights.insert(weights.end(), kept.begin(), kept.end());
    }
    ASSERT_EQ(ids.ReadInts(), expected_ids);
    ASSERT_TRUE(Near(dtype, y.ReadFloats(), weights));
    if (renorm == 0 && flag) {
      ASSERT_TRUE(Near(ACL_FLOAT, softmax.ReadFloats(), all_scores));
    } else {
      ASSERT_TRUE(softmax.is_untouched());
    }
  }
}

TEST_F(GatingTest, EqualScoresGoToTheLowerIdEvenWhenLogitsDiffer) {
  // Far below the largest, both scores underflow to the same f32.
  const auto x = DeviceTensor::Floats(ACL_FLOAT, {1, 3}, {0, -500, -400});
  const DeviceTensor y(ACL_FLOAT, {1, 2}), ids(ACL_INT32, {1, 2}), rows(ACL_INT32, {1, 2});
  ASSERT_EQ(Execute(
                [&](auto* size, auto** executor) {
                  return aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(x, nullptr, 2, y, ids, rows,
                                                                   size, executor);
                },
                aclnnMoeGatingTopKSoftmax),
            0);
  EXPECT_EQ(ids.ReadInts(), (std::vector<int64_t>{0, 1}));
}

TEST_F(GatingTest, ErrorsHaveCannsCodesInCannsOrder) {
  const DeviceTensor x(ACL_FLOAT, {2, 8}), wrong(ACL_INT32, {2, 8}), flat(ACL_FLOAT, {16});
  const DeviceTensor bias(ACL_FLOAT, {8}), y(ACL_FLOAT, {2, 2}), ids(ACL_INT32, {2, 2});
  const DeviceTensor out(ACL_FLOAT, {2, 8});
  const auto code = [&](const aclTensor* input, const aclTensor* b, int64_t k, int64_t kept,
                        int64_t groups, int64_t mode, int64_t renorm, int64_t norm,
                        const aclTensor* weights) {
    return Check([&](auto* size, auto** executor) {
      return aclnnMoeGatingTopKGetWorkspaceSize(input, b, k, kept, groups, mode, renorm, norm,
                                                false, 1, 1e-20, weights, ids, out, size, executor);
    });
  };
  EXPECT_EQ(code(x, bias, 2, 1, 1, 0, 0, 0, y), 0) << LastError();
  EXPECT_EQ(code(nullptr, bias, 2, 1, 1, 0, 0, 0, y), 161001);
  EXPECT_THAT(LastError(), testing::HasSubstr("x must not be null"));
  EXPECT_EQ(code(wrong, bias, 2, 1, 1, 0, 0, 0, nullptr), 161001) << "null before dtype";
  EXPECT_EQ(code(wrong, bias, 99, 1, 1, 0, 0, 0, y), 161002) << "dtype before attributes";
  EXPECT_EQ(code(flat, bias, 2, 1, 1, 0, 0, 0, y), 561002);
  EXPECT_EQ(code(x, y, 2, 1, 1, 0, 0, 0, y), 561002) << "bias of another length";
  EXPECT_EQ(code(x, bias, 9, 1, 1, 0, 0, 0, y), 561002);
  EXPECT_EQ(code(x, bias, 0, 1, 1, 0, 0, 0, y), 561002);
  EXPECT_EQ(code(x, bias, 2, 1, 3, 0, 0, 0, y), 561002);
  EXPECT_EQ(code(x, bias, 2, 3, 2, 0, 0, 0, y), 561002);
  EXPECT_EQ(code(x, bias, 2, 1, 2, 2, 0, 0, y), 561002);
  EXPECT_EQ(code(x, bias, 2, 1, 1, 0, 1, 0, y), 561002);
  EXPECT_EQ(code(x, bias, 2, 1, 1, 0, 0, 2, y), 561002);
  EXPECT_EQ(code(x, bias, 3, 1, 1, 0, 0, 0, y), 561002) << "output of another k";
  EXPECT_THAT(LastError(), testing::HasSubstr("[aclnnMoeGatingTopK]"));
}

}  // namespace
}  // namespace opst::cann
