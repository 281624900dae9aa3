// Barriers as operators: no rank goes on before all have come, limits of time end the wait, and the
// error codes.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "aclnnop/aclnn_distribute_barrier_v2.h"
#include "cann/testing/ranks.h"

namespace opst::cann {
namespace {

class BarrierTest : public RankTest {
 protected:
  // Microseconds; 0 = as long as HCCL waits, and no tensor.
  Prepare Barrier(const aclTensor* x, const aclTensor* limit) {
    return [=, this](uint64_t* size, aclOpExecutor** executor) {
      return aclnnDistributeBarrierV2GetWorkspaceSize(
          x, limit, nullptr, group_.c_str(), static_cast<int64_t>(comms_.size()), size, executor);
    };
  }
  DeviceTensor Limit(int64_t microseconds) {
    return DeviceTensor::Ints(ACL_INT32, {1}, {microseconds});
  }
};

TEST_F(BarrierTest, NoRankGoesOnBeforeAllHaveCome) {
  const DeviceTensor x(ACL_BF16, {2, 3});
  for (const int32_t ranks : {1, 2, 5}) {
    MakeRanks(ranks);
    const DeviceTensor none = Limit(0), minute = Limit(60000000);
    for (int round = 0; round < 20; ++round) {
      for (size_t rank = 1; rank < streams_.size(); ++rank) {
        const aclTensor* const limits[] = {nullptr, none, minute};
        Queue(rank, Barrier(x, limits[rank % 3]), aclnnDistributeBarrierV2);
      }
      if (ranks > 1) {  // the first has not come
        EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(streams_[1], 2), 507046);
      }
      Queue(0, Barrier(x, nullptr), aclnnDistributeBarrierV2);
      Wait();
    }
    EXPECT_TRUE(x.is_untouched());
  }
}

TEST_F(BarrierTest, TheWaitEndsAtItsLimitAndLateRanksPass) {
  const DeviceTensor x(ACL_BF16, {2, 3});
  MakeRanks(2);
  const DeviceTensor limit = Limit(20000), negative = Limit(-1);
  const auto start = std::chrono::steady_clock::now();
  Queue(1, Barrier(x, limit), aclnnDistributeBarrierV2);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(streams_[1], 60000), 507015);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_THAT(LastError(), testing::HasSubstr("all ranks must come to the barrier; got 1 of 2"));
  Queue(0, Barrier(x, limit), aclnnDistributeBarrierV2);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(streams_[0], 60000), 0) << LastError();
  for (const size_t rank : {0, 1}) Queue(rank, Barrier(x, nullptr), aclnnDistributeBarrierV2);
  Wait();
  Queue(0, Barrier(x, negative), aclnnDistributeBarrierV2);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(streams_[0], 60000), 507015);
}

TEST_F(BarrierTest, ErrorsHaveCannsCodes) {
  const DeviceTensor x(ACL_BF16, {2, 3});
  MakeRanks(2);
  const DeviceTensor limit = Limit(5), two(ACL_INT32, {2}), wide(ACL_INT64, {1});
  EXPECT_EQ(Check(Barrier(x, limit)), 0) << LastError();
  EXPECT_EQ(Check(Barrier(nullptr, limit)), 161001);
  EXPECT_EQ(Check(Barrier(x, wide)), 161002);
  EXPECT_EQ(Check(Barrier(x, two)), 561002);
  const auto code = [&](const aclTensor* elastic, const char* group, int64_t world) {
    return Check([&](auto* size, auto** executor) {
      return aclnnDistributeBarrierV2GetWorkspaceSize(x, nullptr, elastic, group, world, size,
                                                      executor);
    });
  };
  EXPECT_EQ(code(nullptr, nullptr, 2), 161001);
  EXPECT_EQ(code(nullptr, "", 2), 161001);
  EXPECT_EQ(code(nullptr, "nobody", 2), 561002);
  EXPECT_EQ(code(nullptr, group_.c_str(), 3), 561002);
  EXPECT_EQ(code(two, group_.c_str(), 2), 561002);
}

}  // namespace
}  // namespace opst::cann
