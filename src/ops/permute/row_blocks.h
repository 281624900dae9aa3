// Blocks of rows as tasks of the pool, for operators that treat every row alike. Nothing else.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_PERMUTE_ROW_BLOCKS_H_
#define OPST_OPS_PERMUTE_ROW_BLOCKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "opst/context.h"

namespace opst {

// Copied rows are short work, so that a task has many; summed rows have k sources each.
constexpr int64_t kCopiedRowsPerTask = 64;
constexpr int64_t kSummedRowsPerTask = 16;

// Calls body(begin, end) for blocks of at most `block` rows, each from one worker.
template <typename Body>
void ForRowBlocks(const Context& context, int64_t num_rows, int64_t block, const Body& body) {
  const int64_t num_tasks = (num_rows + block - 1) / block;
  context.pool().ParallelFor(static_cast<size_t>(num_tasks), [&](size_t task, int) {
    const int64_t begin = static_cast<int64_t>(task) * block;
    body(begin, std::min(begin + block, num_rows));
  });
}

}  // namespace opst

#endif  // OPST_OPS_PERMUTE_ROW_BLOCKS_H_
