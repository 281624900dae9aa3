// Batched products over a grid of expert parallel and tensor parallel ranks, against plain loops
// over all of them: both ways to split, activations, biases; the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_all_to_all_all_gather_batch_matmul.h"
#include "aclnnop/aclnn_batch_matmul_reduce_scatter_all_to_all.h"
#include "cann/testing/grid.h"

namespace opst::cann {
namespace {

class BatchProductTest : public GridTest {
 protected:
  void NewCase() {
    ASSERT_NO_FATAL_FAILURE(MakeGrid(Integer(1, 3), Integer(1, 3)));
    dtype_ = Coin() ? ACL_FLOAT16 : ACL_BF16;
    splits_capacity_ = Coin(), has_bias_ = Coin();
    experts_ = Integer(1, 2), capacity_ = Integer(1, 3), width_ = Integer(1, 4);
    other_ = Integer(1, 4);  // M/tp
  }
  int64_t FullCapacity() const { return capacity_ * (splits_capacity_ ? tp_ : 1); }
  int64_t Hidden() const { return width_ * (splits_capacity_ ? 1 : tp_); }
  size_t RankAt(int64_t p, int64_t t) const { return At(p * tp_ + t); }

  // One tensor a rank.
  using Grid = std::vector<std::vector<float>>;
  Grid Values(aclDataType dtype, int64_t count) {
    Grid grid;
    for (int64_t rank = 0; rank < ep_ * tp_; ++rank) {
      grid.push_back(RandomFloats(At(count)));
      for (float& value : grid.back()) value = Rounded(dtype, value);
    }
    return grid;
  }
  std::vector<DeviceTensor> Inputs(aclDataType dtype, const Ints& dims, const Grid& grid) {
    std::vector<DeviceTensor> tensors;
    for (const auto& values : grid) {
      tensors.push_back(DeviceTensor::Floats(dtype, dims, values, AnyLayout()));
    }
    return tensors;
  }
  std::vector<DeviceTensor> Outputs(const Ints& dims) {
    std::vector<DeviceTensor> tensors;
    for (int64_t rank = 0; rank < ep_ * tp_; ++rank)
      tensors.emplace_back(dtype_, dims, AnyLayout());
    return tensors;
  }
  aclDataType BiasDType() const { return dtype_ == ACL_FLOAT16 ? ACL_FLOAT16 : ACL_FLOAT; }
  Ints BiasDims(int64_t width) { return Coin() ? Ints{experts_, width} : Ints{experts_, 1, width}; }
  aclDataType dtype_ = ACL_FLOAT16;
  bool splits_capacity_ = false, has_bias_ = false;
  int64_t experts_ = 0, capacity_ = 0, width_ = 0, other_ = 0;
};

double Act(int64_t type, double x) {
  switch (type) {
    case 1:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case 2:
      return x / (1 + std::exp(-x));
    case 3:
      return std::max(x, 0.0);
    case 4:
      return x / (1 + std::exp(-1.702 * x));
    default:
      return x;
  }
}

TEST_F(BatchProductTest, TokensOfAllRanksMeetTheExpertsOfThisOne) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(NewCase());
    const int64_t type = Integer(0, 4), hidden = Hidden(), rows = ep_ * FullCapacity();
    const bool has_rows = Coin(), has_sums = type > 0 && Coin();
    const Grid x = Values(dtype_, ep_ * experts_ * capacity_ * width_);
    const Grid w = Values(dtype_, experts_ * hidden * other_);
    const Grid b = Values(BiasDType(), experts_ * other_);
    const auto xs = Inputs(dtype_, {ep_ * experts_, capacity_, width_}, x);
    const auto ws = Inputs(dtype_, {experts_, hidden, other_}, w);
    const auto bs = Inputs(BiasDType(), BiasDims(other_), b);
    const auto y1 = Outputs({experts_, rows, other_}), y3 = Outputs({experts_, rows, other_});
    const auto y2 = Outputs({experts_, rows, hidden});
    ASSERT_NO_FATAL_FAILURE(RunAll(
        [&](size_t rank, const char* ep, const char* tp, auto* size, auto** executor) {
          return aclnnAlltoAllAllGatherBatchMatMulGetWorkspaceSize(
              xs[rank], ws[rank], has_bias_ ? bs[rank].get() : nullptr, ep, tp, ep_, tp_,
              splits_capacity_ ? 1 : 0, type, y1[rank], has_rows ? y2[rank].get() : nullptr,
              has_sums ? y3[rank].get() : nullptr, size, executor);
        },
        aclnnAlltoAllAllGatherBatchMatMul));
    for (int64_t rank = 0; rank < ep_ * tp_; ++rank) {
      std::vector<float> gathered;
      Doubles sums, acts, magnitudes, act_magnitudes;
      for (int64_t i = 0; i < experts_ * rows; ++i) {
        const int64_t e = i / rows, q = i % rows / FullCapacity(), c = i % FullCapacity();
        const size_t first = gathered.size();
        for (int64_t h = 0; h < hidden; ++h) {
          const int64_t t = splits_capacity_ ? c / capacity_ : h / width_;
          const int64_t line = (rank / tp_ * experts_ + e) * capacity_ + c % capacity_;
          gathered.push_back(x[RankAt(q, t)][At(line * width_ + h % width_)]);
        }
        for (int64_t m = 0; m < other_; ++m) {
          double sum = has_bias_ ? b[At(rank)][At(e * other_ + m)] : 0, magnitude = std::abs(sum);
          for (int64_t h = 0; h < hidden; ++h) {
            const double term = static_cast<double>(gathered[first + At(h)]) *
                                w[At(rank)][At((e * hidden + h) * other_ + m)];
            sum += term, magnitude += std::abs(term);
          }
          sums.push_back(sum), acts.push_back(Act(type, sum));
          magnitudes.push_back(OnceRounded(dtype_, sum, magnitude));
          act_magnitudes.push_back(OnceRounded(dtype_, acts.back(), 1.2 * magnitude));
        }
      }
      const size_t at = At(rank);
      ASSERT_TRUE(Near(ACL_FLOAT, y1[at].ReadFloats(), acts, act_magnitudes)) << type;
      ASSERT_TRUE(!has_rows || y2[at].ReadFloats() == gathered);
      ASSERT_TRUE(!has_sums || Near(ACL_FLOAT, y3[at].ReadFloats(), sums, magnitudes));
      ASSERT_TRUE(has_rows || y2[at].is_untouched());
      ASSERT_TRUE(has_sums || y3[at].is_untouched());
    }
  }
}

