// Init routing of all versions against plain sorting, quantised rows against the chains of
// roundings, and the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_moe_compute_expert_tokens.h"
#include "aclnnop/aclnn_moe_init_routing.h"
#include "aclnnop/aclnn_moe_init_routing_quant.h"
#include "aclnnop/aclnn_moe_init_routing_quant_v2.h"
#include "aclnnop/aclnn_moe_init_routing_v2.h"
#include "aclnnop/aclnn_moe_init_routing_v2_grad.h"
#include "aclnnop/aclnn_moe_re_routing.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

constexpr aclDataType kDTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

float InF16(double value) { return Rounded(ACL_FLOAT16, static_cast<float>(value)); }

int64_t Static(float x, float scale, float offset) {
  const float sum = InF16(InF16(InF16(x) * InF16(scale)) + InF16(offset));
  return static_cast<int64_t>(std::clamp(std::nearbyint(sum), -128.0f, 127.0f));
}

// The largest multiple of f16's spacing that is not larger in magnitude.
float TowardsZeroF16(float value) {
  if (value == 0) return 0;
  const int exponent = std::max(std::ilogb(value), -14);
  const float unit = std::ldexp(1.0f, exponent - 10);
  return std::trunc(value / unit) * unit;
}

class InitRoutingTest : public DeviceTest {
 protected:
  void NewCase() {
    tokens_ = Integer(1, 6);
    k_ = Integer(1, 4);
    width_ = Integer(1, 5);
    experts_ = Integer(1, 6);
    dtype_ = kDTypes[Integer(0, 2)];
    x_ = RandomFloats(At(tokens_ * width_));
    for (float& value : x_) value = Rounded(dtype_, value);
    ids_ = RandomInts(At(tokens_ * k_), 0, experts_ - 1);
  }
  DeviceTensor X() { return DeviceTensor::Floats(dtype_, {tokens_, width_}, x_, AnyLayout()); }
  DeviceTensor Ids() { return DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout()); }
  // Rows of x.
  std::vector<float> Rows(const Ints& tokens) const {
    std::vector<float> rows;
    for (const int64_t token : tokens) {
      for (int64_t h = 0; h < width_; ++h) {
        rows.push_back(token < 0 ? 0.0f : x_[At(token * width_ + h)]);
      }
    }
    return rows;
  }

  int64_t tokens_ = 0, k_ = 0, width_ = 0, experts_ = 0;
  aclDataType dtype_ = ACL_FLOAT;
  std::vector<float> x_;
  Ints ids_;
};

TEST_F(InitRoutingTest, FirstVersionNumbersSlotsChoiceByChoice) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const int64_t active = Integer(0, tokens_ + 1);
    const bool quantises = Coin();
    Ints row_ids;
    for (int64_t slot = 0; slot < tokens_ * k_; ++slot) {
      row_ids.push_back(slot % k_ * tokens_ + slot / k_);
    }
    const Ints order = SlotsById(ids_);
    Ints sorted_ids, row_tokens, expected_rows(ids_.size());
    for (size_t row = 0; row < order.size(); ++row) {
      sorted_ids.push_back(ids_[At(order[row])]);
      row_tokens.push_back(order[row] / k_);
      expected_rows[At(row_ids[At(order[row])])] = static_cast<int64_t>(row);
    }
    row_tokens.resize(At(std::min(tokens_, active) * k_));
    const auto x = X(), ids = Ids();
    const auto rows = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, row_ids);
    const DeviceTensor out(quantises ? ACL_INT8 : dtype_,
                           {static_cast<int64_t>(row_tokens.size()), width_}, AnyLayout());
    const DeviceTensor out_rows(ACL_INT32, {tokens_ * k_}), out_ids(ACL_INT32, {tokens_ * k_});
    const auto prepare = [&](auto* size, auto** executor) {
      return quantises
                 ? aclnnMoeInitRoutingQuantGetWorkspaceSize(x, rows, ids, active, 30.3, -1.7, out,
                                                            out_rows, out_ids, size, executor)
                 : aclnnMoeInitRoutingGetWorkspaceSize(x, rows, ids, active, out, out_rows, out_ids,
                                                       size, executor);
    };
    ASSERT_EQ(Execute(prepare, quantises ? aclnnMoeInitRoutingQuant : aclnnMoeInitRouting), 0)
        << LastError();
    ASSERT_EQ(out_rows.ReadInts(), expected_rows);
    ASSERT_EQ(out_ids.ReadInts(), sorted_ids);
    if (quantises) {
      Ints expected;
      for (const float value : Rows(row_tokens)) expected.push_back(Static(value, 30.3f, -1.7f));
      ASSERT_EQ(out.ReadInts(), expected);
    } else {
      ASSERT_EQ(out.ReadFloats(), Rows(row_tokens));
    }
  }
}

