// Kernels of one routing row: softmax, sigmoid and top-k over E experts. Rules about groups, bias
// and renormalisation are in ops/gating/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_GATING_H_
#define OPST_KERNELS_GATING_H_

#include <cstddef>
#include <cstdint>

namespace opst {

// clean[i] = logits[i], NaN becoming -inf. Returns the maximum (-inf for an empty row).
float CleanLogits(const float* logits, size_t n, float* clean) noexcept;

// scores[i] = e^(logits[i] - max) / Σ_j e^(logits[j] - max) for clean logits with finite max.
// In place allowed.
void Softmax(const float* logits, size_t n, float max, float* scores) noexcept;

// scores[i] = 1 / (1 + e^-logits[i]); -inf gives 0, +inf gives 1. In place allowed.
void Sigmoid(const float* logits, size_t n, float* scores) noexcept;

// -Σ p ln p with p = scores[i] / total, in nats; scores of 0 add nothing. Requires scores >= 0 and
// total > 0.
float Entropy(const float* scores, size_t n, float total) noexcept;

// Sort keys of TopK: order-preserving integers of floats that are not NaN, -0 counting as +0.
// kExcludedKey is below all of them, -inf included.
constexpr int32_t kExcludedKey = INT32_MIN;
void SortKeys(const float* values, size_t n, int32_t* keys) noexcept;

// ids[0..k-1] = indices of the k largest keys, largest first, ties to the lower index. Overwrites
// the chosen keys with kExcludedKey. Requires k <= number of keys above kExcludedKey.
void TopK(int32_t* keys, size_t n, size_t k, int32_t* ids) noexcept;

}  // namespace opst

#endif  // OPST_KERNELS_GATING_H_
