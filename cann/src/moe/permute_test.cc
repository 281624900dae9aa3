// Token permute and unpermute, plain and ranged, with their gradients: against plain sorting and
// sums in fp64; and the agreements with init routing and finalize that CANN's re-routing implies.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_moe_finalize_routing_v2.h"
#include "aclnnop/aclnn_moe_finalize_routing_v2_grad.h"
#include "aclnnop/aclnn_moe_init_routing_v2.h"
#include "aclnnop/aclnn_moe_init_routing_v2_grad.h"
#include "aclnnop/aclnn_moe_token_permute.h"
#include "aclnnop/aclnn_moe_token_permute_grad.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep.h"
#include "aclnnop/aclnn_moe_token_permute_with_ep_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute.h"
#include "aclnnop/aclnn_moe_token_unpermute_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

constexpr aclDataType kDTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

class PermuteTest : public DeviceTest {
 protected:
  void NewCase() {
    dtype_ = kDTypes[Integer(0, 2)];
    tokens_ = Integer(1, 6), k_ = Integer(1, 4), width_ = Integer(1, 5);
    slots_ = tokens_ * k_;
    ids_ = RandomInts(At(slots_), 0, 7);
    order_ = SlotsById(ids_);
    sorted_ = Inverse(order_);
    begin_ = Integer(0, slots_), end_ = Integer(begin_, slots_);
  }
  std::vector<float> Values(int64_t count) {
    std::vector<float> values = RandomFloats(At(count));
    for (float& value : values) value = Rounded(dtype_, value);
    return values;
  }
  DeviceTensor Of(Ints dims, const std::vector<float>& values) {
    return DeviceTensor::Floats(dtype_, std::move(dims), values, AnyLayout());
  }
  DeviceTensor Sorted() { return DeviceTensor::Ints(ACL_INT32, {slots_}, sorted_, AnyLayout()); }
  // The rows of slots within [begin, end), from begin on; the others -1.
  Ints InRange(int64_t begin, int64_t end) const {
    Ints rows = sorted_;
    for (int64_t& row : rows) row = row >= begin && row < end ? row - begin : -1;
    return rows;
  }
  aclIntArray* Range() {
    const Ints values = {begin_, end_};
    return aclCreateIntArray(values.data(), 2);
  }

  aclDataType dtype_ = ACL_FLOAT;
  int64_t tokens_ = 0, k_ = 0, width_ = 0, slots_ = 0, begin_ = 0, end_ = 0;
  Ints ids_, order_, sorted_;
};

TEST_F(PermuteTest, PermuteSortsKeepsSomeRowsAndItsGradientAddsThem) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const int64_t kept_option = Integer(-slots_ - 1, slots_ + 1);
    const int64_t kept = kept_option > 0 ? std::min(kept_option, slots_)
                                         : std::clamp(slots_ + kept_option, int64_t{0}, slots_);
    const std::vector<float> x = Values(tokens_ * width_), gradient = Values(kept * width_);
    const auto tokens = Of({tokens_, width_}, x);
    const auto indices =
        DeviceTensor::Ints(Coin() ? ACL_INT32 : ACL_INT64, {tokens_, k_}, ids_, AnyLayout());
    const DeviceTensor out(dtype_, {kept, width_}, AnyLayout()), sorted(ACL_INT32, {slots_});
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenPermuteGetWorkspaceSize(tokens, indices, kept_option, false,
                                                                out, sorted, size, executor);
                  },
                  aclnnMoeTokenPermute),
              0)
        << LastError();
    std::vector<float> expected;
    for (int64_t row = 0; row < kept; ++row) {
      for (int64_t h = 0; h < width_; ++h) {
        expected.push_back(x[At(order_[At(row)] / k_ * width_ + h)]);
      }
    }
    ASSERT_EQ(sorted.ReadInts(), sorted_);
    ASSERT_EQ(out.ReadFloats(), expected);

    const auto d_out = Of({kept, width_}, gradient);
    const DeviceTensor d_x(dtype_, {tokens_, width_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenPermuteGradGetWorkspaceSize(d_out, sorted, k_, false, d_x,
                                                                    size, executor);
                  },
                  aclnnMoeTokenPermuteGrad),
              0)
        << LastError();
    const Sums sums = SumOfRows(gradient, width_, InRange(0, kept), {}, k_);
    ASSERT_TRUE(Near(dtype_, d_x.ReadFloats(), sums.values, sums.magnitudes));
  }
}

