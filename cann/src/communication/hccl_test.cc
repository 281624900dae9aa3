// Collective calls over ranks of this process, driven from one thread.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "hccl/hccl.h"

#include "cann/testing/device.h"
#include "cann/testing/ranks.h"

namespace opst::cann {
namespace {

class HcclTest : public RankTest {};

TEST_F(HcclTest, ReductionsGathersAndBroadcastsOfEverySize) {
  for (int32_t ranks = 1; ranks <= 8; ++ranks) {
    MakeRanks(ranks);
    std::vector<DeviceTensor> inputs, sums, gathered, parts, maxima;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      std::vector<float> values;
      for (int32_t i = 0; i < 2 * ranks; ++i) values.push_back(static_cast<float>(rank * 100 + i));
      inputs.push_back(DeviceTensor::Floats(ACL_FLOAT, {2 * ranks}, values));
      sums.emplace_back(ACL_FLOAT, std::vector<int64_t>{2 * ranks});
      maxima.emplace_back(ACL_FLOAT, std::vector<int64_t>{2 * ranks});
      parts.emplace_back(ACL_FLOAT, std::vector<int64_t>{2});
      gathered.emplace_back(ACL_FLOAT, std::vector<int64_t>{2 * ranks * ranks});
    }
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      void* const in = inputs[at].address();
      const auto count = static_cast<uint64_t>(2 * ranks);
      ASSERT_EQ(HcclAllReduce(in, sums[at].address(), count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                              comms_[at], streams_[at]),
                HCCL_SUCCESS);
      ASSERT_EQ(HcclAllReduce(in, maxima[at].address(), count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX,
                              comms_[at], streams_[at]),
                HCCL_SUCCESS);
      ASSERT_EQ(HcclReduceScatter(in, parts[at].address(), 2, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                                  comms_[at], streams_[at]),
                HCCL_SUCCESS);
      ASSERT_EQ(HcclAllGather(in, gathered[at].address(), count, HCCL_DATA_TYPE_FP32, comms_[at],
                              streams_[at]),
                HCCL_SUCCESS);
      ASSERT_EQ(HcclBroadcast(in, count, HCCL_DATA_TYPE_FP32, 0, comms_[at], streams_[at]),
                HCCL_SUCCESS);
    }
    Wait();
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank);
      for (int32_t i = 0; i < 2 * ranks; ++i) {
        const auto index = static_cast<size_t>(i);
        const int32_t sum = 50 * ranks * (ranks - 1) + ranks * i;
        ASSERT_EQ(sums[at].ReadFloats()[index], static_cast<float>(sum));
        ASSERT_EQ(maxima[at].ReadFloats()[index], static_cast<float>((ranks - 1) * 100 + i));
        ASSERT_EQ(inputs[at].ReadFloats()[index], static_cast<float>(i)) << "from rank 0";
      }
      const auto mine = sums[at].ReadFloats();
      ASSERT_EQ(parts[at].ReadFloats(),
                std::vector<float>(mine.begin() + 2 * rank, mine.begin() + 2 * rank + 2));
      const auto all = gathered[at].ReadFloats();
      for (int32_t from = 0; from < ranks; ++from) {
        ASSERT_EQ(all[static_cast<size_t>(from * 2 * ranks)], static_cast<float>(from * 100));
      }
    }
  }
}

TEST_F(HcclTest, AllToAllSendsEveryPartToItsRank) {
  const int32_t ranks = 4;
  MakeRanks(ranks);
  std::vector<DeviceTensor> inputs, outputs;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back(DeviceTensor::Ints(ACL_INT32, {4},
                                        {rank * 10, rank * 10 + 1, rank * 10 + 2, rank * 10 + 3}));
    outputs.emplace_back(ACL_INT32, std::vector<int64_t>{4});
  }
  for (size_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(HcclAlltoAll(inputs[rank].address(), 1, HCCL_DATA_TYPE_INT32, outputs[rank].address(),
                           1, HCCL_DATA_TYPE_INT32, comms_[rank], streams_[rank]),
              HCCL_SUCCESS);
  }
  Wait();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(outputs[static_cast<size_t>(rank)].ReadInts(),
              (std::vector<int64_t>{rank, 10 + rank, 20 + rank, 30 + rank}));
  }
}

TEST_F(HcclTest, RanksFindEachOtherByRootInfo) {
  HcclRootInfo root;
  ASSERT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  HcclComm comms[3] = {};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(HcclCommInitRootInfo(3, &root, rank, &comms[rank]), HCCL_SUCCESS);
    uint32_t got = 9, size = 9;
    EXPECT_EQ(HcclGetRankId(comms[rank], &got), HCCL_SUCCESS);
    EXPECT_EQ(HcclGetRankSize(comms[rank], &size), HCCL_SUCCESS);
    EXPECT_EQ(got, rank);
    EXPECT_EQ(size, 3u);
  }
  char first[128] = {}, second[128] = {};
  EXPECT_EQ(HcclGetCommName(comms[0], first), HCCL_SUCCESS);
  EXPECT_EQ(HcclGetCommName(comms[1], second), HCCL_SUCCESS);
  EXPECT_STREQ(first, second);
  for (const HcclComm comm : comms) EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  EXPECT_EQ(HcclCommDestroy(comms[0]), HCCL_E_PARA);
}

TEST_F(HcclTest, WrongArgumentsAreRefused) {
  MakeRanks(2);
  const DeviceTensor buffer(ACL_FLOAT, {2});
  int32_t devices[] = {0};
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclCommInitAll(0, devices, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitAll(1, nullptr, &comm), HCCL_E_PTR);
  EXPECT_EQ(HcclAllReduce(buffer.address(), buffer.address(), 3, HCCL_DATA_TYPE_FP32,
                          HCCL_REDUCE_SUM, comms_[0], streams_[0]),
            HCCL_E_PARA)
      << "more than the memory has";
  EXPECT_EQ(HcclBroadcast(buffer.address(), 1, HCCL_DATA_TYPE_FP32, 2, comms_[0], streams_[0]),
            HCCL_E_PARA);
  EXPECT_STREQ(HcclGetErrorString(HCCL_E_PARA), "invalid parameter");
}

}  // namespace
}  // namespace opst::cann
