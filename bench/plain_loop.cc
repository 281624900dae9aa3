// Hands (expert, rows of weights) to the workers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plain_loop.h"

#include <algorithm>
#include <cstddef>

#include "base/thread_pool.h"
#include "bench/plain_kernels.h"

namespace opst::bench {
namespace {

// Outputs (weight rows) of a task: a few hundred KB at H 2048, so that tasks are many and their
// start is cheap beside them.
constexpr size_t kOutputsPerTask = 32;

size_t NumTasks(size_t outputs) { return (outputs + kOutputsPerTask - 1) / kOutputsPerTask; }

}  // namespace

void RunPlainLoop(const Context& context, const LayerShape& shape, const PlainExperts& experts,
                  const PlainRouting& routing, const std::vector<float>& x,
                  std::vector<float>& activations, std::vector<float>& out) {
  const auto hidden = static_cast<size_t>(shape.hidden);
  const auto ffn = static_cast<size_t>(shape.ffn);
  const auto top_k = static_cast<size_t>(shape.top_k);
  activations.resize(routing.ids.size() * ffn);
  out.resize(x.size());
  std::vector<int64_t> active;
  for (int64_t expert = 0; expert < shape.num_experts; ++expert) {
    if (!routing.expert_slots[static_cast<size_t>(expert)].empty()) active.push_back(expert);
  }
  const auto slots_of = [&](int64_t expert) {
    const std::vector<int32_t>& slots = routing.expert_slots[static_cast<size_t>(expert)];
    return PlainSlots{slots.data(), slots.size(), top_k};
  };

  const size_t up_tasks = NumTasks(ffn);
  context.pool().ParallelFor(active.size() * up_tasks, [&](size_t task, int) {
    const int64_t expert = active[task / up_tasks];
    const size_t begin = task % up_tasks * kOutputsPerTask;
    const float* gate = experts.gate_up(expert);
    PlainUp(slots_of(expert), gate, gate + ffn * hidden, x.data(), hidden, ffn, begin,
            std::min(ffn, begin + kOutputsPerTask), activations.data());
  });
  context.pool().ParallelFor(NumTasks(hidden), [&](size_t task, int) {
    const size_t begin = task * kOutputsPerTask;
    const size_t end = std::min(hidden, begin + kOutputsPerTask);
    for (size_t t = 0; t < out.size() / hidden; ++t) {
      std::fill(out.data() + t * hidden + begin, out.data() + t * hidden + end, 0.0f);
    }
    for (const int64_t expert : active) {
      PlainDown(slots_of(expert), routing.weights.data(), experts.down(expert), activations.data(),
                hidden, ffn, begin, end, out.data());
    }
  });
}

}  // namespace opst::bench
