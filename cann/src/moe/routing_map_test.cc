// Permute and unpermute by a routing map, padded or not, with their gradients, against plain loops.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_moe_token_permute_with_routing_map.h"
#include "aclnnop/aclnn_moe_token_permute_with_routing_map_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_routing_map.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_routing_map_grad.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

constexpr aclDataType kDTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

class RoutingMapTest : public DeviceTest {
 protected:
  // With padding any map, else k experts a token; then the rows it stands for.
  void NewCase(bool pads) {
    pads_ = pads;
    dtype_ = kDTypes[Integer(0, 2)];
    tokens_ = Integer(1, 6), experts_ = Integer(1, 5), width_ = Integer(1, 5);
    per_unit_ = pads ? Integer(1, tokens_) : Integer(1, experts_);
    map_.assign(At(tokens_ * experts_), 0);
    for (int64_t token = 0; token < tokens_; ++token) {
      Ints order(At(experts_));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      const int64_t count = pads ? Integer(0, experts_) : per_unit_;
      for (int64_t i = 0; i < count; ++i) map_[At(token * experts_ + order[At(i)])] = 1;
    }
    row_tokens_.clear(), row_experts_.clear();
    for (int64_t expert = 0; expert < experts_; ++expert) {
      Ints routed, others;
      for (int64_t token = 0; token < tokens_; ++token) {
        (map_[At(token * experts_ + expert)] != 0 ? routed : others).push_back(token);
      }
      if (pads) {
        routed.insert(routed.end(), others.begin(), others.end());
        routed.resize(At(per_unit_));
      }
      for (const int64_t token : routed) {
        row_tokens_.push_back(token), row_experts_.push_back(expert);
      }
    }
    rows_ = static_cast<int64_t>(row_tokens_.size());
  }
  // What permute returns: tokens of rows with padding, else the row of each slot.
  Ints Sorted() const {
    if (pads_) return row_tokens_;
    Ints sorted;
    for (int64_t token = 0; token < tokens_; ++token) {
      for (int64_t row = 0; row < rows_; ++row) {  // rows ascend by expert
        if (row_tokens_[At(row)] == token) sorted.push_back(row);
      }
    }
    return sorted;
  }
  size_t Cell(int64_t row) const {
    return At(row_tokens_[At(row)] * experts_ + row_experts_[At(row)]);
  }
  std::vector<float> Values(int64_t count) {
    std::vector<float> values = RandomFloats(At(count));
    for (float& value : values) value = Rounded(dtype_, value);
    return values;
  }
  DeviceTensor Of(Ints dims, const std::vector<float>& values) {
    return DeviceTensor::Floats(dtype_, std::move(dims), values, AnyLayout());
  }
  DeviceTensor Map() {
    return DeviceTensor::Ints(Coin() ? ACL_BOOL : ACL_INT8, {tokens_, experts_}, map_, AnyLayout());
  }

  bool pads_ = false;
  aclDataType dtype_ = ACL_FLOAT;
  int64_t tokens_ = 0, experts_ = 0, width_ = 0, per_unit_ = 0, rows_ = 0;
  Ints map_, row_tokens_, row_experts_;
};

TEST_F(RoutingMapTest, PermuteOrdersByExpertAndFillsWithTheLowestTokens) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase(Coin());
    const bool has_probs = Coin();
    const std::vector<float> x = Values(tokens_ * width_), p = Values(tokens_ * experts_);
    const auto tokens = Of({tokens_, width_}, x), probs = Of({tokens_, experts_}, p), map = Map();
    const DeviceTensor out(dtype_, {rows_, width_}, AnyLayout());
    const DeviceTensor out_probs(dtype_, {rows_}, AnyLayout()), sorted(ACL_INT32, {rows_});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenPermuteWithRoutingMapGetWorkspaceSize(
                        tokens, map, has_probs ? probs.get() : nullptr, rows_, pads_, out,
                        has_probs ? out_probs.get() : nullptr, sorted, size, executor);
                  },
                  aclnnMoeTokenPermuteWithRoutingMap),
              0)
        << LastError();
    std::vector<float> expected, expected_probs;
    for (int64_t row = 0; row < rows_; ++row) {
      expected_probs.push_back(p[Cell(row)]);
      for (int64_t h = 0; h < width_; ++h) {
        expected.push_back(x[At(row_tokens_[At(row)] * width_ + h)]);
      }
    }
    ASSERT_EQ(sorted.ReadInts(), Sorted());
    ASSERT_EQ(out.ReadFloats(), expected);
    if (has_probs) {
      ASSERT_EQ(out_probs.ReadFloats(), expected_probs);
    }
  }
}

