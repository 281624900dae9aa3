// AttentionRecipe: what a model family decides about attention. Data only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_ATTENTION_RECIPE_H_
#define OPST_ATTENTION_RECIPE_H_

#include <cstdint>

namespace opst {

// Everything a model family decides about attention.
struct AttentionRecipe {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  float rope_theta = 10000.0f;
  enum class QkNorm : uint8_t {
    kNone,
    kPerHead,      // RMS norm over head_dim, one weight [head_dim] for all heads
    kAcrossHeads,  // RMS norm over all heads together, weight [heads · head_dim]
  } qk_norm = QkNorm::kNone;
  float qkv_clip = 0;          // |q|, |k|, |v| are clamped to this after the norms; 0 = not
  int64_t sliding_window = 0;  // positions a token sees, itself included; 0 = all before it

  int64_t query_width() const { return num_heads * head_dim; }
  int64_t kv_width() const { return num_kv_heads * head_dim; }
};

}  // namespace opst

#endif  // OPST_ATTENTION_RECIPE_H_
