// moe_init_routing_v3 against plain loops: ranges of experts, both kinds of row numbers and counts,
// scales and dynamic quantisation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_moe_init_routing_v3.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

class InitRoutingRangeTest : public DeviceTest {};

struct IntArray {
  explicit IntArray(const Ints& values) : array(aclCreateIntArray(values.data(), values.size())) {}
  ~IntArray() { aclDestroyIntArray(array); }
  aclIntArray* array;
};

TEST_F(InitRoutingRangeTest, RowsOfTheRangeComeFirstAndTheRestStays) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const int64_t tokens = Integer(1, 6), k = Integer(1, 4), width = Integer(1, 5);
    const int64_t experts = Integer(2, 7), first = Integer(0, experts - 1);
    const int64_t last = Integer(first + 1, experts), slots = tokens * k;
    const int64_t count_type = Integer(1, 2), row_type = Integer(0, 1);
    const bool quantises = Coin(), has_scale = Coin();
    const std::vector<float> x = RandomFloats(At(tokens * width));
    const Ints ids = RandomInts(At(slots), 0, experts);
    const int64_t scale_rows = quantises ? last - first : tokens;
    const std::vector<float> scale =
        RandomFloats(At(scale_rows * (quantises ? width : 1)), 0.5f, 2);
    const auto x_in = DeviceTensor::Floats(ACL_FLOAT, {tokens, width}, x, AnyLayout());
    const auto ids_in = DeviceTensor::Ints(ACL_INT32, {tokens, k}, ids, AnyLayout());
    const auto scale_in = DeviceTensor::Floats(
        ACL_FLOAT, quantises ? Ints{scale_rows, width} : Ints{scale_rows}, scale, AnyLayout());
    const DeviceTensor out(quantises ? ACL_INT8 : ACL_FLOAT, {slots, width}, AnyLayout());
    const DeviceTensor rows(ACL_INT32, {slots}, AnyLayout());
    const DeviceTensor out_scales(ACL_FLOAT, {slots}, AnyLayout());
    const DeviceTensor counts(ACL_INT64, count_type == 1 ? Ints{last - first} : Ints{experts, 2});
    const IntArray range({first, last});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeInitRoutingV3GetWorkspaceSize(
                        x_in, ids_in, has_scale ? scale_in.get() : nullptr, nullptr,
                        Coin() ? -1 : slots, 0, experts, 0, count_type, true, quantises ? 1 : -1,
                        range.array, row_type, out, rows, counts, out_scales, size, executor);
                  },
                  aclnnMoeInitRoutingV3),
              0)
        << LastError();
    Ints kept;  // slots in range, by expert
    for (const int64_t slot : SlotsById(ids)) {
      if (ids[At(slot)] >= first && ids[At(slot)] < last) kept.push_back(slot);
    }
    const Ints got_rows = rows.ReadInts();
    if (row_type == 0) {
      Ints expected(At(slots), -1);
      for (size_t row = 0; row < kept.size(); ++row) {
        expected[At(kept[row])] = static_cast<int64_t>(row);
      }
      ASSERT_EQ(got_rows, expected);
    } else {
      ASSERT_EQ(Ints(got_rows.begin(), got_rows.begin() + static_cast<int64_t>(kept.size())), kept);
    }
    const Ints all = CountsOf(ids, experts);
    const Ints got_counts = counts.ReadInts();
    if (count_type == 1) {
      ASSERT_EQ(got_counts, Ints(all.begin() + first, all.begin() + last));
    } else {
      Ints pairs;
      for (int64_t expert = first; expert < last; ++expert) {
        if (all[At(expert)] == 0) continue;
        pairs.push_back(expert);
        pairs.push_back(all[At(expert)]);
      }
      pairs.resize(At(2 * std::min(last - first + 1, experts)), 0);
      ASSERT_EQ(Ints(got_counts.begin(), got_counts.begin() + static_cast<int64_t>(pairs.size())),
                pairs);
    }
    const auto got = quantises ? std::vector<float>{} : out.ReadFloats();
    const auto got_int8 = quantises ? out.ReadInts() : Ints{};
    const auto got_scales = out_scales.ReadFloats();
    for (size_t row = 0; row < kept.size(); ++row) {
      const int64_t token = kept[row] / k, expert = ids[At(kept[row])];
      float largest = 0;
      std::vector<float> values;
      for (int64_t h = 0; h < width; ++h) {
        float value = x[At(token * width + h)];
        if (quantises && has_scale) value *= scale[At((expert - first) * width + h)];
        values.push_back(value);
        largest = std::max(largest, std::abs(value));
      }
      for (int64_t h = 0; h < width; ++h) {
        const size_t at = row * At(width) + At(h);
        if (quantises) {
          ASSERT_LE(std::abs(static_cast<float>(got_int8[at]) * largest / 127 - values[At(h)]),
                    largest / 127 * (0.5f + 0.063f));  // f16 near 127 is within 1/16, towards zero
        } else {
          ASSERT_EQ(got[at], values[At(h)]);
        }
      }
      if (quantises) {
        ASSERT_EQ(got_scales[row], largest / 127);
      } else if (has_scale) {
        ASSERT_EQ(got_scales[row], scale[At(token)]);
      }
    }
  }
}

TEST_F(InitRoutingRangeTest, ErrorsHaveCannsCodes) {
  const DeviceTensor x(ACL_FLOAT, {2, 3}), ids(ACL_INT32, {2, 2}), out(ACL_FLOAT, {4, 3});
  const DeviceTensor rows(ACL_INT32, {4}), counts(ACL_INT64, {5}), scales(ACL_FLOAT, {4});
  struct Case {
    int64_t active = 4, experts = 5, mode = 0, count_type = 1, quant = -1, row_type = 0;
    bool counts = true;
    Ints range = {0, 5};
  };
  const auto code = [&](const aclTensor* input, const Case& c) {
    const IntArray range(c.range);
    return Check([&](auto* size, auto** executor) {
      return aclnnMoeInitRoutingV3GetWorkspaceSize(
          input, ids, nullptr, nullptr, c.active, 0, c.experts, c.mode, c.count_type, c.counts,
          c.quant, range.array, c.row_type, out, rows, counts, scales, size, executor);
    });
  };
  EXPECT_EQ(code(x, {}), 0) << LastError();
  EXPECT_EQ(code(nullptr, {}), 161001);
  EXPECT_EQ(code(counts, {}), 161002);
  EXPECT_EQ(code(rows, {}), 161002) << "the wrapper looks at the dims of x";
  EXPECT_EQ(code(x, {.active = 3}), 561002);
  EXPECT_EQ(code(x, {.mode = 1}), 561002);
  EXPECT_EQ(code(x, {.count_type = 0}), 561002);
  EXPECT_EQ(code(x, {.quant = 0}), 561002);
  EXPECT_EQ(code(x, {.row_type = 2}), 561002);
  EXPECT_EQ(code(x, {.counts = false}), 561002);
  EXPECT_EQ(code(x, {.experts = 4}), 561002) << "the range leaves the experts";
  EXPECT_EQ(code(x, {.range = {0}}), 161002);
  EXPECT_EQ(code(x, {.range = {0, 4}}), 161002) << "counts have another length";
}

}  // namespace
}  // namespace opst::cann
