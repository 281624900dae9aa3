// Lays the cache out in panels and writes single positions into them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/kv_cache.h"

#include <initializer_list>
#include <limits>

#include "base/check.h"

namespace opst {
namespace {

constexpr int64_t kWidth = PanelLayout::kWidth;

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Floats of one head's keys, and of its values, for a capacity in whole panels.
int64_t KeyFloats(int64_t key_dim, int64_t capacity) { return capacity * key_dim; }
int64_t ValueFloats(int64_t value_dim, int64_t capacity) {
  return RoundUp(value_dim, kWidth) * capacity;
}

}  // namespace

size_t KvCache::NumBytes(const AttentionRecipe& recipe, int64_t num_layers, int64_t capacity) {
  OPST_CHECK_ARG(capacity >= 0, "kv_cache", "capacity must not be negative", capacity);
  const int64_t position_floats =
      KeyFloats(recipe.cached_key_dim(), 1) + ValueFloats(recipe.cached_value_dim(), 1);
  // Rounding up to a whole panel must not overflow either.
  bool fits = capacity <= std::numeric_limits<int64_t>::max() - kWidth;
  int64_t bytes = fits ? RoundUp(capacity, kWidth) : 0;
  for (const int64_t factor :
       {position_floats, recipe.cached_heads(), num_layers, static_cast<int64_t>(sizeof(float))}) {
    fits = fits && !__builtin_mul_overflow(bytes, factor, &bytes);
  }
  if (!fits) {
    Throw(ErrorKind::kOutOfMemory, "kv_cache", "keys and values must be less than 2^63 bytes",
          Concat(capacity, " positions in ", num_layers, " layers"));
  }
  return static_cast<size_t>(bytes);
}

KvCache::KvCache(const AttentionRecipe& recipe, int64_t num_layers, int64_t capacity,
                 BufferOptions pages)
    : capacity_(capacity), memory_(NumBytes(recipe, num_layers, capacity), pages) {
  auto* next = reinterpret_cast<float*>(memory_.data());
  for (int64_t index = 0; index < num_layers; ++index) {
    Layer layer;
    layer.num_heads_ = recipe.cached_heads();
    layer.key_dim_ = recipe.cached_key_dim();
    layer.value_dim_ = recipe.cached_value_dim();
    layer.capacity_ = RoundUp(capacity, kWidth);
    layer.keys_ = next;
    layer.values_ = layer.keys_ + layer.num_heads_ * KeyFloats(layer.key_dim_, layer.capacity_);
    next = layer.values_ + layer.num_heads_ * ValueFloats(layer.value_dim_, layer.capacity_);
    layers_.push_back(layer);
  }
}

bool KvCache::Fits(const AttentionRecipe& recipe, int64_t num_layers) const {
  if (static_cast<int64_t>(layers_.size()) != num_layers) return false;
  return layers_.empty() || (layers_[0].num_heads_ == recipe.cached_heads() &&
                             layers_[0].key_dim_ == recipe.cached_key_dim() &&
                             layers_[0].value_dim_ == recipe.cached_value_dim());
}

const std::byte* KvCache::Layer::keys(int64_t head) const {
  return reinterpret_cast<const std::byte*>(keys_ + head * KeyFloats(key_dim_, capacity_));
}

const std::byte* KvCache::Layer::values(int64_t head) const {
  return reinterpret_cast<const std::byte*>(values_ + head * ValueFloats(value_dim_, capacity_));
}

size_t KvCache::Layer::value_panel_bytes() const {
  return static_cast<size_t>(capacity_ * kWidth) * sizeof(float);
}

void KvCache::Layer::Store(int64_t position, const float* keys, const float* values) const {
  for (int64_t head = 0; head < num_heads_; ++head) {
    const float* key = keys + head * key_dim_;
    float* key_lane = keys_ + head * KeyFloats(key_dim_, capacity_) +
                      position / kWidth * kWidth * key_dim_ + position % kWidth;
    for (int64_t i = 0; i < key_dim_; ++i) key_lane[i * kWidth] = key[i];
    const float* value = values + head * value_dim_;
    float* value_row = values_ + head * ValueFloats(value_dim_, capacity_) + position * kWidth;
    for (int64_t i = 0; i < value_dim_; ++i) {
      value_row[i / kWidth * kWidth * capacity_ + i % kWidth] = value[i];
    }
  }
}

}  // namespace opst