TEST_F(InitRoutingTest, DroplessNumbersSlotsTokenByTokenAndKeepsActiveRows) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const int64_t slots = tokens_ * k_, active = Integer(0, slots + 1), flag = Integer(0, 2);
    const int64_t num_rows = active == 0 ? slots : std::min(slots, active);
    if (Coin()) ids_[At(Integer(0, slots - 1))] = experts_;  // a finished token's id
    const Ints order = SlotsById(ids_);
    Ints row_tokens;
    for (int64_t row = 0; row < num_rows; ++row) row_tokens.push_back(order[At(row)] / k_);
    Ints counts = CountsOf(ids_, experts_);
    if (flag == 1) std::partial_sum(counts.begin(), counts.end(), counts.begin());
    const auto x = X(), ids = Ids();
    const DeviceTensor out(dtype_, {num_rows, width_}, AnyLayout());
    const DeviceTensor out_rows(ACL_INT32, {slots}, AnyLayout());
    const DeviceTensor out_counts(ACL_INT32, {experts_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeInitRoutingV2GetWorkspaceSize(
                        x, ids, active, 0, experts_, 0, flag, false, out, out_rows,
                        flag == 0 ? nullptr : out_counts.get(), nullptr, size, executor);
                  },
                  aclnnMoeInitRoutingV2),
              0)
        << LastError();
    ASSERT_EQ(out.ReadFloats(), Rows(row_tokens));
    ASSERT_EQ(out_rows.ReadInts(), Inverse(order));
    if (flag != 0) {
      ASSERT_EQ(out_counts.ReadInts(), counts);
    }
  }
}

TEST_F(InitRoutingTest, CapacityDropsInSlotOrderAndPadsWithZeros) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const int64_t capacity = Integer(1, tokens_), slots = tokens_ * k_;
    Ints expected_rows, row_tokens(At(experts_ * capacity), -1), used(At(experts_), 0);
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t expert = ids_[At(slot)], place = used[At(expert)]++;
      expected_rows.push_back(place < capacity ? expert * capacity + place : -1);
      if (place < capacity) row_tokens[At(expert * capacity + place)] = slot / k_;
    }
    const auto x = X(), ids = Ids();
    const DeviceTensor out(dtype_, {experts_, capacity, width_}, AnyLayout());
    const DeviceTensor out_rows(ACL_INT32, {slots}), before(ACL_INT32, {experts_});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeInitRoutingV2GetWorkspaceSize(x, ids, 0, capacity, experts_, 1,
                                                                 0, true, out, out_rows, nullptr,
                                                                 before, size, executor);
                  },
                  aclnnMoeInitRoutingV2),
              0)
        << LastError();
    ASSERT_EQ(out.ReadFloats(), Rows(row_tokens));
    ASSERT_EQ(out_rows.ReadInts(), expected_rows);
    ASSERT_EQ(before.ReadInts(), CountsOf(ids_, experts_));

    // The gradient is the sum of the rows that were kept.
    const std::vector<float> gradient = RandomFloats(At(experts_ * capacity * width_));
    const auto d_out = DeviceTensor::Floats(ACL_FLOAT, {experts_, capacity, width_}, gradient);
    const DeviceTensor d_x(ACL_FLOAT, {tokens_, width_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeInitRoutingV2GradGetWorkspaceSize(d_out, out_rows, k_, 1, 0, d_x,
                                                                     size, executor);
                  },
                  aclnnMoeInitRoutingV2Grad),
              0)
        << LastError();
    const Sums sums = SumOfRows(gradient, width_, expected_rows, {}, k_);
    ASSERT_TRUE(Near(ACL_FLOAT, d_x.ReadFloats(), sums.values, sums.magnitudes));
  }
}

