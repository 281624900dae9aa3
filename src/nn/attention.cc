// Scores and weighted values by the same matrix tiles as every other product of the model.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/scratch_pool.h"
#include "base/thread_pool.h"
#include "kernels/softmax.h"
#include "ops/grouped_matmul/panel_product.h"

namespace opst {
namespace {

// The heads of one token that share a cached head, and the positions they see. Positions before
// `begin` lie outside the sliding window; `first_block` is the first block of 256 with one inside.
struct HeadGroup {
  size_t num_heads;
  size_t key_dim;
  size_t value_dim;
  float scale;
  const float* sinks;  // [num_heads] or null
  size_t begin;
  size_t end;
  size_t first_block() const { return begin / kBlockK; }
  size_t last_block() const { return NumBlocks(end); }
};

// Scratch of one worker.
struct AttentionScratch {
  float* queries;  // [blocks of key_dim][heads][256]
  float* scores;   // [blocks of positions][heads][256]
  float* product;
  float* out;  // [heads, value_dim rounded up to panels]
};

size_t RoundUpToPanels(size_t n) { return (n + kPanelWidth - 1) / kPanelWidth * kPanelWidth; }

size_t ScratchFloats(size_t heads, const KvCache::Layer& cache, size_t positions) {
  return heads * kBlockK *
             (NumBlocks(static_cast<size_t>(cache.key_dim())) + NumBlocks(positions)) +
         PanelProduct::kScratchFloats +
         heads * RoundUpToPanels(static_cast<size_t>(cache.value_dim()));
}

AttentionScratch SliceScratch(float* memory, const HeadGroup& group, size_t positions) {
  float* scores = memory + group.num_heads * kBlockK * NumBlocks(group.key_dim);
  float* product = scores + group.num_heads * kBlockK * NumBlocks(positions);
  return {memory, scores, product, product + PanelProduct::kScratchFloats};
}

// Copies the group's queries into blocks, scaled.
void LoadQueries(const HeadGroup& group, const float* queries, float* out) {
  for (size_t head = 0; head < group.num_heads; ++head) {
    for (size_t i = 0; i < group.key_dim; ++i) {
      const size_t block = i / kBlockK;
      out[(block * group.num_heads + head) * kBlockK + i % kBlockK] =
          group.scale * queries[head * group.key_dim + i];
    }
  }
}

void ComputeScores(const HeadGroup& group, const std::byte* keys, const AttentionScratch& scratch) {
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain,
                           static_cast<int64_t>(RoundUpToPanels(group.end)),
                           static_cast<int64_t>(group.key_dim)};
  const PanelProduct product(layout);
  const BlockedRows queries{scratch.queries, group.num_heads * kBlockK, group.num_heads};
  for (size_t block = group.first_block(); block < group.last_block(); ++block) {
    const size_t first = block * kBlockK;
    const size_t panels = RoundUpToPanels(std::min(kBlockK, group.end - first)) / kPanelWidth;
    float* scores = scratch.scores + block * group.num_heads * kBlockK;
    std::fill_n(scores, group.num_heads * kBlockK, 0.0f);
    product.Multiply(queries, keys + first / kPanelWidth * layout.panel_bytes(), panels, scores,
                     kBlockK, scratch.product);
  }
}

// Turns a head's scores into e^(score - max) in place and returns their sum, the sink's share
// included. Positions outside the window get 0.
float ExpScores(const HeadGroup& group, size_t head, float* scores) {
  float max = group.sinks == nullptr ? -std::numeric_limits<float>::infinity() : group.sinks[head];
  const auto for_blocks = [&](auto body) {
    for (size_t block = group.first_block(); block < group.last_block(); ++block) {
      const size_t first = block * kBlockK;
      const size_t skipped = group.begin > first ? group.begin - first : 0;
      const size_t count = std::min(kBlockK, group.end - first);
      body(scores + (block * group.num_heads + head) * kBlockK, skipped, count);
    }
  };
  for_blocks([&](float* row, size_t skipped, size_t count) {
    std::fill_n(row, skipped, 0.0f);
    max = std::max(max, MaxOf(row + skipped, count - skipped));
  });
  float sum = group.sinks == nullptr ? 0 : std::exp(group.sinks[head] - max);
  for_blocks([&](float* row, size_t skipped, size_t count) {
    sum += ExpInPlace(row + skipped, count - skipped, max);
  });
  return sum;
}

void WeighValues(const HeadGroup& group, const KvCache::Layer& cache, int64_t kv_head,
                 const AttentionScratch& scratch) {
  const PanelLayout layout{WeightFormat::kF32, PanelOrder::kPlain,
                           static_cast<int64_t>(group.value_dim), static_cast<int64_t>(group.end)};
  const PanelProduct product(layout, cache.value_panel_bytes());
  const size_t width = RoundUpToPanels(group.value_dim);
  std::fill_n(scratch.out, group.num_heads * width, 0.0f);
  for (size_t block = group.first_block(); block < group.last_block(); ++block) {
    product.MultiplyBlock(scratch.scores + block * group.num_heads * kBlockK, group.num_heads,
                          block, cache.values(kv_head), width / kPanelWidth, scratch.out, width,
                          scratch.product);
  }
}

void AttendGroup(const HeadGroup& group, const float* queries, const KvCache::Layer& cache,
                 int64_t kv_head, const AttentionScratch& scratch, float* out) {
  LoadQueries(group, queries, scratch.queries);
  ComputeScores(group, cache.keys(kv_head), scratch);
  const size_t width = RoundUpToPanels(group.value_dim);
  std::vector<float> sums(group.num_heads);
  for (size_t head = 0; head < group.num_heads; ++head) {
    sums[head] = ExpScores(group, head, scratch.scores);
  }
  WeighValues(group, cache, kv_head, scratch);
  for (size_t head = 0; head < group.num_heads; ++head) {
    for (size_t i = 0; i < group.value_dim; ++i) {
      out[head * group.value_dim + i] = scratch.out[head * width + i] / sums[head];
    }
  }
}

}  // namespace

