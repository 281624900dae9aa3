// Groups that ranks have left: dispatch, combine and barriers among those that stay equal the same
// in a group that never had more; marks tell who was reached; the error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "aclnnop/aclnn_distribute_barrier_v2.h"
#include "aclnnop/aclnn_elastic_receivable_info_collect.h"
#include "aclnnop/aclnn_elastic_receivable_test.h"
#include "aclnnop/aclnn_moe_distribute_buffer_reset.h"
#include "aclnnop/aclnn_moe_distribute_combine_v3.h"
#include "aclnnop/aclnn_moe_distribute_dispatch_v3.h"
#include "cann/testing/ranks.h"
#include "cann/testing/routing_case.h"

namespace opst::cann {
namespace {

// Ranks of a group, and those that stay: the shared ones stand first in both.
struct Members {
  int64_t ranks = 0, shared = 0, left_shared = 0;
  Ints stay;
};

class ElasticTest : public RankTest {
 protected:
  Members NewMembers() {
    Members members;
    members.shared = Integer(0, 2);
    const int64_t others = Integer(1, 3);
    members.ranks = members.shared + others;
    const int64_t sure_shared = Integer(0, 1), sure = members.shared + Integer(0, others - 1);
    for (int64_t rank = 0; rank < members.ranks; ++rank) {
      const bool is_shared = rank < members.shared;
      const bool is_sure = is_shared ? rank == sure_shared % members.shared : rank == sure;
      if (!is_sure && Coin()) continue;
      members.stay.push_back(rank);
      members.left_shared += is_shared ? 1 : 0;
    }
    return members;
  }
  static Ints Info(const Members& members, int64_t experts) {
    const auto left = static_cast<int64_t>(members.stay.size());
    Ints info = {1, left, members.left_shared, experts * (left - members.left_shared)};
    info.resize(At(4 + 2 * members.ranks), -1);
    for (int64_t i = 0; i < left; ++i) {
      info[At(4 + members.stay[At(i)])] = i;
      info[At(4 + members.ranks + i)] = members.stay[At(i)];
    }
    return info;
  }
  Prepare Barrier(const aclTensor* x, const aclTensor* info) {
    return [=, this](uint64_t* size, aclOpExecutor** executor) {
      return aclnnDistributeBarrierV2GetWorkspaceSize(
          x, nullptr, info, group_.c_str(), static_cast<int64_t>(comms_.size()), size, executor);
    };
  }
};

// What a rank puts in, and what it gets.
struct Traffic {
  std::vector<float> x, scales;
  Ints ids;
  Ints counts, nums;
  std::vector<float> rows, out;
};

class ElasticTrafficTest : public ElasticTest {
 protected:
  // Dispatch and combine among the ranks; `old_ranks` are their numbers in the group of `size`.
  void RunRanks(std::vector<Traffic>& traffic, const Ints& old_ranks, int64_t size, int64_t shared,
                const aclTensor* info) {
    MakeRanks(static_cast<int32_t>(size));
    const int64_t capacity = size * tokens_ * k_, experts = experts_ * (size - shared);
    const int64_t shared_experts = shared > 0 ? 1 : 0;
    std::vector<DeviceTensor> x, ids, scales, rows, notes, nums, counts, tp, out;
    for (size_t i = 0; i < traffic.size(); ++i) {
      const int64_t groups = old_ranks[i] < shared ? 1 : experts_;
      x.push_back(DeviceTensor::Floats(ACL_BF16, {tokens_, width_}, traffic[i].x));
      ids.push_back(DeviceTensor::Ints(ACL_INT32, {tokens_, k_}, traffic[i].ids));
      scales.push_back(DeviceTensor::Floats(ACL_FLOAT, {tokens_, k_}, traffic[i].scales));
      rows.emplace_back(ACL_BF16, Ints{capacity, width_});
      notes.emplace_back(ACL_INT32, Ints{capacity * 128});
      nums.emplace_back(ACL_INT64, Ints{groups});
      counts.emplace_back(ACL_INT32, Ints{groups * size});
      tp.emplace_back(ACL_INT32, Ints{1});
      out.push_back(DeviceTensor::Floats(ACL_BF16, {tokens_, width_},
                                         std::vector<float>(At(tokens_ * width_), 9)));
    }
    const char* const group = group_.c_str();
    for (size_t i = 0; i < traffic.size(); ++i) {
      const int64_t rank = old_ranks[i];
      const auto dispatch = [&](uint64_t* bytes, aclOpExecutor** executor) {
        return aclnnMoeDistributeDispatchV3GetWorkspaceSize(
            x[i], ids[i], nullptr, nullptr, nullptr, info, group, size, rank, experts, "", 1, 0, 0,
            shared_experts, shared, 0, 0, 1, nullptr, 1, 1, 0, rows[i], nullptr, notes[i], nums[i],
            counts[i], tp[i], nullptr, bytes, executor);
      };
      const auto combine = [&](uint64_t* bytes, aclOpExecutor** executor) {
        return aclnnMoeDistributeCombineV3GetWorkspaceSize(
            rows[i], ids[i], notes[i], counts[i], scales[i], nullptr, nullptr, nullptr, nullptr,
            nullptr, nullptr, nullptr, info, x[i], nullptr, nullptr, nullptr, group, size, rank,
            experts, "", 1, 0, 0, shared_experts, shared, 0, 0, 0, 0, nullptr, 1, 1, 0, out[i],
            bytes, executor);
      };
      Queue(At(rank), dispatch, aclnnMoeDistributeDispatchV3);
      Queue(At(rank), combine, aclnnMoeDistributeCombineV3);
    }
    Wait();
    for (size_t i = 0; i < traffic.size(); ++i) {
      Traffic& t = traffic[i];
      t.counts = counts[i].ReadInts(), t.nums = nums[i].ReadInts();
      t.counts.resize(t.nums.size() * traffic.size());  // what is behind them stays as it was
      t.rows = rows[i].ReadFloats();
      t.rows.resize(At(t.counts.back() * width_));
      t.out = out[i].ReadFloats();
    }
  }