TEST_F(PermuteTest, RangedPermuteTakesSortedRowsNotExperts) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const int64_t rows = end_ - begin_;
    const std::vector<float> x = Values(tokens_ * width_), p = Values(slots_);
    const auto tokens = Of({tokens_, width_}, x), probs = Of({tokens_, k_}, p);
    const auto indices = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout());
    const DeviceTensor out(dtype_, {rows, width_}, AnyLayout()), sorted(ACL_INT32, {slots_});
    const DeviceTensor out_probs(dtype_, {rows}, AnyLayout());
    aclIntArray* const range = Range();
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenPermuteWithEpGetWorkspaceSize(tokens, indices, probs, range,
                                                                      0, false, out, sorted,
                                                                      out_probs, size, executor);
                  },
                  aclnnMoeTokenPermuteWithEp),
              0)
        << LastError();
    std::vector<float> expected, expected_probs;
    for (int64_t row = begin_; row < end_; ++row) {
      const int64_t slot = order_[At(row)];
      expected_probs.push_back(p[At(slot)]);
      for (int64_t h = 0; h < width_; ++h) expected.push_back(x[At(slot / k_ * width_ + h)]);
    }
    ASSERT_EQ(sorted.ReadInts(), sorted_);
    ASSERT_EQ(out.ReadFloats(), expected);
    ASSERT_EQ(out_probs.ReadFloats(), expected_probs);

    const std::vector<float> gradient = Values(rows * width_), d_p = Values(rows);
    const auto d_out = Of({rows, width_}, gradient), d_row_probs = Of({rows}, d_p);
    const DeviceTensor d_x(dtype_, {tokens_, width_}), d_probs(dtype_, {tokens_, k_}, AnyLayout());
    ASSERT_EQ(Execute(
                  [&](auto* size, auto** executor) {
                    return aclnnMoeTokenPermuteWithEpGradGetWorkspaceSize(
                        d_out, sorted, d_row_probs, k_, range, false, d_x, d_probs, size, executor);
                  },
                  aclnnMoeTokenPermuteWithEpGrad),
              0)
        << LastError();
    const Sums sums = SumOfRows(gradient, width_, InRange(begin_, end_), {}, k_);
    ASSERT_TRUE(Near(dtype_, d_x.ReadFloats(), sums.values, sums.magnitudes));
    std::vector<float> expected_d;
    for (const int64_t row : InRange(begin_, end_)) {
      expected_d.push_back(row < 0 ? 0.0f : d_p[At(row)]);
    }
    ASSERT_EQ(d_probs.ReadFloats(), expected_d);
    aclDestroyIntArray(range);
  }
}

TEST_F(PermuteTest, UnpermuteIsAWeightedSumInRangeOrNot) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const bool is_ranged = Coin(), has_probs = Coin();
    if (!is_ranged) begin_ = 0, end_ = Coin() ? slots_ : Integer(0, slots_);
    const int64_t rows = end_ - begin_;
    // Without probabilities the plain operator takes one row a token.
    const int64_t k = has_probs || is_ranged ? k_ : 1, tokens = slots_ / k;
    const std::vector<float> x = Values(rows * width_), p = Values(slots_);
    const auto permuted = Of({rows, width_}, x), sorted = Sorted(), probs = Of({tokens, k}, p);
    const DeviceTensor out(dtype_, {tokens, width_}, AnyLayout());
    aclIntArray* const range = Range();
    const aclTensor* const given = has_probs ? probs.get() : nullptr;
    const auto prepare = [&](auto* size, auto** executor) {
      return is_ranged ? aclnnMoeTokenUnpermuteWithEpGetWorkspaceSize(
                             permuted, sorted, given, k, range, false, nullptr, out, size, executor)
                       : aclnnMoeTokenUnpermuteGetWorkspaceSize(permuted, sorted, given, false,
                                                                nullptr, out, size, executor);
    };
    ASSERT_EQ(Execute(prepare, is_ranged ? aclnnMoeTokenUnpermuteWithEp : aclnnMoeTokenUnpermute),
              0)
        << LastError();
    const Sums sums =
        SumOfRows(x, width_, InRange(begin_, end_), has_probs ? p : std::vector<float>{}, k);
    ASSERT_TRUE(Near(dtype_, out.ReadFloats(), sums.values, sums.magnitudes));
    aclDestroyIntArray(range);
  }
}

