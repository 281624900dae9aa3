// The MoE layer as the one operator "moe_v2", in the calls that articles about CANN print.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <acl/acl.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

// A named operand in device memory that is filled with `host`.
aclTensorDesc* Describe(const char* name, const std::vector<int64_t>& dims,
                        const std::vector<float>& host, void** address) {
  const size_t bytes = host.size() * sizeof(float);
  if (aclrtMalloc(address, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return nullptr;
  aclrtMemcpy(*address, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  aclTensorDesc* desc =
      aclCreateTensorDesc(ACL_FLOAT, static_cast<int>(dims.size()), dims.data(), ACL_FORMAT_ND);
  aclSetTensorDescName(desc, name);
  aclSetTensorDescData(desc, aclCreateDataBuffer(*address, bytes));
  return desc;
}

}  // namespace

int main() {
  constexpr int64_t kTokens = 2, kHidden = 2, kExperts = 2, kInner = 1;
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  // Token t goes to expert t; expert e has gate 1, up e + 1 and down 1 for its own feature.
  const std::vector<float> x = {1, 0, 0, 1}, router = {9, 0, 0, 9};
  const std::vector<float> gate_up = {1, 1, 1, 1, 1, 1, 2, 2}, down = {1, 0, 0, 1};
  void *memory = nullptr, *result_memory = nullptr;
  aclTensorDesc* const descs[] = {
      Describe("x", {kTokens, kHidden}, x, &memory),
      Describe("w_router", {kExperts, kHidden}, router, &memory),
      Describe("w_gate_up", {kExperts, 2 * kInner, kHidden}, gate_up, &memory),
      Describe("w_down", {kExperts, kHidden, kInner}, down, &memory),
      Describe("y", {kTokens, kHidden}, std::vector<float>(4), &result_memory)};

  aclopHandle* handle = aclopCreateHandle("moe_v2");
  for (aclTensorDesc* input_desc : descs) aclSetTensorDesc(input_desc);
  aclSetAttrInt(handle, "experts_num", kExperts);
  aclSetAttrInt(handle, "top_k", 1);
  if (aclopExecute(handle) != ACL_SUCCESS) {
    std::fprintf(stderr, "%s\n", aclGetRecentErrMsg());
    return 1;
  }
  aclopDestroyHandle(handle);

  std::vector<float> y(4);
  aclrtMemcpy(y.data(), y.size() * sizeof(float), result_memory, y.size() * sizeof(float),
              ACL_MEMCPY_DEVICE_TO_HOST);
  const float silu = 1 / (1 + std::exp(-1.0f));
  std::printf("y = %.4f %.4f %.4f %.4f\n", static_cast<double>(y[0]), static_cast<double>(y[1]),
              static_cast<double>(y[2]), static_cast<double>(y[3]));
  const bool is_right =
      std::abs(y[0] - silu) < 1e-5f && y[1] == 0 && y[2] == 0 && std::abs(y[3] - 2 * silu) < 1e-5f;
  return is_right ? aclFinalize() : 1;
}
