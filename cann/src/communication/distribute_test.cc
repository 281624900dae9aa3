// Dispatch and combine over ranks of this process against plain loops over all tokens, and the
// choice of replicas.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "aclnnop/aclnn_moe_distribute_combine.h"
#include "aclnnop/aclnn_moe_distribute_combine_add_rms_norm.h"
#include "aclnnop/aclnn_moe_distribute_combine_v3.h"
#include "aclnnop/aclnn_moe_distribute_dispatch.h"
#include "aclnnop/aclnn_moe_distribute_dispatch_v3.h"
#include "aclnnop/aclnn_moe_update_expert.h"
#include "cann/testing/ranks.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

// One rank's tensors.
struct RankTensors {
  DeviceTensor x, ids, scales, rows, row_scales, info, nums, counts, tp, expand_scales, out;
  std::vector<float> x_values, scale_values;
  Ints id_values;
  int64_t active;  // tokens
};

class DistributeTest : public RankTest {
 protected:
  void NewCase(bool is_first_version) {
    is_first_ = is_first_version;
    shared_ranks_ = Integer(0, 2);
    const int64_t moe_ranks = Integer(1, 3);
    ranks_ = shared_ranks_ + moe_ranks;
    shared_experts_ = shared_ranks_ == 0 ? 0 : is_first_ ? 1 : Coin() ? shared_ranks_ : 1;
    local_ = Integer(1, 3);
    experts_ = moe_ranks * local_;
    special_ = is_first_ ? 0 : Integer(0, 2);  // zero, copy and const experts each
    tokens_ = Integer(1, 5), width_ = Integer(1, 9);
    k_ = Integer(1, 3);
    MakeRanks(static_cast<int32_t>(ranks_));
    data_.clear();
    for (int64_t rank = 0; rank < ranks_; ++rank) data_.push_back(NewRank(rank));
  }
  RankTensors NewRank(int64_t rank) {
    const int64_t groups = rank < shared_ranks_ ? 1 : local_;
    const int64_t capacity = ranks_ * tokens_ * std::max<int64_t>(k_, 1);
    auto x = RandomFloats(At(tokens_ * width_)), scales = RandomFloats(At(tokens_ * k_), 0, 1);
    for (float& value : x) value = Rounded(ACL_BF16, value);
    const Ints ids = RandomInts(At(tokens_ * k_), 0, experts_ + 3 * special_ - 1);
    return {DeviceTensor::Floats(ACL_BF16, {tokens_, width_}, x, AnyLayout()),
            DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, ids, AnyLayout()),
            DeviceTensor::Floats(ACL_FLOAT, {tokens_, k_}, scales, AnyLayout()),
            DeviceTensor(quantizes_ ? ACL_INT8 : ACL_BF16, {capacity, width_}),
            DeviceTensor(ACL_FLOAT, {capacity}),
            DeviceTensor(ACL_INT32, {is_first_ ? tokens_ * k_ : capacity * 128}),
            DeviceTensor(ACL_INT64, {groups}),
            DeviceTensor(ACL_INT32, {groups * ranks_}),
            DeviceTensor(ACL_INT32, {1}),
            DeviceTensor(ACL_FLOAT, {capacity}),
            DeviceTensor::Floats(ACL_BF16, {tokens_, width_},
                                 std::vector<float>(At(tokens_ * width_), 9)),
            x,
            scales,
            ids,
            tokens_};
  }
  void Dispatch() {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      RankTensors& d = data_[At(rank)];
      const auto prepare = [&](auto* size, auto** executor) {
        const char* const group = group_.c_str();
        return is_first_
                   ? aclnnMoeDistributeDispatchGetWorkspaceSize(
                         d.x, d.ids, nullptr, nullptr, nullptr, group, ranks_, rank, experts_, "",
                         1, 0, 0, shared_experts_, shared_ranks_, quantizes_ ? 2 : 0, 0, 1, d.rows,
                         d.row_scales, d.info, d.nums, d.counts, d.tp, d.expand_scales, size,
                         executor)
                   : aclnnMoeDistributeDispatchV3GetWorkspaceSize(
                         d.x, d.ids, nullptr, nullptr, nullptr, nullptr, group, ranks_, rank,
                         experts_, "", 1, 0, 0, shared_experts_, shared_ranks_, quantizes_ ? 2 : 0,
                         0, 0, nullptr, special_, special_, special_, d.rows, d.row_scales, d.info,
                         d.nums, d.counts, d.tp, d.expand_scales, size, executor);
      };
      Queue(At(rank), prepare,
            is_first_ ? aclnnMoeDistributeDispatch : aclnnMoeDistributeDispatchV3);
    }
    Wait();
  }
  // (source rank, token, choice) of the rows of a rank, by the definition.
  std::vector<Ints> RowsOf(int64_t rank, Ints& counts) const {
    std::vector<Ints> rows;
    for (int64_t group = 0; group < (rank < shared_ranks_ ? 1 : local_); ++group) {
      for (int64_t source = 0; source < ranks_; ++source) {
        for (int64_t token = 0; token < tokens_; ++token) {
          if (rank >= shared_ranks_) {
            for (int64_t j = 0; j < k_; ++j) {
              const int64_t id = data_[At(source)].id_values[At(token * k_ + j)];
              if (id == (rank - shared_ranks_) * local_ + group) rows.push_back({source, token, j});
            }
          } else if (is_first_) {
            const bool is_mine = token >= tokens_ * rank / shared_ranks_ &&
                                 token < tokens_ * (rank + 1) / shared_ranks_;
            if (is_mine) rows.push_back({source, token, k_});
          } else {
            const int64_t per_shared = shared_ranks_ / shared_experts_;
            if (source % per_shared == rank % per_shared) {
              rows.push_back({source, token, k_ + rank / per_shared});
            }
          }
        }
        counts.push_back(static_cast<int64_t>(rows.size()));
      }
    }
    return rows;
  }

  bool is_first_ = false, quantizes_ = false;
  int64_t comm_quant_ = 0;
  int64_t ranks_ = 0, shared_ranks_ = 0, shared_experts_ = 0, local_ = 0, experts_ = 0;
  int64_t special_ = 0, tokens_ = 0, width_ = 0, k_ = 0;
  std::vector<RankTensors> data_;
};

