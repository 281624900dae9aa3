// A fixture with expert parallel times tensor parallel ranks, each in a communicator of both kinds.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_TESTING_GRID_H_
#define OPST_CANN_TESTING_GRID_H_

#include <string>
#include <vector>

#include "cann/testing/device.h"
#include "cann/testing/routing_case.h"
#include "hccl/hccl.h"

namespace opst::cann {

// Rank (p, t) is number p · tp + t and stands on that device.
class GridTest : public DeviceTest {
 protected:
  void MakeGrid(int64_t ep, int64_t tp) {
    EndGrid();
    ep_ = ep, tp_ = tp;
    for (int64_t t = 0; t < tp; ++t) ep_names_.push_back(MakeGroup(ep, t, tp));
    for (int64_t p = 0; p < ep; ++p) tp_names_.push_back(MakeGroup(tp, p * tp, 1));
    streams_.resize(At(ep * tp));
    for (aclrtStream& stream : streams_) ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  }
  std::string MakeGroup(int64_t size, int64_t first, int64_t step) {
    std::vector<int32_t> devices;
    for (int64_t i = 0; i < size; ++i) devices.push_back(static_cast<int32_t>(first + i * step));
    std::vector<HcclComm> comms(devices.size());
    EXPECT_EQ(HcclCommInitAll(static_cast<uint32_t>(size), devices.data(), comms.data()), 0);
    char name[128] = {};
    EXPECT_EQ(HcclGetCommName(comms[0], name), HCCL_SUCCESS);
    comms_.insert(comms_.end(), comms.begin(), comms.end());
    return name;
  }
  void EndGrid() {
    for (const aclrtStream stream : streams_) aclrtDestroyStream(stream);
    for (const HcclComm comm : comms_) HcclCommDestroy(comm);
    streams_.clear(), comms_.clear(), ep_names_.clear(), tp_names_.clear();
  }
  void TearDown() override {
    EndGrid();
    DeviceTest::TearDown();
  }
  // Queues both phases of every rank and waits for all.
  template <typename Call>
  void RunAll(const Call& call, Launch launch) {
    for (int64_t rank = 0; rank < ep_ * tp_; ++rank) {
      ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), 0);
      uint64_t size = 0;
      aclOpExecutor* executor = nullptr;
      ASSERT_EQ(call(At(rank), ep_names_[At(rank % tp_)].c_str(), tp_names_[At(rank / tp_)].c_str(),
                     &size, &executor),
                0)
          << LastError();
      ASSERT_EQ(launch(nullptr, size, executor, streams_[At(rank)]), 0) << LastError();
    }
    for (const aclrtStream stream : streams_) {
      ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), 0) << LastError();
    }
    ASSERT_EQ(aclrtSetDevice(0), 0);
  }

  int64_t ep_ = 0, tp_ = 0;
  std::vector<std::string> ep_names_, tp_names_;
  std::vector<HcclComm> comms_;
  std::vector<aclrtStream> streams_;
};

}  // namespace opst::cann

#endif  // OPST_CANN_TESTING_GRID_H_
