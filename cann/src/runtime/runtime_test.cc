// The runtime: memory with bounds, streams in order, events, contexts, descriptors and executors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <thread>

#include "aclnnop/aclnn_moe_compute_expert_tokens.h"
#include "aclnnop/aclnn_moe_token_permute.h"
#include "cann/testing/device.h"
#include "hccl/hccl.h"

namespace opst::cann {
namespace {

class RuntimeTest : public DeviceTest {
 protected:
  void* Allocate(size_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    return address;
  }
};

TEST_F(RuntimeTest, CopiesThatLeaveDeviceMemoryAreErrors) {
  std::vector<char> host(100, 'x');
  char* const device = static_cast<char*>(Allocate(64));
  const auto copy = [&](void* to, size_t max, const void* from, size_t count,
                        aclrtMemcpyKind kind) { return aclrtMemcpy(to, max, from, count, kind); };
  EXPECT_EQ(copy(device, 64, host.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
  EXPECT_EQ(copy(device, 100, host.data(), 65, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
  EXPECT_THAT(LastError(), testing::HasSubstr("65 bytes where 64 are left of 64"));
  EXPECT_EQ(copy(device + 60, 100, host.data(), 5, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
  EXPECT_EQ(copy(device, 10, host.data(), 11, ACL_MEMCPY_HOST_TO_DEVICE), 107000) << "destMax";
  EXPECT_EQ(copy(host.data(), 100, device, 65, ACL_MEMCPY_DEVICE_TO_HOST), 107000);
  EXPECT_EQ(copy(host.data(), 100, device, 10, ACL_MEMCPY_HOST_TO_HOST), 107000) << "wrong kind";
  EXPECT_EQ(copy(host.data(), 100, host.data(), 10, ACL_MEMCPY_DEVICE_TO_HOST), 107000);
  EXPECT_EQ(copy(nullptr, 100, device, 10, ACL_MEMCPY_DEVICE_TO_HOST), 107000);
  EXPECT_EQ(aclrtMemset(device, 64, 7, 64), 0);
  EXPECT_EQ(aclrtMemset(device, 100, 7, 65), 107000);
  EXPECT_EQ(copy(host.data(), 100, device, 64, ACL_MEMCPY_DEFAULT), 0);
  EXPECT_EQ(host[63], 7);
  EXPECT_EQ(aclrtFree(device), 0);
}

TEST_F(RuntimeTest, MemoryIsFreedOnceAndByItsOwnKind) {
  void* const device = Allocate(8);
  void* pinned = nullptr;
  ASSERT_EQ(aclrtMallocHost(&pinned, 8), 0);
  EXPECT_EQ(aclrtFree(static_cast<char*>(device) + 1), 107000);
  EXPECT_EQ(aclrtFreeHost(device), 107000);
  EXPECT_EQ(aclrtFree(pinned), 107000);
  EXPECT_EQ(aclrtFree(device), 0);
  EXPECT_EQ(aclrtFree(device), 107000);
  EXPECT_THAT(LastError(), testing::HasSubstr("freed once"));
  EXPECT_EQ(aclrtFreeHost(pinned), 0);
  void* nothing = nullptr;
  EXPECT_EQ(aclrtMalloc(&nothing, 0, ACL_MEM_MALLOC_HUGE_FIRST), 107000);
  EXPECT_EQ(aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST), 107000);
}

TEST_F(RuntimeTest, ErrorTextsBelongToTheirThreadAndAreReadOnce) {
  EXPECT_EQ(aclrtFree(nullptr), 107000);
  std::thread([] { EXPECT_EQ(aclGetRecentErrMsg(), nullptr); }).join();
  EXPECT_THAT(LastError(), testing::StartsWith("E107000: [aclrtFree]"));
  EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(RuntimeTest, ThreadsNeedADeviceAndDevicesHaveNumbers) {
  std::thread([] {
    void* address = nullptr;
    EXPECT_EQ(aclrtMalloc(&address, 8, ACL_MEM_MALLOC_HUGE_FIRST), 107002);
    aclrtStream stream = nullptr;
    EXPECT_EQ(aclrtCreateStream(&stream), 107002);
    int32_t device = -1;
    EXPECT_EQ(aclrtGetDevice(&device), 107002);
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtCreateContext(&context, 3), 0);
    EXPECT_EQ(aclrtGetDevice(&device), 0);
    EXPECT_EQ(device, 3);
    EXPECT_EQ(aclrtDestroyContext(context), 0);
    EXPECT_EQ(aclrtSetCurrentContext(context), 107002);
  }).join();
  EXPECT_EQ(aclrtSetDevice(-1), 107001);
  EXPECT_EQ(aclrtSetDevice(1000), 107001);
  uint32_t count = 0;
  EXPECT_EQ(aclrtGetDeviceCount(&count), 0);
  EXPECT_EQ(count, 16u);
}

TEST_F(RuntimeTest, InitialisationHappensOnceUntilFinalize) {
  EXPECT_EQ(aclInit(nullptr), 0);
  EXPECT_EQ(aclInit(nullptr), 100002);
  EXPECT_EQ(aclFinalize(), 0);
  EXPECT_EQ(aclFinalize(), 100001);
  ASSERT_EQ(aclrtSetDevice(0), 0);
  ASSERT_EQ(aclrtCreateStream(&stream_), 0);  // finalize ended the fixture's
}

TEST_F(RuntimeTest, AStreamKeepsItsOrderAndEventsOrderStreams) {
  constexpr size_t kBytes = 1 << 20;
  char* const a = static_cast<char*>(Allocate(kBytes));
  char* const b = static_cast<char*>(Allocate(kBytes));
  aclrtStream other = nullptr;
  aclrtEvent written = nullptr, start = nullptr;
  ASSERT_EQ(aclrtCreateStream(&other), 0);
  ASSERT_EQ(aclrtCreateEvent(&written), 0);
  ASSERT_EQ(aclrtCreateEvent(&start), 0);
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(aclrtRecordEvent(start, stream_), 0);
    ASSERT_EQ(aclrtMemsetAsync(a, kBytes, round, kBytes, stream_), 0);
    ASSERT_EQ(aclrtRecordEvent(written, stream_), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(other, written), 0);
    ASSERT_EQ(aclrtMemcpyAsync(b, kBytes, a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, other), 0);
    ASSERT_EQ(aclrtSynchronizeStream(other), 0);
    char last = -1;
    ASSERT_EQ(aclrtMemcpy(&last, 1, b + kBytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    ASSERT_EQ(last, round);
  }
  float ms = -1;
  EXPECT_EQ(aclrtSynchronizeEvent(written), 0);
  EXPECT_EQ(aclrtEventElapsedTime(&ms, start, written), 0);
  EXPECT_GE(ms, 0);
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  EXPECT_EQ(aclrtQueryEventStatus(written, &status), 0);
  EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  EXPECT_EQ(aclrtDestroyEvent(written), 0);
  EXPECT_EQ(aclrtDestroyEvent(written), 107000);
  EXPECT_EQ(aclrtDestroyEvent(start), 0);
  EXPECT_EQ(aclrtDestroyStream(other), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other), 107000);
  EXPECT_EQ(aclrtFree(a), 0);
  EXPECT_EQ(aclrtFree(b), 0);
}

TEST_F(RuntimeTest, WaitingForAStreamEndsAfterItsTime) {
  // A barrier that the second rank enters late holds the stream for as long.
  int32_t devices[] = {0, 1};
  HcclComm comms[2] = {};
  ASSERT_EQ(HcclCommInitAll(2, devices, comms), HCCL_SUCCESS);
  aclrtStream other = nullptr;
  ASSERT_EQ(aclrtCreateStream(&other), 0);
  ASSERT_EQ(HcclBarrier(comms[0], stream_), HCCL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 20), 507046);
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  EXPECT_EQ(aclrtStreamQuery(stream_, &status), 0);
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  ASSERT_EQ(HcclBarrier(comms[1], other), HCCL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 60000), 0);
  EXPECT_EQ(aclrtSynchronizeStream(other), 0);
  for (const HcclComm comm : comms) EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(other), 0);
}

class ExecutorTest : public RuntimeTest {
 protected:
  aclnnStatus Prepare(const aclTensor* ids, const aclTensor* out) {
    uint64_t size = 0;
    return aclnnMoeComputeExpertTokensGetWorkspaceSize(ids, 3, out, &size, &executor_);
  }
  aclnnStatus Launch() { return aclnnMoeComputeExpertTokens(nullptr, 0, executor_, stream_); }

  aclOpExecutor* executor_ = nullptr;
};

TEST_F(ExecutorTest, IsUsedOnceUnlessRepeatable) {
  const auto ids = DeviceTensor::Ints(ACL_INT32, {4}, {0, 1, 1, 2});
  const DeviceTensor out(ACL_INT32, {3});
  ASSERT_EQ(Prepare(ids, out), 0);
  EXPECT_EQ(Launch(), 0);
  EXPECT_EQ(Launch(), 161002);
  EXPECT_THAT(LastError(), testing::HasSubstr("used once unless it is repeatable"));
  ASSERT_EQ(Prepare(ids, out), 0);
  ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor_), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Launch(), 0);
  const auto others = DeviceTensor::Ints(ACL_INT32, {4}, {2, 2, 2, 2});
  const DeviceTensor other_out(ACL_INT32, {3}), small(ACL_INT32, {2});
  EXPECT_EQ(aclSetInputTensorAddr(executor_, 0, ids, others.address()), 0);
  EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, out, other_out.address()), 0);
  EXPECT_EQ(aclSetTensorAddr(executor_, 1, out, small.address()), 161002) << "too little memory";
  EXPECT_EQ(aclSetInputTensorAddr(executor_, 1, ids, others.address()), 161002);
  EXPECT_EQ(Launch(), 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 0);
  EXPECT_EQ(aclDestroyAclOpExecutor(executor_), 161002);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(out.ReadInts(), (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(other_out.ReadInts(), (std::vector<int64_t>{0, 0, 4}));
}

TEST_F(ExecutorTest, BelongsToItsOperatorAndItsStreamMustBeLive) {
  const auto ids = DeviceTensor::Ints(ACL_INT32, {1}, {0});
  const DeviceTensor out(ACL_INT32, {3});
  ASSERT_EQ(Prepare(ids, out), 0);
  EXPECT_EQ(aclnnMoeTokenPermute(nullptr, 0, executor_, stream_), 161002);
  int not_a_stream = 0;
  EXPECT_EQ(aclnnMoeComputeExpertTokens(nullptr, 0, executor_, &not_a_stream), 361001);
  EXPECT_EQ(aclnnMoeComputeExpertTokens(nullptr, 0, nullptr, stream_), 161001);
  EXPECT_EQ(aclnnMoeComputeExpertTokens(nullptr, 0, executor_, nullptr), 0) << "default stream";
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);
  EXPECT_EQ(out.ReadInts(), (std::vector<int64_t>{1, 1, 1}));
}

TEST_F(ExecutorTest, KeepsMemoryThatIsFreedWhileItWaits) {
  auto ids = DeviceTensor::Ints(ACL_INT32, {2}, {0, 2});
  const DeviceTensor out(ACL_INT32, {3});
  ASSERT_EQ(Prepare(ids, out), 0);
  { const DeviceTensor gone = std::move(ids); }
  EXPECT_EQ(Launch(), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(out.ReadInts(), (std::vector<int64_t>{1, 1, 2}));
}

TEST_F(ExecutorTest, TensorsMustBeLiveAndLieInsideTheirMemory) {
  const DeviceTensor out(ACL_INT32, {3});
  void* const small = Allocate(4092);
  const int64_t dims[] = {1024}, strides[] = {1};
  const auto make = [&](int64_t count, int64_t stride, int64_t offset, void* data) {
    const int64_t d[] = {count}, s[] = {stride};
    return aclCreateTensor(d, 1, ACL_INT32, s, offset, ACL_FORMAT_ND, d, 1, data);
  };
  const auto code = [&](aclTensor* tensor) {
    const int result = Prepare(tensor, out);
    if (result == 0) aclDestroyAclOpExecutor(executor_);
    aclDestroyTensor(tensor);
    return result;
  };
  EXPECT_EQ(code(make(1023, 1, 0, small)), 0);
  EXPECT_EQ(code(make(512, 2, 0, small)), 0);
  EXPECT_EQ(code(make(1024, 1, 0, small)), 0) << "inputs may read to the end of the page";
  EXPECT_EQ(code(make(1025, 1, 0, small)), 161002);
  EXPECT_THAT(LastError(), testing::HasSubstr("must lie inside its allocation"));
  EXPECT_EQ(code(make(1023, 1, 2, small)), 161002);
  EXPECT_EQ(code(make(513, 2, 0, small)), 161002);
  int on_the_host[4] = {};
  EXPECT_EQ(code(make(4, 1, 0, on_the_host)), 161002);
  EXPECT_THAT(LastError(), testing::HasSubstr("live device memory"));
  void* const two_ids = Allocate(8);
  aclTensor* const short_out = make(3, 1, 0, two_ids);
  const auto ids = DeviceTensor::Ints(ACL_INT32, {1}, {0});
  EXPECT_EQ(Prepare(ids, short_out), 161002) << "outputs may not write there";
  EXPECT_EQ(aclDestroyTensor(short_out), 0);
  EXPECT_EQ(aclrtFree(two_ids), 0);
  aclTensor* const tensor = make(3, 1, 0, small);
  ASSERT_EQ(aclDestroyTensor(tensor), 0);
  EXPECT_EQ(Prepare(tensor, out), 161002);
  EXPECT_EQ(aclDestroyTensor(tensor), 161002) << "destroyed twice";
  EXPECT_EQ(aclCreateTensor(dims, 26, ACL_INT32, strides, 0, ACL_FORMAT_ND, dims, 1, small),
            nullptr);
  const int64_t negative[] = {-1};
  EXPECT_EQ(aclCreateTensor(negative, 1, ACL_INT32, strides, 0, ACL_FORMAT_ND, dims, 1, small),
            nullptr);
  EXPECT_THAT(LastError(), testing::HasSubstr("must not be negative"));
  EXPECT_EQ(aclrtFree(small), 0);
}

TEST_F(ExecutorTest, LaterTasksOfAFailedStreamAreDroppedUntilItIsAsked) {
  const auto bad = DeviceTensor::Ints(ACL_INT32, {2}, {2, 0});
  const auto good = DeviceTensor::Ints(ACL_INT32, {2}, {0, 0});
  const DeviceTensor out(ACL_INT32, {3}), dropped(ACL_INT32, {3});
  ASSERT_EQ(Prepare(bad, out), 0);
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(Prepare(good, dropped), 0);
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 507015);
  EXPECT_THAT(LastError(), testing::HasSubstr("sortedExperts must be ascending; got position 1"));
  EXPECT_TRUE(dropped.is_untouched());
  ASSERT_EQ(Prepare(good, dropped), 0);
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), 0);
}

