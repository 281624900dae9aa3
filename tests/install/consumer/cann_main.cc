// A program for CANN that counts expert rows; it sees the installed cann/include and libopst_cann
// only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <acl/acl.h>
#include <aclnnop/aclnn_moe_compute_expert_tokens.h>

#include <cstdio>

int main() {
  const int32_t ids[] = {0, 0, 2, 2, 2};
  int32_t sums[] = {0, 0, 0};
  const int64_t num_ids = 5, num_sums = 3;
  void *ids_memory = nullptr, *sums_memory = nullptr;
  aclrtStream stream = nullptr;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  if (aclInit(nullptr) != 0 || aclrtSetDevice(0) != 0 || aclrtCreateStream(&stream) != 0) return 1;
  aclrtMalloc(&ids_memory, sizeof(ids), ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMalloc(&sums_memory, sizeof(sums), ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtMemcpy(ids_memory, sizeof(ids), ids, sizeof(ids), ACL_MEMCPY_HOST_TO_DEVICE);
  const aclTensor* in =
      aclCreateTensor(&num_ids, 1, ACL_INT32, nullptr, 0, ACL_FORMAT_ND, &num_ids, 1, ids_memory);
  const aclTensor* out = aclCreateTensor(&num_sums, 1, ACL_INT32, nullptr, 0, ACL_FORMAT_ND,
                                         &num_sums, 1, sums_memory);
  if (aclnnMoeComputeExpertTokensGetWorkspaceSize(in, 3, out, &size, &executor) != 0) return 1;
  if (aclnnMoeComputeExpertTokens(nullptr, size, executor, stream) != 0) return 1;
  if (aclrtSynchronizeStream(stream) != 0) return 1;
  aclrtMemcpy(sums, sizeof(sums), sums_memory, sizeof(sums), ACL_MEMCPY_DEVICE_TO_HOST);
  std::printf("running counts: %d %d %d\n", sums[0], sums[1], sums[2]);
  return sums[0] == 2 && sums[1] == 2 && sums[2] == 5 ? aclFinalize() : 1;
}
