// One MoE layer from CANN's operators, as a program for an NPU calls them; it runs on this CPU. Not
// an example of speed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <acl/acl.h>
#include <aclnnop/aclnn_grouped_matmul_v5.h>
#include <aclnnop/aclnn_moe_finalize_routing_v2.h>
#include <aclnnop/aclnn_moe_gating_top_k_softmax_v2.h>
#include <aclnnop/aclnn_moe_init_routing_v2.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void Check(int code, const char* what) {
  if (code == ACL_SUCCESS) return;
  const char* text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d, %s\n", what, code, text == nullptr ? "" : text);
  std::exit(1);
}

// Device memory, which ends with the program, and its descriptor.
template <typename T>
aclTensor* OnDevice(aclDataType dtype, const std::vector<int64_t>& dims, const std::vector<T>& host,
                    void** address) {
  const size_t bytes = host.size() * sizeof(T);
  Check(aclrtMalloc(address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  Check(aclrtMemcpy(*address, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "copy");
  return aclCreateTensor(dims.data(), dims.size(), dtype, nullptr, 0, ACL_FORMAT_ND, dims.data(),
                         dims.size(), *address);
}

constexpr int64_t kTokens = 3, kHidden = 4, kExperts = 3, kChoices = 2, kRows = 6;

struct Layer {
  aclTensor *x, *weights, *logits, *scores, *ids, *rows, *index, *counts, *products, *out;
  void *counts_memory, *out_memory;
  aclrtStream stream;
};

// Gating and routing; returns the rows of each expert.
std::vector<int32_t> Route(const Layer& layer) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  Check(aclnnMoeGatingTopKSoftmaxV2GetWorkspaceSize(layer.logits, nullptr, kChoices, 1, false,
                                                    layer.scores, layer.ids, nullptr, &size,
                                                    &executor),
        "gating");
  Check(aclnnMoeGatingTopKSoftmaxV2(nullptr, size, executor, layer.stream), "gating");
  Check(aclnnMoeInitRoutingV2GetWorkspaceSize(layer.x, layer.ids, 0, 0, kExperts, 0, 2, false,
                                              layer.rows, layer.index, layer.counts, nullptr, &size,
                                              &executor),
        "routing");
  Check(aclnnMoeInitRoutingV2(nullptr, size, executor, layer.stream), "routing");
  Check(aclrtSynchronizeStream(layer.stream), "wait");
  std::vector<int32_t> counts(kExperts);
  const size_t bytes = counts.size() * sizeof(int32_t);
  Check(aclrtMemcpy(counts.data(), bytes, layer.counts_memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST),
        "copy");
  return counts;
}

// The experts' products, and their weighted sum for each token.
std::vector<float> RunExperts(const Layer& layer, const std::vector<int32_t>& counts) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  void* memory = nullptr;
  const std::vector<int64_t> list(counts.begin(), counts.end());
  const aclTensor* groups = OnDevice(ACL_INT64, {kExperts}, list, &memory);
  Check(
      aclnnGroupedMatmulV5GetWorkspaceSize(
          aclCreateTensorList(&layer.rows, 1), aclCreateTensorList(&layer.weights, 1), nullptr,
          nullptr, nullptr, nullptr, nullptr, nullptr, groups, nullptr, nullptr, nullptr, 3, 0, 1,
          0, nullptr, aclCreateTensorList(&layer.products, 1), nullptr, nullptr, &size, &executor),
      "product");
  Check(aclnnGroupedMatmulV5(nullptr, size, executor, layer.stream), "product");
  Check(aclnnMoeFinalizeRoutingV2GetWorkspaceSize(layer.products, layer.index, nullptr, nullptr,
                                                  nullptr, layer.scores, nullptr, 2, layer.out,
                                                  &size, &executor),
        "finalize");
  Check(aclnnMoeFinalizeRoutingV2(nullptr, size, executor, layer.stream), "finalize");
  Check(aclrtSynchronizeStream(layer.stream), "wait");
  std::vector<float> result(kTokens * kHidden);
  const size_t bytes = result.size() * sizeof(float);
  Check(aclrtMemcpy(result.data(), bytes, layer.out_memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST),
        "copy");
  return result;
}

}  // namespace

int main() {
  Layer layer{};
  Check(aclInit(nullptr), "aclInit");
  Check(aclrtSetDevice(0), "aclrtSetDevice");
  Check(aclrtCreateStream(&layer.stream), "aclrtCreateStream");

  // Expert e multiplies by e + 1, so that the result is known: x times the mean factor.
  std::vector<float> x, w(kExperts * kHidden * kHidden, 0.0f);
  for (int64_t i = 0; i < kTokens * kHidden; ++i) x.push_back(static_cast<float>(i));
  for (int64_t i = 0; i < kExperts * kHidden; ++i) {
    w[static_cast<size_t>(i * kHidden + i % kHidden)] = static_cast<float>(i / kHidden + 1);
  }
  const std::vector<float> logits = {3, 2, 1, 1, 3, 2, 2, 1, 3}, rows(kRows * kHidden);
  const std::vector<float> scores(kTokens * kChoices), out(x.size());
  const std::vector<int32_t> ints(kRows), counts(kExperts);
  void* memory = nullptr;
  layer.x = OnDevice(ACL_FLOAT, {kTokens, kHidden}, x, &memory);
  layer.weights = OnDevice(ACL_FLOAT, {kExperts, kHidden, kHidden}, w, &memory);
  layer.logits = OnDevice(ACL_FLOAT, {kTokens, kExperts}, logits, &memory);
  layer.scores = OnDevice(ACL_FLOAT, {kTokens, kChoices}, scores, &memory);
  layer.ids = OnDevice(ACL_INT32, {kTokens, kChoices}, ints, &memory);
  layer.rows = OnDevice(ACL_FLOAT, {kRows, kHidden}, rows, &memory);
  layer.index = OnDevice(ACL_INT32, {kRows}, ints, &memory);
  layer.counts = OnDevice(ACL_INT32, {kExperts}, counts, &layer.counts_memory);
  layer.products = OnDevice(ACL_FLOAT, {kRows, kHidden}, rows, &memory);
  layer.out = OnDevice(ACL_FLOAT, {kTokens, kHidden}, out, &layer.out_memory);

  const std::vector<int32_t> rows_of = Route(layer);
  const std::vector<float> result = RunExperts(layer, rows_of);
  const float best = std::exp(1.0f) / (1 + std::exp(1.0f));  // the softmax of two that differ by 1
  const float factors[] = {best + 2 * (1 - best), 2 * best + 3 * (1 - best), 3 * best + (1 - best)};
  for (size_t i = 0; i < result.size(); ++i) {
    if (std::abs(result[i] - factors[i / kHidden] * x[i]) > 1e-4f) return 1;
  }
  std::printf("rows of the experts: %d %d %d; the first token times %.4f\n", rows_of[0], rows_of[1],
              rows_of[2], static_cast<double>(result[1]));
  return aclFinalize();
}