TEST_F(BatchProductTest, ProductsAreAddedUpAndGoHome) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(NewCase());
    const int64_t hidden = Hidden(), full = FullCapacity(), rows = ep_ * full;
    const Grid x = Values(dtype_, experts_ * rows * other_);
    const Grid w = Values(dtype_, experts_ * other_ * hidden);
    const Grid b = Values(BiasDType(), experts_ * width_);
    const auto xs = Inputs(dtype_, {experts_, rows, other_}, x);
    const auto ws = Inputs(dtype_, {experts_, other_, hidden}, w);
    const auto bs = Inputs(BiasDType(), BiasDims(width_), b);
    const auto ys = Outputs({ep_ * experts_, capacity_, width_});
    ASSERT_NO_FATAL_FAILURE(RunAll(
        [&](size_t rank, const char* ep, const char* tp, auto* size, auto** executor) {
          return aclnnBatchMatMulReduceScatterAlltoAllGetWorkspaceSize(
              xs[rank], ws[rank], has_bias_ ? bs[rank].get() : nullptr, ep, tp, ep_, tp_,
              splits_capacity_ ? 1 : 0, ys[rank], size, executor);
        },
        aclnnBatchMatMulReduceScatterAlltoAll));
    for (int64_t rank = 0; rank < ep_ * tp_; ++rank) {
      const int64_t q = rank / tp_, mine = rank % tp_;
      Doubles expected, magnitudes;
      for (int64_t i = 0; i < ep_ * experts_ * capacity_ * width_; ++i) {
        const int64_t h = i % width_, c = i / width_ % capacity_, id = i / width_ / capacity_;
        const int64_t p = id / experts_, e = id % experts_;
        const int64_t line = e * rows + q * full + c + (splits_capacity_ ? mine * capacity_ : 0);
        const int64_t column = h + (splits_capacity_ ? 0 : mine * width_);
        double sum = has_bias_ ? b[RankAt(p, mine)][At(e * width_ + h)] : 0;
        double magnitude = std::abs(sum);
        for (int64_t t = 0; t < tp_; ++t) {
          for (int64_t m = 0; m < other_; ++m) {
            const double term = static_cast<double>(x[RankAt(p, t)][At(line * other_ + m)]) *
                                w[RankAt(p, t)][At((e * other_ + m) * hidden + column)];
            sum += term, magnitude += std::abs(term);
          }
        }
        expected.push_back(sum), magnitudes.push_back(OnceRounded(dtype_, sum, magnitude));
      }
      ASSERT_TRUE(Near(ACL_FLOAT, ys[At(rank)].ReadFloats(), expected, magnitudes));
    }
  }
}