TEST_F(InitRoutingTest, DynamicQuantisationFollowsTheChainOfRoundings) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const int64_t slots = tokens_ * k_, smooth_rows = Coin() ? 1 : experts_;
    const bool is_smooth = Coin();
    const std::vector<float> smooth = RandomFloats(At(smooth_rows * width_), 0.5f, 2);
    const Ints order = SlotsById(ids_);
    const auto x = X(), ids = Ids();
    const auto factors =
        DeviceTensor::Floats(ACL_FLOAT, {smooth_rows, width_}, smooth, AnyLayout());
    const DeviceTensor out(ACL_INT8, {slots, width_}, AnyLayout());
    const DeviceTensor rows(ACL_INT32, {slots}), scales(ACL_FLOAT, {slots}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeInitRoutingQuantV2GetWorkspaceSize(
                        x, ids, is_smooth ? factors.get() : nullptr, nullptr, 0, 0, experts_, 0, 0,
                        false, 1, out, rows, nullptr, nullptr, scales, size, executor);
                  },
                  aclnnMoeInitRoutingQuantV2),
              0)
        << LastError();
    Ints expected;
    std::vector<float> expected_scales;
    for (const int64_t slot : order) {
      std::vector<float> row = Rows({slot / k_});
      const int64_t first = smooth_rows == 1 ? 0 : ids_[At(slot)] * width_;
      float largest = 0;
      for (int64_t h = 0; h < width_; ++h) {
        if (is_smooth) row[At(h)] *= smooth[At(first + h)];
        largest = std::max(largest, std::abs(row[At(h)]));
      }
      const float scale = largest / 127;
      expected_scales.push_back(scale);
      for (const float value : row) {
        expected.push_back(static_cast<int64_t>(std::round(TowardsZeroF16(value / scale))));
      }
    }
    ASSERT_EQ(scales.ReadFloats(), expected_scales);
    ASSERT_EQ(out.ReadInts(), expected) << "case " << repeat;
  }
}

TEST_F(InitRoutingTest, RowsOfZerosHaveScaleZero) {
  const auto x = DeviceTensor::Floats(ACL_FLOAT, {1, 3}, {0, 0, 0});
  const auto ids = DeviceTensor::Ints(ACL_INT32, {1, 1}, {0});
  const DeviceTensor out(ACL_INT8, {1, 3}), rows(ACL_INT32, {1}), scales(ACL_FLOAT, {1});
  ASSERT_EQ(Execute(
                [&](auto* size, auto** executor) {
                  return aclnnMoeInitRoutingQuantV2GetWorkspaceSize(
                      x, ids, nullptr, nullptr, 0, 0, 1, 0, 0, false, 1, out, rows, nullptr,
                      nullptr, scales, size, executor);
                },
                aclnnMoeInitRoutingQuantV2),
            0);
  EXPECT_EQ(out.ReadInts(), (Ints{0, 0, 0}));
  EXPECT_EQ(scales.ReadFloats(), (std::vector<float>{0}));
}

TEST_F(InitRoutingTest, ErrorsHaveCannsCodes) {
  const DeviceTensor x(ACL_FLOAT, {2, 3}), out(ACL_FLOAT, {4, 3}), rows(ACL_INT32, {4});
  const DeviceTensor counts(ACL_INT32, {5}), flat(ACL_FLOAT, {6});
  const auto ids = DeviceTensor::Ints(ACL_INT32, {2, 2}, {0, 1, 2, 9});
  struct Case {
    int64_t active = 0, capacity = 0, experts = 5, mode = 0, flag = 0;
  };
  const auto code = [&](const aclTensor* input, const Case& c) {
    return Check([&](auto* size, auto** executor) {
      return aclnnMoeInitRoutingV2GetWorkspaceSize(input, ids, c.active, c.capacity, c.experts,
                                                   c.mode, c.flag, false, out, rows, counts,
                                                   nullptr, size, executor);
    });
  };
  EXPECT_EQ(code(x, {}), 0) << LastError();
  EXPECT_EQ(code(nullptr, {}), 161001);
  EXPECT_EQ(code(rows, {}), 161002);
  EXPECT_EQ(code(flat, {}), 561002);
  EXPECT_EQ(code(x, {.active = -1}), 561002);
  EXPECT_EQ(code(x, {.active = 2}), 561002) << "the output has other rows";
  EXPECT_EQ(code(x, {.mode = 2}), 561002);
  EXPECT_EQ(code(x, {.capacity = 3, .mode = 1}), 561002) << "more than the tokens";
  EXPECT_EQ(code(x, {.flag = 3}), 561002);
  EXPECT_EQ(code(x, {.experts = 0, .flag = 1}), 561002);
  // Values are looked at when the stream runs.
  EXPECT_EQ(Execute(
                [&](auto* size, auto** executor) {
                  return aclnnMoeInitRoutingV2GetWorkspaceSize(
                      x, ids, 0, 0, 5, 0, 0, false, out, rows, counts, nullptr, size, executor);
                },
                aclnnMoeInitRoutingV2),
            507015);
  EXPECT_THAT(LastError(), testing::HasSubstr("expertIdx must be 0 to 5; got 9 at position 3"));
}