TEST_F(PermuteTest, UnpermuteGradientsSpreadAndDot) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const bool is_ranged = Coin();
    if (!is_ranged) begin_ = 0, end_ = slots_;
    const int64_t rows = end_ - begin_;
    const std::vector<float> x = Values(rows * width_), p = Values(slots_);
    const std::vector<float> gradient = Values(tokens_ * width_);
    const auto permuted = Of({rows, width_}, x), sorted = Sorted(), probs = Of({tokens_, k_}, p),
               d_out = Of({tokens_, width_}, gradient);
    const DeviceTensor d_rows(dtype_, {rows, width_}, AnyLayout());
    const DeviceTensor d_probs(dtype_, {tokens_, k_}, AnyLayout());
    aclIntArray* const range = Range();
    const auto prepare = [&](auto* size, auto** executor) {
      return is_ranged ? aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
                             d_out, sorted, permuted, probs, false, nullptr, range, 1, d_rows,
                             d_probs, size, executor)
                       : aclnnMoeTokenUnpermuteGradGetWorkspaceSize(permuted, d_out, sorted, probs,
                                                                    false, nullptr, d_rows, d_probs,
                                                                    size, executor);
    };
    ASSERT_EQ(
        Execute(prepare, is_ranged ? aclnnMoeTokenUnpermuteWithEpGrad : aclnnMoeTokenUnpermuteGrad),
        0)
        << LastError();
    Doubles expected(At(rows * width_), 0), dots, magnitudes;
    const Ints row_ids = InRange(begin_, end_);
    for (int64_t slot = 0; slot < slots_; ++slot) {
      const int64_t row = row_ids[At(slot)];
      double dot = 0, magnitude = 0;
      for (int64_t h = 0; h < width_ && row >= 0; ++h) {
        const double d = gradient[At(slot / k_ * width_ + h)];
        expected[At(row * width_ + h)] = d * p[At(slot)];
        dot += d * x[At(row * width_ + h)];
        magnitude += std::abs(d * x[At(row * width_ + h)]);
      }
      dots.push_back(dot);
      magnitudes.push_back(magnitude);
    }
    ASSERT_TRUE(Near(dtype_, d_rows.ReadFloats(), expected));
    ASSERT_TRUE(Near(dtype_, d_probs.ReadFloats(), dots, magnitudes));
    aclDestroyIntArray(range);
  }
}

// Pairs of operators that CANN itself exchanges for each other.
class AgreementTest : public PermuteTest {
 protected:
  // The same rows and indices from permute and init routing.
  void Forward(const DeviceTensor& tokens, const DeviceTensor& ids, const DeviceTensor& rows,
               const DeviceTensor& index) {
    const DeviceTensor other(dtype_, {slots_, width_}), other_index(ACL_INT32, {slots_});
    const auto permute = [&](auto* size, auto** executor) {
      return aclnnMoeTokenPermuteGetWorkspaceSize(tokens, ids, 0, false, rows, index, size,
                                                  executor);
    };
    const auto route = [&](auto* size, auto** executor) {
      return aclnnMoeInitRoutingV2GetWorkspaceSize(tokens, ids, 0, 0, 0, 0, 0, false, other,
                                                   other_index, nullptr, nullptr, size, executor);
    };
    ASSERT_EQ(Execute(permute, aclnnMoeTokenPermute), 0);
    ASSERT_EQ(Execute(route, aclnnMoeInitRoutingV2), 0);
    ASSERT_EQ(rows.ReadFloats(), other.ReadFloats());
    ASSERT_EQ(index.ReadInts(), other_index.ReadInts());
  }
  void ForwardGradient(const DeviceTensor& rows, const DeviceTensor& index) {
    const DeviceTensor a(dtype_, {tokens_, width_}), b(dtype_, {tokens_, width_});
    const auto permute = [&](auto* size, auto** executor) {
      return aclnnMoeTokenPermuteGradGetWorkspaceSize(rows, index, k_, false, a, size, executor);
    };
    const auto route = [&](auto* size, auto** executor) {
      return aclnnMoeInitRoutingV2GradGetWorkspaceSize(rows, index, k_, 0, slots_, b, size,
                                                       executor);
    };
    ASSERT_EQ(Execute(permute, aclnnMoeTokenPermuteGrad), 0);
    ASSERT_EQ(Execute(route, aclnnMoeInitRoutingV2Grad), 0);
    ASSERT_EQ(a.ReadFloats(), b.ReadFloats());
  }
  void Back(const DeviceTensor& rows, const DeviceTensor& index, const DeviceTensor& probs) {
    const DeviceTensor a(dtype_, {tokens_, width_}), b(dtype_, {tokens_, width_});
    const auto unpermute = [&](auto* size, auto** executor) {
      return aclnnMoeTokenUnpermuteGetWorkspaceSize(rows, index, probs, false, nullptr, a, size,
                                                    executor);
    };
    const auto finalize = [&](auto* size, auto** executor) {
      return aclnnMoeFinalizeRoutingV2GetWorkspaceSize(rows, index, nullptr, nullptr, nullptr,
                                                       probs, nullptr, 2, b, size, executor);
    };
    ASSERT_EQ(Execute(unpermute, aclnnMoeTokenUnpermute), 0);
    ASSERT_EQ(Execute(finalize, aclnnMoeFinalizeRoutingV2), 0);
    ASSERT_EQ(a.ReadFloats(), b.ReadFloats());
  }
  void BackGradient(const DeviceTensor& rows, const DeviceTensor& index, const DeviceTensor& probs,
                    const DeviceTensor& d_out) {
    const DeviceTensor a(dtype_, {slots_, width_}), b(dtype_, {slots_, width_});
    const DeviceTensor d_a(dtype_, {tokens_, k_}), d_b(dtype_, {tokens_, k_});
    const auto unpermute = [&](auto* size, auto** executor) {
      return aclnnMoeTokenUnpermuteGradGetWorkspaceSize(rows, d_out, index, probs, false, nullptr,
                                                        a, d_a, size, executor);
    };
    const auto finalize = [&](auto* size, auto** executor) {
      return aclnnMoeFinalizeRoutingV2GradGetWorkspaceSize(
          d_out, index, rows, probs, nullptr, nullptr, 0, 0, 0, 0, b, d_b, size, executor);
    };
    ASSERT_EQ(Execute(unpermute, aclnnMoeTokenUnpermuteGrad), 0);
    ASSERT_EQ(Execute(finalize, aclnnMoeFinalizeRoutingV2Grad), 0);
    ASSERT_EQ(a.ReadFloats(), b.ReadFloats());
    ASSERT_EQ(d_a.ReadFloats(), d_b.ReadFloats());
  }
};