struct Constants {
  std::vector<float> alpha1, alpha2, v;
};

class DispatchAndCombineTest : public DistributeTest {
 protected:
  void CheckRows() {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const RankTensors& d = data_[At(rank)];
      Ints ends;
      const auto rows = RowsOf(rank, ends);
      ASSERT_EQ(d.counts.ReadInts(), ends);
      const auto got = d.rows.ReadFloats();
      const Ints info = d.info.ReadInts();
      for (size_t row = 0; row < rows.size(); ++row) {
        const auto& x = data_[At(rows[row][0])].x_values;
        for (int64_t h = 0; h < width_; ++h) {
          ASSERT_EQ(got[row * At(width_) + At(h)], x[At(rows[row][1] * width_ + h)]);
        }
        if (!is_first_) {
          ASSERT_EQ((Ints{info[row * 3], info[row * 3 + 1], info[row * 3 + 2]}), rows[row]);
        }
      }
      // The first version counts rows, here; the third sums them up.
      const Ints nums = d.nums.ReadInts();
      for (size_t group = 0; group < nums.size(); ++group) {
        const int64_t end = ends[(group + 1) * At(ranks_) - 1];
        const int64_t begin = group == 0 || !is_first_ ? 0 : ends[group * At(ranks_) - 1];
        ASSERT_EQ(nums[group], end - begin);
      }
    }
  }
  void Combine(const aclTensor* a1, const aclTensor* a2, const aclTensor* constants) {
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      RankTensors& d = data_[At(rank)];
      const char* const group = group_.c_str();
      const auto prepare = [&](auto* size, auto** executor) {
        return is_first_ ? aclnnMoeDistributeCombineGetWorkspaceSize(
                               d.rows, d.ids, d.info, d.counts, d.scales, nullptr, nullptr, nullptr,
                               nullptr, nullptr, nullptr, group, ranks_, rank, experts_, "", 1, 0,
                               0, shared_experts_, shared_ranks_, 0, 0, comm_quant_, 0, d.out, size,
                               executor)
                         : aclnnMoeDistributeCombineV3GetWorkspaceSize(
                               d.rows, d.ids, d.info, d.counts, d.scales, nullptr, nullptr, nullptr,
                               nullptr, nullptr, nullptr, nullptr, nullptr, d.x, a1, a2, constants,
                               group, ranks_, rank, experts_, "", 1, 0, 0, shared_experts_,
                               shared_ranks_, 0, 0, comm_quant_, 0, nullptr, special_, special_,
                               special_, d.out, size, executor);
      };
      Queue(At(rank), prepare, is_first_ ? aclnnMoeDistributeCombine : aclnnMoeDistributeCombineV3);
    }
    Wait();
  }
  // Rows travelled in int8: eight elements share a step, and halves of it are lost.
  int64_t CheckQuantisedSums() {
    int64_t num_off = 0;
    for (const RankTensors& d : data_) {
      const auto got = d.out.ReadFloats();
      for (int64_t at = 0; at < tokens_ * width_; ++at) {
        const int64_t token = at / width_, begin = at % width_ / 8 * 8;
        double largest = 0, weight = static_cast<double>(shared_experts_);
        for (int64_t h = begin; h < std::min(begin + 8, width_); ++h) {
          largest = std::max<double>(largest, std::abs(d.x_values[At(token * width_ + h)]));
        }
        for (int64_t j = 0; j < k_; ++j) weight += d.scale_values[At(token * k_ + j)];
        const double x = d.x_values[At(at)], step = largest / 127 * (1 + 0x1p-8);
        const double off = weight * (0.54 * step + std::abs(x) * 0x1p-8);  // each row rounded, too
        const double bound = off + (std::abs(weight * x) + off) * 0x1p-8 + 1e-6;
        EXPECT_NEAR(got[At(at)], weight * x, bound);
        num_off += std::abs(got[At(at)] - weight * x) > std::abs(weight * x) * 0x1p-7 ? 1 : 0;
      }
    }
    return num_off;
  }
  void CheckSums(const Constants& c) {
    for (const RankTensors& d : data_) {
      Doubles sums(At(tokens_ * width_), 0), magnitudes(At(tokens_ * width_), 0);
      for (int64_t at = 0; at < tokens_ * width_; ++at) {
        const int64_t token = at / width_, h = at % width_;
        const double x = d.x_values[At(at)];
        const auto add = [&](double term) {
          sums[At(at)] += term;
          magnitudes[At(at)] += std::abs(term);
        };
        for (int64_t j = 0; j < k_; ++j) {
          const double scale = d.scale_values[At(token * k_ + j)];
          const int64_t id = d.id_values[At(token * k_ + j)] - experts_;
          if (id < 0) add(scale * x);   // the experts return their rows
          if (id < special_) continue;  // and zero experts nothing
          if (id < 2 * special_) {
            add(scale * x);
          } else {
            const size_t n = At(id - 2 * special_);
            add(scale * (c.alpha1[n] * x));
            add(scale * (static_cast<double>(c.alpha2[n]) * c.v[n * At(width_) + At(h)]));
          }
        }
        for (int64_t s = 0; s < shared_experts_; ++s) add(x);
      }
      ASSERT_TRUE(Near(ACL_BF16, d.out.ReadFloats(), sums, magnitudes));
    }
  }
};