void Attend(const Context& context, ConstTensorView queries, int64_t first_position,
            const AttendOptions& options, const KvCache::Layer& cache, TensorView out) {
  const auto heads = static_cast<size_t>(options.num_heads / cache.num_heads());
  const auto key_dim = static_cast<size_t>(cache.key_dim());
  const auto value_dim = static_cast<size_t>(cache.value_dim());
  const auto positions = static_cast<size_t>(first_position + queries.dim(0));
  const size_t floats = ScratchFloats(heads, cache, positions);
  const ScratchPool::Lease arena = context.scratch().Borrow();
  float* memory = arena->Take<float>(floats * static_cast<size_t>(context.num_threads()));
  const auto num_tasks = static_cast<size_t>(queries.dim(0) * cache.num_heads());
  context.pool().ParallelFor(num_tasks, [&](size_t task, int worker) {
    // Late tokens see most positions: they go first, so that the long tasks do not come last.
    const int64_t token = queries.dim(0) - 1 - static_cast<int64_t>(task) / cache.num_heads();
    const int64_t kv_head = static_cast<int64_t>(task) % cache.num_heads();
    const int64_t end = first_position + token + 1;
    const int64_t begin = options.window > 0 ? std::max<int64_t>(0, end - options.window) : 0;
    const size_t first_head = static_cast<size_t>(kv_head) * heads;
    const HeadGroup group{heads,
                          key_dim,
                          value_dim,
                          options.scale,
                          options.sinks.empty() ? nullptr : &options.sinks[first_head],
                          static_cast<size_t>(begin),
                          static_cast<size_t>(end)};
    const AttentionScratch scratch =
        SliceScratch(memory + static_cast<size_t>(worker) * floats, group, positions);
    const auto* query = reinterpret_cast<const float*>(queries.row(token)) + first_head * key_dim;
    AttendGroup(group, query, cache, kv_head, scratch,
                reinterpret_cast<float*>(out.mutable_row(token)) + first_head * value_dim);
  });
}

}  // namespace opst
