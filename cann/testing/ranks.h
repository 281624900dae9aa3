// A fixture with several ranks: a communicator and a stream each, driven from the test's thread.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_TESTING_RANKS_H_
#define OPST_CANN_TESTING_RANKS_H_

#include <numeric>
#include <string>
#include <vector>

#include "cann/testing/device.h"
#include "hccl/hccl.h"

namespace opst::cann {

class RankTest : public DeviceTest {
 protected:
  void MakeRanks(int32_t count) {
    EndRanks();
    std::vector<int32_t> devices(static_cast<size_t>(count));
    std::iota(devices.begin(), devices.end(), 0);
    comms_.resize(devices.size());
    streams_.resize(devices.size());
    ASSERT_EQ(HcclCommInitAll(static_cast<uint32_t>(count), devices.data(), comms_.data()),
              HCCL_SUCCESS);
    for (aclrtStream& stream : streams_) ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    char name[128] = {};
    ASSERT_EQ(HcclGetCommName(comms_[0], name), HCCL_SUCCESS);
    group_ = name;
  }
  void EndRanks() {
    for (const aclrtStream stream : streams_) aclrtDestroyStream(stream);
    for (const HcclComm comm : comms_) HcclCommDestroy(comm);
    streams_.clear(), comms_.clear();
  }
  void TearDown() override {
    EndRanks();
    DeviceTest::TearDown();
  }
  // Queues both phases on the stream of a rank.
  void Queue(size_t rank, const Prepare& prepare, Launch launch) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(prepare(&size, &executor), ACLNN_SUCCESS) << LastError();
    ASSERT_EQ(launch(nullptr, size, executor, streams_[rank]), ACLNN_SUCCESS) << LastError();
  }
  void Wait() {
    for (const aclrtStream stream : streams_) {
      ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), ACL_SUCCESS) << LastError();
    }
  }

  std::vector<HcclComm> comms_;
  std::vector<aclrtStream> streams_;
  std::string group_;
};

}  // namespace opst::cann

#endif  // OPST_CANN_TESTING_RANKS_H_