TEST_F(AgreementTest, PermuteIsInitRoutingAndUnpermuteIsFinalize) {
  for (int repeat = 0; repeat < 1000; ++repeat) {
    NewCase();
    const auto tokens = Of({tokens_, width_}, Values(tokens_ * width_)),
               probs = Of({tokens_, k_}, Values(slots_)),
               d_out = Of({tokens_, width_}, Values(tokens_ * width_));
    const auto ids = DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids_, AnyLayout());
    const DeviceTensor rows(dtype_, {slots_, width_}), index(ACL_INT32, {slots_});
    Forward(tokens, ids, rows, index);
    ForwardGradient(rows, index);
    Back(rows, index, probs);
    BackGradient(rows, index, probs, d_out);
    ASSERT_FALSE(HasFatalFailure()) << "case " << repeat;
  }
}

TEST_F(PermuteTest, ARowOfWeightZeroIsNotRead) {
  const auto rows = DeviceTensor::Floats(ACL_FLOAT, {2, 1}, {NAN, 3});
  const auto sorted = DeviceTensor::Ints(ACL_INT32, {2}, {0, 1});
  const auto probs = DeviceTensor::Floats(ACL_FLOAT, {1, 2}, {0, 2});
  const DeviceTensor out(ACL_FLOAT, {1, 1});
  ASSERT_EQ(Execute(
                [&](auto* size, auto** executor) {
                  return aclnnMoeTokenUnpermuteGetWorkspaceSize(rows, sorted, probs, false, nullptr,
                                                                out, size, executor);
                },
                aclnnMoeTokenUnpermute),
            0);
  EXPECT_EQ(out.ReadFloats(), (std::vector<float>{6}));
}

TEST_F(PermuteTest, ErrorsHaveCannsCodes) {
  const DeviceTensor x(ACL_FLOAT, {2, 3}), ids(ACL_INT32, {2, 2}), out(ACL_FLOAT, {4, 3});
  const DeviceTensor sorted(ACL_INT32, {4}), flat(ACL_FLOAT, {6}), few(ACL_INT32, {3, 2});
  const auto code = [&](const aclTensor* t, const aclTensor* i, int64_t kept, bool padded) {
    return Check([&](auto* size, auto** executor) {
      return aclnnMoeTokenPermuteGetWorkspaceSize(t, i, kept, padded, out, sorted, size, executor);
    });
  };
  EXPECT_EQ(code(x, ids, 0, false), 0) << LastError();
  EXPECT_EQ(code(nullptr, ids, 0, false), 161001);
  EXPECT_EQ(code(ids, ids, 0, false), 161002);
  EXPECT_EQ(code(x, ids, 0, true), 161002) << "paddedMode is refused by the wrapper";
  EXPECT_EQ(code(flat, ids, 0, false), 561002);
  EXPECT_EQ(code(x, few, 0, false), 561002);
  EXPECT_EQ(code(x, ids, 3, false), 561002) << "the output has 4 rows";
}

}  // namespace
}  // namespace opst::cann