TEST_F(InitRoutingTest, ExpertTokensAreRunningCountsAndFinishedOnesCountNowhere) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const int64_t experts = Integer(1, 9), length = Integer(0, 30);
    Ints sorted = RandomInts(At(length), 0, experts);
    std::sort(sorted.begin(), sorted.end());
    const auto ids = DeviceTensor::Ints(ACL_INT32, {length}, sorted, AnyLayout());
    const DeviceTensor out(ACL_INT32, {experts}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeComputeExpertTokensGetWorkspaceSize(ids, experts, out, size,
                                                                       executor);
                  },
                  aclnnMoeComputeExpertTokens),
              0)
        << LastError();
    Ints expected;
    for (int64_t expert = 0; expert < experts; ++expert) {
      expected.push_back(std::ranges::count_if(sorted, [&](int64_t id) { return id <= expert; }));
    }
    ASSERT_EQ(out.ReadInts(), expected);
  }
}

TEST_F(InitRoutingTest, ReRoutingTurnsRankOrderIntoExpertOrder) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const int64_t ranks = Integer(1, 4), experts = Integer(1, 4), width = Integer(1, 4);
    const Ints counts = RandomInts(At(ranks * experts), 0, 3);
    const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const aclDataType count_dtype = Coin() ? ACL_INT32 : ACL_INT64;
    const std::vector<float> x = RandomFloats(At(rows * width)), scales = RandomFloats(At(rows));
    Ints sources, totals(At(experts), 0);
    for (int64_t expert = 0; expert < experts; ++expert) {
      int64_t first = 0;
      for (int64_t cell = 0; cell < ranks * experts; ++cell) {
        const int64_t count = counts[At(cell)];
        if (cell % experts == expert) {
          for (int64_t i = 0; i < count; ++i) sources.push_back(first + i);
          totals[At(expert)] += count;
        }
        first += count;
      }
    }
    const auto tokens = DeviceTensor::Floats(ACL_BF16, {rows, width}, x, AnyLayout());
    const auto per_rank = DeviceTensor::Ints(count_dtype, {ranks, experts}, counts, AnyLayout());
    const auto given = DeviceTensor::Floats(ACL_FLOAT, {rows}, scales, AnyLayout());
    const DeviceTensor out(ACL_BF16, {rows, width}, AnyLayout());
    const DeviceTensor out_scales(ACL_FLOAT, {rows}), index(ACL_INT32, {rows});
    const DeviceTensor expert_counts(count_dtype, {experts});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeReRoutingGetWorkspaceSize(tokens, per_rank, given, 1, 0, out,
                                                             out_scales, index, expert_counts, size,
                                                             executor);
                  },
                  aclnnMoeReRouting),
              0)
        << LastError();
    ASSERT_EQ(index.ReadInts(), sources);
    ASSERT_EQ(expert_counts.ReadInts(), totals);
    std::vector<float> expected, expected_scales;
    for (const int64_t source : sources) {
      expected_scales.push_back(scales[At(source)]);
      for (int64_t h = 0; h < width; ++h) {
        expected.push_back(Rounded(ACL_BF16, x[At(source * width + h)]));
      }
    }
    ASSERT_EQ(out.ReadFloats(), expected);
    ASSERT_EQ(out_scales.ReadFloats(), expected_scales);
  }
}

}  // namespace
}  // namespace opst::cann
