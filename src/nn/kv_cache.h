// KvCache: keys and values of one sequence, stored as the panels that the matrix tiles read.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_NN_KV_CACHE_H_
#define OPST_NN_KV_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "opst/attention_recipe.h"
#include "opst/packed_weights.h"

namespace opst {

// f32 panels of 16 columns per layer and cached head:
//   keys    columns = positions, inputs = key_dim:    q x panel gives 16 scores
//   values  columns = value_dim, inputs = positions:  p x panel gives 16 outputs
// Memory is reserved for `capacity` positions at once, and used by the kernel page by page.
class KvCache {
 public:
  class Layer {
   public:
    // Writes one position. keys: [num_heads · key_dim] f32, values: [num_heads · value_dim] f32.
    void Store(int64_t position, const float* keys, const float* values) const;

    int64_t num_heads() const { return num_heads_; }
    int64_t key_dim() const { return key_dim_; }
    int64_t value_dim() const { return value_dim_; }
    // Panels of one cached head; a value panel is value_panel_bytes() long.
    const std::byte* keys(int64_t head) const;
    const std::byte* values(int64_t head) const;
    size_t value_panel_bytes() const;

   private:
    friend class KvCache;
    float* keys_ = nullptr;
    float* values_ = nullptr;
    int64_t num_heads_ = 0;
    int64_t key_dim_ = 0;
    int64_t value_dim_ = 0;
    int64_t capacity_ = 0;  // whole panels of positions
  };

  // Throws kOutOfMemory.
  KvCache(const AttentionRecipe& recipe, int64_t num_layers, int64_t capacity,
          BufferOptions pages = {});

  int64_t capacity() const { return capacity_; }
  // Whether it was made for these sizes.
  bool Fits(const AttentionRecipe& recipe, int64_t num_layers) const;
  const Layer& layer(int64_t index) const { return layers_[static_cast<size_t>(index)]; }

  // Bytes that a cache of these sizes reserves. Throws kInvalidArgument for a negative capacity and
  // kOutOfMemory when the number does not fit 63 bits.
  static size_t NumBytes(const AttentionRecipe& recipe, int64_t num_layers, int64_t capacity);

 private:
  int64_t capacity_;
  AlignedBuffer memory_;
  std::vector<Layer> layers_;
};

}  // namespace opst

#endif  // OPST_NN_KV_CACHE_H_