TEST_F(DispatchAndCombineTest, GiveTheWeightedSum) {
  for (int repeat = 0; repeat < 300; ++repeat) {
    NewCase(Coin());
    Dispatch();
    CheckRows();
    const Constants c{RandomFloats(At(special_)), RandomFloats(At(special_)),
                      RandomFloats(At(special_ * width_))};
    const auto a1 = DeviceTensor::Floats(ACL_FLOAT, {special_}, c.alpha1);
    const auto a2 = DeviceTensor::Floats(ACL_FLOAT, {special_}, c.alpha2);
    const auto constants = DeviceTensor::Floats(ACL_FLOAT, {special_, width_}, c.v);
    Combine(a1, a2, constants);
    CheckSums(c);
    ASSERT_FALSE(HasFatalFailure()) << "case " << repeat;
  }
}

TEST_F(DispatchAndCombineTest, RowsThatComeBackInInt8AreWithinAStep) {
  comm_quant_ = 2;
  int64_t num_off = 0;  // farther than bf16 alone would be
  for (int repeat = 0; repeat < 100; ++repeat) {
    do {
      NewCase(Coin());
    } while (special_ != 0);
    Dispatch();
    Combine(nullptr, nullptr, nullptr);
    num_off += CheckQuantisedSums();
    ASSERT_FALSE(HasFailure()) << "case " << repeat;
  }
  EXPECT_GT(num_off, 0);
}