TEST_F(RoutingMapTest, PermuteGradientsGoBackToTokensAndCells) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase(Coin());
    const std::vector<float> gradient = Values(rows_ * width_), d_p = Values(rows_);
    const auto d_rows = Of({rows_, width_}, gradient), d_row_probs = Of({rows_}, d_p), map = Map();
    const auto sorted = DeviceTensor::Ints(ACL_INT32, {rows_}, Sorted(), AnyLayout());
    const DeviceTensor d_x(dtype_, {tokens_, width_}, AnyLayout());
    const DeviceTensor d_probs(dtype_, {tokens_, experts_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenPermuteWithRoutingMapGradGetWorkspaceSize(
                        d_rows, d_row_probs, sorted, map, experts_, tokens_, pads_, d_x, d_probs,
                        size, executor);
                  },
                  aclnnMoeTokenPermuteWithRoutingMapGrad),
              0)
        << LastError();
    Doubles expected(At(tokens_ * width_), 0), magnitudes(At(tokens_ * width_), 0);
    std::vector<float> expected_probs(At(tokens_ * experts_), 0.0f);
    for (int64_t row = 0; row < rows_; ++row) {
      expected_probs[Cell(row)] = d_p[At(row)];
      for (int64_t h = 0; h < width_; ++h) {
        const size_t at = At(row_tokens_[At(row)] * width_ + h);
        expected[at] += gradient[At(row * width_ + h)];
        magnitudes[at] += std::abs(gradient[At(row * width_ + h)]);
      }
    }
    ASSERT_TRUE(Near(dtype_, d_x.ReadFloats(), expected, magnitudes));
    ASSERT_EQ(d_probs.ReadFloats(), expected_probs);
  }
}

TEST_F(RoutingMapTest, UnpermuteAddsWeightedRowsAndNamesTheirOrder) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase(Coin());
    const bool has_probs = Coin();
    const std::vector<float> y = Values(rows_ * width_), p = Values(tokens_ * experts_);
    const auto rows = Of({rows_, width_}, y), probs = Of({tokens_, experts_}, p), map = Map();
    const auto sorted = DeviceTensor::Ints(ACL_INT32, {rows_}, Sorted(), AnyLayout());
    const DeviceTensor out(dtype_, {tokens_, width_}, AnyLayout()), index(ACL_INT32, {rows_});
    const DeviceTensor token_ids(ACL_INT32, {rows_}), row_probs(dtype_, {rows_}, AnyLayout());
    const Ints shape = {tokens_, width_};
    aclIntArray* const restore = aclCreateIntArray(shape.data(), 2);
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenUnpermuteWithRoutingMapGetWorkspaceSize(
                        rows, sorted, map, has_probs ? probs.get() : nullptr, pads_, restore, out,
                        index, token_ids, row_probs, size, executor);
                  },
                  aclnnMoeTokenUnpermuteWithRoutingMap),
              0)
        << LastError();
    aclDestroyIntArray(restore);
    Doubles expected(At(tokens_ * width_), 0), magnitudes(At(tokens_ * width_), 0);
    for (int64_t row = 0; row < rows_; ++row) {
      const double weight = has_probs ? p[Cell(row)] : 1.0f;
      for (int64_t h = 0; h < width_; ++h) {
        const size_t at = At(row_tokens_[At(row)] * width_ + h);
        expected[at] += weight * y[At(row * width_ + h)];
        magnitudes[at] += std::abs(weight * y[At(row * width_ + h)]);
      }
    }
    ASSERT_TRUE(Near(dtype_, out.ReadFloats(), expected, magnitudes));
    if (has_probs) {  // row by row with padding, else slot by slot
      std::vector<float> expected_probs;
      const Ints order = Sorted();
      for (int64_t i = 0; i < rows_; ++i) {
        expected_probs.push_back(p[Cell(pads_ ? i : order[At(i)])]);
      }
      ASSERT_EQ(row_probs.ReadFloats(), expected_probs);
    }
    if (pads_) {
      const Ints order = SlotsById(row_tokens_);
      Ints in_order;
      for (const int64_t row : order) in_order.push_back(row_tokens_[At(row)]);
      ASSERT_EQ(index.ReadInts(), order);
      ASSERT_EQ(token_ids.ReadInts(), in_order);
    }
  }
}

