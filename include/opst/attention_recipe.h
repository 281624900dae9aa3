// AttentionRecipe: what a model family decides about attention and positions. Data only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_ATTENTION_RECIPE_H_
#define OPST_ATTENTION_RECIPE_H_

#include <cstdint>
#include <vector>

namespace opst {

// How a position turns into the angles of a rotary embedding. Without scaling, the angle of pair i
// at position p is p · theta^(-2i / dim).
struct RopeRecipe {
  float theta = 10000.0f;
  int64_t dim = 0;              // rotated elements of a head; the others pass unchanged
  bool is_interleaved = false;  // pairs are (2i, 2i+1), not (i, i + dim/2)
  enum class Scaling : uint8_t {
    kNone,
    kLinear,    // frequencies divided by `factor`
    kDynamic,   // theta grows once the text is longer than original_positions
    kYarn,      // low frequencies divided by `factor`, high ones kept, a ramp between
    kLlama3,    // the same with other bounds, in wavelengths
    kLongRope,  // every frequency has its own divisor, another one for long texts
  } scaling = Scaling::kNone;
  double factor = 1;
  int64_t original_positions = 0;    // trained length before scaling
  double beta_fast = 32;             // kYarn: rotations where the ramp begins …
  double beta_slow = 1;              // … and ends
  bool truncates = true;             // kYarn: the ramp's ends are whole pairs
  double low_frequency_factor = 1;   // kLlama3
  double high_frequency_factor = 4;  // kLlama3
  std::vector<float> short_factors;  // kLongRope: [dim / 2], texts up to original_positions
  std::vector<float> long_factors;   // kLongRope: [dim / 2], longer texts
  float amplitude = 1;               // multiplies cosines and sines
  float long_amplitude = 1;          // kLongRope: the same for longer texts

  // Whether a position's angles depend on the length of the text.
  bool depends_on_length() const {
    return scaling == Scaling::kDynamic || scaling == Scaling::kLongRope;
  }
};

// Multi-head latent attention: keys and values of all heads are products of one vector of kv_rank
// elements, and that vector is what the cache keeps.
struct LatentRecipe {
  int64_t kv_rank = 0;      // 0 = attention is not latent
  int64_t query_rank = 0;   // queries come from a vector of so many elements; 0 = from x itself
  int64_t content_dim = 0;  // elements of a query or key head that carry no position
  int64_t value_dim = 0;    // elements of a value head
  float norm_eps = 1e-6f;   // of the RMS norms over both vectors
};

// Everything a model family decides about attention.
struct AttentionRecipe {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // of queries and keys
  RopeRecipe rope;
  enum class QkNorm : uint8_t {
    kNone,
    kPerHead,      // RMS norm over head_dim, one weight [head_dim] for all heads
    kAcrossHeads,  // RMS norm over all heads together, weight [heads · head_dim]
  } qk_norm = QkNorm::kNone;
  float qkv_clip = 0;          // |q|, |k|, |v| are clamped to this after the norms; 0 = not
  int64_t sliding_window = 0;  // positions a token sees, itself included; 0 = all before it
  float score_scale = 0;       // multiplies q · k; 0 = 1/√head_dim
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_sinks = false;  // one more score per head, which takes weight and adds no value
  LatentRecipe latent;

  bool is_latent() const { return latent.kv_rank > 0; }
  int64_t query_width() const { return num_heads * head_dim; }
  int64_t kv_width() const { return num_kv_heads * head_dim; }
  // Elements that the heads give to the output projection.
  int64_t output_width() const { return num_heads * (is_latent() ? latent.value_dim : head_dim); }
  // What the cache keeps of a position: keys and values of so many heads.
  int64_t cached_heads() const { return is_latent() ? 1 : num_kv_heads; }
  int64_t cached_key_dim() const { return is_latent() ? latent.kv_rank + rope.dim : head_dim; }
  int64_t cached_value_dim() const { return is_latent() ? latent.kv_rank : head_dim; }
};

}  // namespace opst

#endif  // OPST_ATTENTION_RECIPE_H_