TEST_F(DistributeTest, QuantisedRowsAreWithinAStep) {
  quantizes_ = true;
  for (int repeat = 0; repeat < 100; ++repeat) {
    NewCase(Coin());
    Dispatch();
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      Ints ends;
      const auto rows = RowsOf(rank, ends);
      const Ints got = data_[At(rank)].rows.ReadInts();
      const auto scales = data_[At(rank)].row_scales.ReadFloats();
      for (size_t row = 0; row < rows.size(); ++row) {
        const auto& x = data_[At(rows[row][0])].x_values;
        for (int64_t h = 0; h < width_; ++h) {
          const float value = x[At(rows[row][1] * width_ + h)];
          const float q = static_cast<float>(got[row * At(width_) + At(h)]);
          ASSERT_LE(std::abs(q * scales[row] - value), scales[row] * 0.501f);
        }
      }
    }
  }
}

TEST_F(DistributeTest, OneInvalidRankFailsOnAllInsteadOfHanging) {
  quantizes_ = false;
  MakeRanks(2);
  ranks_ = 2, shared_ranks_ = 0, shared_experts_ = 0, local_ = 1, experts_ = 2;
  special_ = 0, tokens_ = 2, width_ = 3, k_ = 1, is_first_ = true;
  data_.clear();
  for (int64_t rank = 0; rank < 2; ++rank) data_.push_back(NewRank(rank));
  data_[1].ids.~DeviceTensor();
  new (&data_[1].ids) DeviceTensor(DeviceTensor::Ints(ACL_INT32, {2, 1}, {0, 7}));
  for (int64_t rank = 0; rank < 2; ++rank) {
    RankTensors& d = data_[At(rank)];
    Queue(
        At(rank),
        [&](auto* size, auto** executor) {
          return aclnnMoeDistributeDispatchGetWorkspaceSize(
              d.x, d.ids, nullptr, nullptr, nullptr, group_.c_str(), 2, rank, 2, "", 1, 0, 0, 0, 0,
              0, 0, 1, d.rows, d.row_scales, d.info, d.nums, d.counts, d.tp, d.expand_scales, size,
              executor);
        },
        aclnnMoeDistributeDispatch);
  }
  for (const aclrtStream stream : streams_) {
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), 507015);
    EXPECT_THAT(LastError(), testing::HasSubstr("expertIds must be 0 to 1; got 7 at position 1"));
  }
}

TEST_F(DistributeTest, CombineWithNormRoundsTwice) {
  shared_ranks_ = 0;
  MakeRanks(1);
  ranks_ = 1, shared_experts_ = 0, local_ = 2, experts_ = 2, special_ = 0, tokens_ = 3;
  width_ = 5, k_ = 2, is_first_ = false;
  data_.clear();
  data_.push_back(NewRank(0));
  Dispatch();
  RankTensors& d = data_[0];
  std::vector<float> residual = RandomFloats(15), gamma = RandomFloats(5);
  for (auto* values : {&residual, &gamma}) {
    for (float& value : *values) value = Rounded(ACL_BF16, value);
  }
  const auto r = DeviceTensor::Floats(ACL_BF16, {3, 1, 5}, residual);
  const auto g = DeviceTensor::Floats(ACL_BF16, {5}, gamma);
  const DeviceTensor y(ACL_BF16, {3, 1, 5}), rstd(ACL_FLOAT, {3, 1, 1}), x(ACL_BF16, {3, 1, 5});
  Queue(
      0,
      [&](auto* size, auto** executor) {
        return aclnnMoeDistributeCombineAddRmsNormGetWorkspaceSize(
            d.rows, d.ids, d.info, d.counts, d.scales, r, g, nullptr, nullptr, nullptr, nullptr,
            nullptr, nullptr, nullptr, group_.c_str(), 1, 0, 2, "", 1, 0, 0, 0, 0, 0, 0, 0, 0,
            nullptr, 1e-6f, y, rstd, x, size, executor);
      },
      aclnnMoeDistributeCombineAddRmsNorm);
  Wait();
  for (size_t token = 0; token < 3; ++token) {
    double mean = 0;
    Doubles s;
    for (size_t h = 0; h < 5; ++h) {
      const double scale = static_cast<double>(d.scale_values[token * 2]) +
                           static_cast<double>(d.scale_values[token * 2 + 1]);
      s.push_back(scale * d.x_values[token * 5 + h] + residual[token * 5 + h]);
      mean += s.back() * s.back() / 5;
    }
    EXPECT_NEAR(rstd.ReadFloats()[token], 1 / std::sqrt(mean + 1e-6), 1e-5);
    for (size_t h = 0; h < 5; ++h) {
      EXPECT_NEAR(x.ReadFloats()[token * 5 + h], s[h], std::abs(s[h]) / 200 + 1e-5);
      const double expected = s[h] / std::sqrt(mean + 1e-6) * gamma[h];
      EXPECT_NEAR(y.ReadFloats()[token * 5 + h], expected, std::abs(expected) / 100 + 1e-5);
    }
  }
}