  int64_t experts_ = 0, tokens_ = 0, width_ = 0, k_ = 0;  // experts of a rank
};

TEST_F(ElasticTrafficTest, RanksThatStayWorkAsASmallerGroup) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    const Members members = NewMembers();
    experts_ = Integer(1, 3), tokens_ = Integer(1, 4), width_ = Integer(1, 5), k_ = Integer(1, 3);
    const auto left = static_cast<int64_t>(members.stay.size());
    const int64_t all = experts_ * (left - members.left_shared) + 2;  // a zero and a copy expert
    std::vector<Traffic> with_info(At(left)), alone;
    for (Traffic& t : with_info) {
      t.x = RandomFloats(At(tokens_ * width_)), t.scales = RandomFloats(At(tokens_ * k_), 0, 1);
      t.ids = RandomInts(At(tokens_ * k_), 0, all - 1);
    }
    alone = with_info;
    const Ints info = Info(members, experts_);
    const auto tensor =
        DeviceTensor::Ints(ACL_INT32, {static_cast<int64_t>(info.size())}, info, AnyLayout());
    ASSERT_NO_FATAL_FAILURE(
        RunRanks(with_info, members.stay, members.ranks, members.shared, tensor));
    Ints numbers(At(left));
    std::iota(numbers.begin(), numbers.end(), 0);
    ASSERT_NO_FATAL_FAILURE(RunRanks(alone, numbers, left, members.left_shared, nullptr));
    for (size_t i = 0; i < alone.size(); ++i) {
      ASSERT_EQ(with_info[i].counts, alone[i].counts);
      ASSERT_EQ(with_info[i].nums, alone[i].nums);
      ASSERT_EQ(with_info[i].rows, alone[i].rows);
      ASSERT_EQ(with_info[i].out, alone[i].out);
    }
  }
}

