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

struct IntArray {
  explicit IntArray(const Ints& values) : array(aclCreateIntArray(values.data(), values.size())) {}
  ~IntArray() { aclDestroyIntArray(array); }
  aclIntArray* array;
};

class InitRoutingRangeTest : public DeviceTest {
 protected:
  void NewCase() {
    tokens_ = Integer(1, 6), k_ = Integer(1, 4), width_ = Integer(1, 5), slots_ = tokens_ * k_;
    experts_ = Integer(2, 7), first_ = Integer(0, experts_ - 1);
    last_ = Integer(first_ + 1, experts_);
    count_type_ = Integer(1, 2), row_type_ = Integer(0, 1);
    quantises_ = Coin(), has_scale_ = Coin();
    x_ = RandomFloats(At(tokens_ * width_));
    ids_ = RandomInts(At(slots_), 0, experts_);
    scale_ = RandomFloats(At(quantises_ ? (last_ - first_) * width_ : tokens_), 0.5f, 2);
    kept_.clear();  // slots in range, by expert
    for (const int64_t slot : SlotsById(ids_)) {
      if (ids_[At(slot)] >= first_ && ids_[At(slot)] < last_) kept_.push_back(slot);
    }
  }
  void CheckRowNumbers(const Ints& got) const {
    if (row_type_ == 1) {
      const auto used = static_cast<int64_t>(kept_.size());
      ASSERT_EQ(Ints(got.begin(), got.begin() + used), kept_);
      return;
    }
    Ints expected(At(slots_), -1);
    for (size_t row = 0; row < kept_.size(); ++row) {
      expected[At(kept_[row])] = static_cast<int64_t>(row);
    }
    ASSERT_EQ(got, expected);
  }
  void CheckCounts(const Ints& got) const {
    const Ints all = CountsOf(ids_, experts_);
    if (count_type_ == 1) {
      ASSERT_EQ(got, Ints(all.begin() + first_, all.begin() + last_));
      return;
    }
    Ints pairs;
    for (int64_t expert = first_; expert < last_; ++expert) {
      if (all[At(expert)] == 0) continue;
      pairs.push_back(expert);
      pairs.push_back(all[At(expert)]);
    }
    pairs.resize(At(2 * std::min(last_ - first_ + 1, experts_)), 0);
    ASSERT_EQ(Ints(got.begin(), got.begin() + static_cast<int64_t>(pairs.size())), pairs);
  }
  void CheckRows(const DeviceTensor& out, const DeviceTensor& out_scales) const {
    const auto got = quantises_ ? std::vector<float>{} : out.ReadFloats();
    const auto got_int8 = quantises_ ? out.ReadInts() : Ints{};
    const auto got_scales = out_scales.ReadFloats();
    for (size_t row = 0; row < kept_.size(); ++row) {
      const int64_t token = kept_[row] / k_, expert = ids_[At(kept_[row])];
      float largest = 0;
      std::vector<float> values;
      for (int64_t h = 0; h < width_; ++h) {
        float value = x_[At(token * width_ + h)];
        if (quantises_ && has_scale_) value *= scale_[At((expert - first_) * width_ + h)];
        values.push_back(value);
        largest = std::max(largest, std::abs(value));
      }
      for (int64_t h = 0; h < width_; ++h) {
        const size_t at = row * At(width_) + At(h);
        if (quantises_) {  // f16 near 127 is within 1/16, towards zero
          ASSERT_LE(std::abs(static_cast<float>(got_int8[at]) * largest / 127 - values[At(h)]),
                    largest / 127 * (0.5f + 0.063f));
        } else {
          ASSERT_EQ(got[at], values[At(h)]);
        }
      }
      if (quantises_) {
        ASSERT_EQ(got_scales[row], largest / 127);
      } else if (has_scale_) {
        ASSERT_EQ(got_scales[row], scale_[At(token)]);
      }
    }
  }

  int64_t tokens_ = 0, k_ = 0, width_ = 0, slots_ = 0, experts_ = 0, first_ = 0, last_ = 0;
  int64_t count_type_ = 0, row_type_ = 0;
  bool quantises_ = false, has_scale_ = false;
  std::vector<float> x_, scale_;
  Ints ids_, kept_;
};

TEST_F(InitRoutingRangeTest, RowsOfTheRangeComeFirstAndTheRestStays) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const auto x = DeviceTensor::Floats(ACL_FLOAT, {tokens_, width_}, x_, AnyLayout());
    const auto ids = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout());
    const auto scale = DeviceTensor::Floats(
        ACL_FLOAT, quantises_ ? Ints{last_ - first_, width_} : Ints{tokens_}, scale_, AnyLayout());
    const DeviceTensor out(quantises_ ? ACL_INT8 : ACL_FLOAT, {slots_, width_}, AnyLayout());
    const DeviceTensor rows(ACL_INT32, {slots_}, AnyLayout());
    const DeviceTensor out_scales(ACL_FLOAT, {slots_}, AnyLayout());
    const DeviceTensor counts(ACL_INT64,
                              count_type_ == 1 ? Ints{last_ - first_} : Ints{experts_, 2});
    const IntArray range({first_, last_});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeInitRoutingV3GetWorkspaceSize(
                        x, ids, has_scale_ ? scale.get() : nullptr, nullptr, Coin() ? -1 : slots_,
                        0, experts_, 0, count_type_, true, quantises_ ? 1 : -1, range.array,
                        row_type_, out, rows, counts, out_scales, size, executor);
                  },
                  aclnnMoeInitRoutingV3),
              0)
        << LastError();
    CheckRowNumbers(rows.ReadInts());
    CheckCounts(counts.ReadInts());
    CheckRows(out, out_scales);
    ASSERT_FALSE(HasFatalFailure()) << "case " << repeat;
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