TEST_F(DistributeTest, ReplicasFollowTheRankOrTheToken) {
  const auto ids = DeviceTensor::Ints(ACL_INT32, {3, 2}, {0, 1, 0, 1, 0, 1});
  const auto table = DeviceTensor::Ints(ACL_INT32, {2, 4}, {1, 5, -1, -1, 3, 6, 7, 8});
  const auto scales = DeviceTensor::Floats(ACL_FLOAT, {3, 2}, {1, 3, 2, 2, 4, 0});
  const auto threshold = DeviceTensor::Floats(ACL_FLOAT, {2}, {0.25f, 0.5f});
  const auto active = DeviceTensor::Ints(ACL_BOOL, {3}, {1, 1, 0});
  const DeviceTensor out(ACL_INT32, {3, 2}), mask(ACL_BOOL, {3, 2});
  const auto execute = [&](int64_t rank, int64_t mode) {
    return Execute(
        [&](auto* size, auto** executor) {
          return aclnnMoeUpdateExpertGetWorkspaceSize(ids, table, scales, threshold, active, rank,
                                                      6, mode, out, mask, size, executor);
        },
        aclnnMoeUpdateExpert);
  };
  ASSERT_EQ(execute(3, 0), 0) << LastError();  // 6 ranks, 3 replicas: rank 3 has the second
  EXPECT_EQ(out.ReadInts(), (Ints{5, 7, 5, 7, 5, 7}));
  EXPECT_EQ(mask.ReadInts(), (Ints{1, 1, 1, 1, 0, 0}));
  ASSERT_EQ(execute(-1, 1), 0);
  EXPECT_EQ(out.ReadInts(), (Ints{5, 6, 5, 7, 5, 8}));
  EXPECT_EQ(execute(6, 0), 561002);
  EXPECT_EQ(execute(0, 2), 561002);
}

TEST_F(DistributeTest, ErrorsHaveCannsCodes) {
  MakeRanks(2);
  ranks_ = 2, shared_ranks_ = 0, local_ = 1, experts_ = 2, tokens_ = 2, width_ = 3, k_ = 1;
  is_first_ = true;
  const RankTensors d = NewRank(0);
  const auto code = [&](const aclTensor* x, const char* group, int64_t world, int64_t experts,
                        int64_t quant) {
    return Check([&](auto* size, auto** executor) {
      return aclnnMoeDistributeDispatchGetWorkspaceSize(
          x, d.ids, nullptr, nullptr, nullptr, group, world, 0, experts, "", 1, 0, 0, 0, 0, quant,
          0, 1, d.rows, d.row_scales, d.info, d.nums, d.counts, d.tp, d.expand_scales, size,
          executor);
    });
  };
  const std::string long_name(128, 'x');
  EXPECT_EQ(code(d.x, group_.c_str(), 2, 2, 0), 0) << LastError();
  EXPECT_EQ(code(nullptr, group_.c_str(), 2, 2, 0), 161001);
  EXPECT_EQ(code(d.x, nullptr, 2, 2, 0), 161001);
  EXPECT_EQ(code(d.x, "", 2, 2, 0), 161001);
  EXPECT_EQ(code(d.x, long_name.c_str(), 2, 2, 0), 161001);
  EXPECT_EQ(code(d.ids, group_.c_str(), 2, 2, 0), 161002);
  EXPECT_EQ(code(d.x, "nobody", 2, 2, 0), 561002);
  EXPECT_EQ(code(d.x, group_.c_str(), 3, 2, 0), 561002);
  EXPECT_EQ(code(d.x, group_.c_str(), 2, 3, 0), 561002) << "experts that the ranks do not divide";
  EXPECT_EQ(code(d.x, group_.c_str(), 2, 2, 1), 561002);
}

}  // namespace
}  // namespace opst::cann