TEST_F(BatchProductTest, ErrorsHaveCannsCodes) {
  ASSERT_NO_FATAL_FAILURE(MakeGrid(2, 2));
  const DeviceTensor x(ACL_BF16, {4, 3, 2}), w(ACL_BF16, {2, 4, 5}), y(ACL_BF16, {2, 6, 5});
  const DeviceTensor half(ACL_FLOAT16, {4, 3, 2}), floats(ACL_FLOAT, {4, 3, 2}),
      flat(ACL_BF16, {4});
  const DeviceTensor empty(ACL_BF16, {4, 0, 2}), bias(ACL_FLOAT, {2, 1, 5}),
      half_bias(ACL_FLOAT16, {2, 5});
  struct Case {
    const aclTensor *x, *bias = nullptr;
    aclTensor *y = nullptr, *sums = nullptr;
    int64_t ep = 2, shard = 0, act = 0;
    const char *ep_name = nullptr, *tp_name = nullptr;
  };
  const auto code = [&](Case c) {
    return Check([&](auto* size, auto** executor) {
      return aclnnAlltoAllAllGatherBatchMatMulGetWorkspaceSize(
          c.x, w, c.bias, c.ep_name == nullptr ? ep_names_[0].c_str() : c.ep_name,
          c.tp_name == nullptr ? tp_names_[0].c_str() : c.tp_name, c.ep, 2, c.shard, c.act,
          c.y == nullptr ? y.get() : c.y, nullptr, c.sums, size, executor);
    });
  };
  EXPECT_EQ(code({x}), 0) << LastError();
  EXPECT_EQ(code({x, bias, nullptr, y.get(), 2, 0, 1}), 0) << LastError();
  EXPECT_EQ(code({nullptr}), 161001);
  EXPECT_EQ(code({.x = x, .ep_name = ""}), 161001);
  EXPECT_EQ(code({.x = x, .tp_name = ""}), 161001);
  EXPECT_EQ(code({half}), 161002);
  EXPECT_EQ(code({floats}), 161002);
  EXPECT_EQ(code({flat}), 161002);
  EXPECT_EQ(code({empty}), 161002);
  EXPECT_EQ(code({x, half_bias}), 161002) << "bias f16 for bf16";
  EXPECT_EQ(code({x, floats}), 161002) << "dims of bias";
  EXPECT_EQ(code({.x = x, .y = x.get()}), 161002);
  EXPECT_EQ(code({.x = x, .sums = y.get()}), 161002) << "y3 without an activation";
  EXPECT_EQ(code({.x = x, .ep = 4}), 161002);
  EXPECT_EQ(code({.x = x, .shard = 1}), 161002) << "H is 4";
  EXPECT_EQ(code({.x = x, .shard = 2}), 161002);
  EXPECT_EQ(code({.x = x, .act = 5}), 161002);
  EXPECT_EQ(code({.x = x, .ep_name = tp_names_[0].c_str()}), 161002) << "one group twice";
  EXPECT_EQ(code({.x = x, .ep_name = ep_names_[1].c_str()}), 161002) << "another rank's group";
  EXPECT_EQ(code({.x = x, .tp_name = "nobody"}), 161002);
  const auto back = [&](const aclTensor* rows, aclTensor* out) {
    return Check([&](auto* size, auto** executor) {
      return aclnnBatchMatMulReduceScatterAlltoAllGetWorkspaceSize(
          rows, w, nullptr, ep_names_[0].c_str(), tp_names_[0].c_str(), 2, 2, 1, out, size,
          executor);
    });
  };
  const DeviceTensor rows(ACL_BF16, {2, 12, 4}), out(ACL_BF16, {4, 3, 5});
  EXPECT_EQ(back(rows, out), 0) << LastError();
  EXPECT_EQ(back(rows, nullptr), 161001);
  EXPECT_EQ(back(x, out), 161002);
  EXPECT_EQ(back(rows, x), 161002);
}

TEST_F(BatchProductTest, RanksThatDisagreeAreAnError) {
  ASSERT_NO_FATAL_FAILURE(MakeGrid(2, 1));
  const DeviceTensor w(ACL_BF16, {1, 2, 3});
  const DeviceTensor xs[] = {{ACL_BF16, {2, 1, 2}}, {ACL_BF16, {2, 2, 2}}};
  const DeviceTensor ys[] = {{ACL_BF16, {1, 2, 3}}, {ACL_BF16, {1, 4, 3}}};
  for (const size_t rank : {0, 1}) {
    ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), 0);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnAlltoAllAllGatherBatchMatMulGetWorkspaceSize(
                  xs[rank], w, nullptr, ep_names_[0].c_str(), tp_names_[rank].c_str(), 2, 1, 1, 0,
                  ys[rank], nullptr, nullptr, &size, &executor),
              0)
        << LastError();
    ASSERT_EQ(aclnnAlltoAllAllGatherBatchMatMul(nullptr, size, executor, streams_[rank]), 0);
  }
  for (const aclrtStream stream : streams_) {
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), 507015);
    EXPECT_THAT(LastError(), testing::HasSubstr("all ranks must have tensors of the same dims"));
  }
  ASSERT_EQ(aclrtSetDevice(0), 0);
}

}  // namespace
}  // namespace opst::cann