TEST_F(ElasticTrafficTest, TablesThatCannotBeAreAnError) {
  const Members members{3, 1, 1, {0, 2}};
  experts_ = 2, tokens_ = 1, width_ = 2, k_ = 1;
  MakeRanks(3);
  const DeviceTensor x(ACL_BF16, {1, 2}), rows(ACL_BF16, {3, 2}), notes(ACL_INT32, {384});
  const auto ids = DeviceTensor::Ints(ACL_INT32, {1, 1}, {0});
  const DeviceTensor nums(ACL_INT64, {2}), counts(ACL_INT32, {6}), tp(ACL_INT32, {1});
  const auto run = [&](int64_t rank, const Ints& info) {
    const auto tensor = DeviceTensor::Ints(ACL_INT32, {static_cast<int64_t>(info.size())}, info);
    return Execute(
        [&](auto* size, auto** executor) {
          return aclnnMoeDistributeDispatchV3GetWorkspaceSize(
              x, ids, nullptr, nullptr, nullptr, tensor, group_.c_str(), 3, rank, 4, "", 1, 0, 0, 1,
              1, 0, 0, 1, nullptr, 0, 0, 0, rows, nullptr, notes, nums, counts, tp, nullptr, size,
              executor);
        },
        aclnnMoeDistributeDispatchV3);
  };
  const Ints good = Info(members, experts_);
  const auto with = [&](size_t at, int64_t value) {
    Ints info = good;
    info[at] = value;
    return info;
  };
  EXPECT_EQ(run(2, Ints(9, 0)), 561002) << "4 + 2 · 3 numbers";
  EXPECT_EQ(run(2, with(0, 2)), 507015);
  EXPECT_EQ(run(2, with(1, 4)), 507015);
  EXPECT_EQ(run(2, with(2, 0)), 507015) << "no rank for the shared expert";
  EXPECT_EQ(run(2, with(2, 2)), 507015) << "none for the others";
  EXPECT_EQ(run(2, with(3, 1)), 507015) << "fewer experts of a rank";
  EXPECT_EQ(run(2, with(5, 1)), 507015) << "two ranks with one number";
  EXPECT_EQ(run(2, with(8, 1)), 507015) << "tables that disagree";
  EXPECT_EQ(run(1, good), 507015);
  EXPECT_THAT(LastError(), testing::HasSubstr("a rank that has left must not take part; got 1"));
}

TEST_F(ElasticTest, BarriersAreAmongThoseThatStay) {
  MakeRanks(4);
  const DeviceTensor x(ACL_BF16, {2});
  const Ints info = Info({4, 0, 0, {0, 3}}, 1);
  const auto tensor = DeviceTensor::Ints(ACL_INT32, {12}, info);
  const auto off = DeviceTensor::Ints(ACL_INT32, {12}, Ints(12, 0));
  for (int round = 0; round < 10; ++round) {
    for (const size_t rank : {0, 3}) Queue(rank, Barrier(x, tensor), aclnnDistributeBarrierV2);
    for (const size_t rank : {0, 3}) {
      ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(streams_[rank], 60000), 0) << LastError();
    }
    for (size_t rank = 0; rank < 4; ++rank) Queue(rank, Barrier(x, off), aclnnDistributeBarrierV2);
    Wait();
  }
  const DeviceTensor wrong(ACL_INT32, {11}), wide(ACL_INT64, {12});
  EXPECT_EQ(Check(Barrier(x, wrong)), 561002);
  EXPECT_EQ(Check(Barrier(x, wide)), 161002);
}

class MarksTest : public RankTest {
 protected:
  // Operators that find their rank by the context's device.
  void QueueOn(int64_t rank, const Prepare& prepare, Launch launch) {
    ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), 0);
    Queue(At(rank), prepare, launch);
    ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(streams_[At(rank)], 60000), 0) << LastError();
    ASSERT_EQ(aclrtSetDevice(0), 0);
  }
  int64_t Size() const { return static_cast<int64_t>(comms_.size()); }
  Prepare Test(const aclTensor* targets, int64_t count) {
    return [=, this](uint64_t* size, aclOpExecutor** executor) {
      return aclnnElasticReceivableTestGetWorkspaceSize(
          const_cast<aclTensor*>(targets), group_.c_str(), Size(), count, size, executor);
    };
  }
  Prepare Collect(aclTensor* y) {
    return [=, this](uint64_t* size, aclOpExecutor** executor) {
      return aclnnElasticReceivableInfoCollectGetWorkspaceSize(group_.c_str(), Size(), y, size,
                                                               executor);
    };
  }
  Prepare Reset(const aclTensor* reachable, int64_t syncs) {
    return [=, this](uint64_t* size, aclOpExecutor** executor) {
      return aclnnMoeDistributeBufferResetGetWorkspaceSize(reachable, group_.c_str(), Size(), syncs,
                                                           size, executor);
    };
  }
  Ints Collected(int64_t rank) {
    const DeviceTensor y(ACL_INT32, {Size(), Size()}, AnyLayout());
    QueueOn(rank, Collect(y), aclnnElasticReceivableInfoCollect);
    EXPECT_TRUE(y.gaps_are_untouched());
    return y.ReadInts();
  }
};