TEST_F(ExecutorTest, DescriptorsGiveBackWhatTheyGot) {
  const int64_t dims[] = {2, 3}, strides[] = {8, 2}, storage[] = {20};
  void* const memory = Allocate(80);
  aclTensor* const tensor =
      aclCreateTensor(dims, 2, ACL_FLOAT, strides, 1, ACL_FORMAT_ND, storage, 1, memory);
  int64_t* values = nullptr;
  uint64_t count = 0;
  ASSERT_EQ(aclGetViewStrides(tensor, &values, &count), 0);
  EXPECT_EQ(std::vector<int64_t>(values, values + count), (std::vector<int64_t>{8, 2}));
  delete[] values;
  ASSERT_EQ(aclGetStorageShape(tensor, &values, &count), 0);
  EXPECT_EQ(std::vector<int64_t>(values, values + count), (std::vector<int64_t>{20}));
  delete[] values;
  int64_t offset = 0;
  EXPECT_EQ(aclGetViewOffset(tensor, &offset), 0);
  EXPECT_EQ(offset, 1);
  const aclTensor* const members[] = {tensor};
  aclTensorList* const list = aclCreateTensorList(members, 1);
  EXPECT_EQ(aclGetTensorListSize(list, &count), 0);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(aclDestroyTensorList(list), 0);
  EXPECT_EQ(aclDestroyTensor(tensor), 161002) << "the list took it";
  EXPECT_EQ(aclrtFree(memory), 0);
}

TEST_F(ExecutorTest, TheLogGoesToStandardOutputOnRequest) {
  setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1", 1);
  setenv("ASCEND_GLOBAL_LOG_LEVEL", "1", 1);
  ASSERT_EQ(aclInit(nullptr), 0);
  const auto ids = DeviceTensor::Ints(ACL_INT32, {1}, {0});
  const DeviceTensor out(ACL_INT32, {3});
  testing::internal::CaptureStdout();
  ASSERT_EQ(Prepare(ids, out), 0);
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(aclrtSynchronizeStream(stream_), 0);
  EXPECT_EQ(aclrtFree(nullptr), 107000);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_THAT(text, testing::HasSubstr("[INFO] OPST: aclnnMoeComputeExpertTokens ran"));
  EXPECT_THAT(text, testing::HasSubstr("[ERROR] OPST: E107000: [aclrtFree]"));
  unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  unsetenv("ASCEND_GLOBAL_LOG_LEVEL");
  ASSERT_EQ(aclFinalize(), 0);
  ASSERT_EQ(aclInit(nullptr), 0);
  ASSERT_EQ(aclrtSetDevice(0), 0);
  ASSERT_EQ(aclrtCreateStream(&stream_), 0);
}

}  // namespace
}  // namespace opst::cann