TEST_F(RoutingMapTest, UnpermuteGradientsSpreadAndDot) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase(Coin());
    const bool has_probs = Coin();
    const std::vector<float> gradient = Values(tokens_ * width_), y = Values(rows_ * width_);
    const std::vector<float> p = Values(tokens_ * experts_);
    const Ints order = pads_ ? SlotsById(row_tokens_) : Sorted();
    Ints token_ids;
    for (const int64_t row : order) token_ids.push_back(row_tokens_[At(row)]);
    const auto d_out = Of({tokens_, width_}, gradient), rows = Of({rows_, width_}, y),
               probs = Of({tokens_, experts_}, p), map = Map();
    const auto index = DeviceTensor::Ints(ACL_INT32, {rows_}, order, AnyLayout());
    const auto ids = DeviceTensor::Ints(ACL_INT32, {rows_}, token_ids, AnyLayout());
    const DeviceTensor d_rows(dtype_, {rows_, width_}, AnyLayout());
    const DeviceTensor d_probs(dtype_, {tokens_, experts_}, AnyLayout());
    const auto given = [&](const DeviceTensor& tensor) {
      return has_probs ? tensor.get() : nullptr;
    };
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenUnpermuteWithRoutingMapGradGetWorkspaceSize(
                        d_out, index, ids, given(map), given(rows), given(probs), pads_, nullptr,
                        d_rows, given(d_probs), size, executor);
                  },
                  aclnnMoeTokenUnpermuteWithRoutingMapGrad),
              0)
        << LastError();
    Doubles expected(At(rows_ * width_)), dots(At(tokens_ * experts_), 0);
    Doubles magnitudes(At(tokens_ * experts_), 0);
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t h = 0; h < width_; ++h) {
        const double d = gradient[At(row_tokens_[At(row)] * width_ + h)];
        expected[At(row * width_ + h)] = d * (has_probs ? p[Cell(row)] : 1.0f);
        dots[Cell(row)] += d * y[At(row * width_ + h)];
        magnitudes[Cell(row)] += std::abs(d * y[At(row * width_ + h)]);
      }
    }
    ASSERT_TRUE(Near(dtype_, d_rows.ReadFloats(), expected));
    if (has_probs) {
      ASSERT_TRUE(Near(dtype_, d_probs.ReadFloats(), dots, magnitudes));
    }
  }
}

TEST_F(RoutingMapTest, TokensWithFewerExpertsHaveEmptySlots) {
  const auto tokens = DeviceTensor::Floats(ACL_FLOAT, {2, 1}, {5, 7});
  const auto map = DeviceTensor::Ints(ACL_INT8, {2, 3}, {0, 1, 0, 1, 0, 1});
  const DeviceTensor out(ACL_FLOAT, {4, 1}), sorted(ACL_INT32, {4}), sum(ACL_FLOAT, {2, 1});
  ASSERT_EQ(Execute(
                [&](auto* size, auto** executor) {
                  return aclnnMoeTokenPermuteWithRoutingMapGetWorkspaceSize(
                      tokens, map, nullptr, 4, false, out, nullptr, sorted, size, executor);
                },
                aclnnMoeTokenPermuteWithRoutingMap),
            0)
      << LastError();
  EXPECT_EQ(sorted.ReadInts(), (Ints{1, -1, 0, 2}));
  const auto rows = out.ReadFloats();
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + 3), (std::vector<float>{7, 5, 7}));
}

TEST_F(RoutingMapTest, ErrorsHaveCannsCodes) {
  const DeviceTensor tokens(ACL_FLOAT, {2, 1}), out(ACL_FLOAT, {2, 1}), sorted(ACL_INT32, {2});
  const auto map = DeviceTensor::Ints(ACL_INT8, {2, 3}, {0, 1, 1, 1, 0, 0});
  const auto prepare = [&](const aclTensor* m, int64_t rows) {
    return [=, &tokens, &out, &sorted](uint64_t* size, aclOpExecutor** executor) {
      return aclnnMoeTokenPermuteWithRoutingMapGetWorkspaceSize(
          tokens, m, nullptr, rows, false, out, nullptr, sorted, size, executor);
    };
  };
  EXPECT_EQ(Check(prepare(map, 2)), 0) << LastError();
  EXPECT_EQ(Check(prepare(nullptr, 2)), 161001);
  EXPECT_EQ(Check(prepare(tokens, 2)), 161002);
  EXPECT_EQ(Check(prepare(map, 7)), 161002) << "more than T·E";
  EXPECT_EQ(Check(prepare(map, 4)), 161002) << "the output has 2 rows";
  EXPECT_EQ(Execute(prepare(map, 2), aclnnMoeTokenPermuteWithRoutingMap), 507015);
  EXPECT_THAT(LastError(), testing::HasSubstr("token 0 with more than 1 experts"));
}

}  // namespace
}  // namespace opst::cann