TEST_F(MarksTest, TellWhoWasReachedInEveryRound) {
  for (int repeat = 0; repeat < 30; ++repeat) {
    const int64_t count = Integer(1, 3), size = count * Integer(1, 2);  // ranks of a server
    ASSERT_NO_FATAL_FAILURE(MakeRanks(static_cast<int32_t>(size)));
    for (int round = 0; round < 4; ++round) {
      Ints table(At(size * size), 0);  // [reader, sender]
      for (int64_t rank = 0; rank < size; ++rank) {
        for (int64_t first = 0; first < size; first += count) {
          if (Coin()) continue;
          Ints targets(At(count));
          std::iota(targets.begin(), targets.end(), first);
          const auto tensor = DeviceTensor::Ints(ACL_INT32, {count}, targets, AnyLayout());
          QueueOn(rank, Test(tensor, count), aclnnElasticReceivableTest);
          for (const int64_t at : targets) table[At(at * size + rank)] = rank + 1;
        }
      }
      for (int64_t rank = 0; rank < size; ++rank) {
        Ints expected = table;
        for (int64_t i = 0; i < size; ++i) {
          if (table[At(rank * size + i)] != 0) continue;
          std::fill_n(expected.begin() + i * size, size, 0);
        }
        ASSERT_EQ(Collected(rank), expected);
      }
    }
  }
}

TEST_F(MarksTest, AreForgottenByAReset) {
  MakeRanks(2);
  const auto both = DeviceTensor::Ints(ACL_INT32, {2}, {0, 1});
  const auto flags = DeviceTensor::Ints(ACL_INT32, {2}, {1, 1});
  const auto only_first = DeviceTensor::Ints(ACL_INT32, {2}, {1, 0});
  for (const int64_t rank : {0, 1}) QueueOn(rank, Test(both, 2), aclnnElasticReceivableTest);
  QueueOn(0, Reset(flags, 0), aclnnMoeDistributeBufferReset);
  EXPECT_EQ(Collected(0), (Ints{0, 0, 0, 0}));
  EXPECT_EQ(Collected(1), (Ints{0, 0, 1, 2}));
  QueueOn(0, Reset(only_first, 1), aclnnMoeDistributeBufferReset);  // waits for nobody else
  const auto not_itself = DeviceTensor::Ints(ACL_INT32, {2}, {0, 1});
  EXPECT_EQ(Execute(Reset(not_itself, 0), aclnnMoeDistributeBufferReset), 507015);
  EXPECT_EQ(Check(Reset(nullptr, 0)), 161001);
  EXPECT_EQ(Check(Reset(flags, 2)), 561002);
}

TEST_F(MarksTest, ErrorsHaveCannsCodes) {
  MakeRanks(2);
  const auto targets = DeviceTensor::Ints(ACL_INT32, {2}, {0, 1});
  const auto outside = DeviceTensor::Ints(ACL_INT32, {2}, {2, 3});
  const DeviceTensor wide(ACL_INT64, {2}), y(ACL_INT32, {2, 2}), flat(ACL_INT32, {4});
  EXPECT_EQ(Check(Test(targets, 2)), 0) << LastError();
  EXPECT_EQ(Check(Test(nullptr, 2)), 161001);
  EXPECT_EQ(Check(Test(wide, 2)), 161002);
  EXPECT_EQ(Check(Test(targets, 1)), 561002);
  EXPECT_EQ(Check(Test(targets, 3)), 561002);
  EXPECT_EQ(Execute(Test(outside, 2), aclnnElasticReceivableTest), 507015);
  EXPECT_EQ(Check(Collect(y)), 0) << LastError();
  EXPECT_EQ(Check(Collect(nullptr)), 161001);
  EXPECT_EQ(Check(Collect(wide)), 161002);
  EXPECT_EQ(Check(Collect(flat)), 561002);
  ASSERT_EQ(aclrtSetDevice(2), 0);
  EXPECT_EQ(Check(Collect(y)), 561002) << "a device without a rank";
  ASSERT_EQ(aclrtSetDevice(0), 0);
  group_.clear();
  EXPECT_EQ(Check(Collect(y)), 161001);
}

}  // namespace
}  // namespace opst::cann
