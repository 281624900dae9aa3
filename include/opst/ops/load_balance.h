// Balance of expert load without a loss: who is busy, and the bias that steers tokens elsewhere.
// The selection itself is gating.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_LOAD_BALANCE_H_
#define OPST_OPS_LOAD_BALANCE_H_

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace opst {

struct LoadTrackerOptions {
  double decay = 0.99;  // what a batch leaves of the past, 0 … 1 (not 1): 0 = the last batch only
};

// The running load of E experts: load = decay · load + (1 - decay) · rows of the batch. A batch
// weighs as much as it has rows.
// Thread safety: every member may be called from several threads; a call sees whole updates.
class LoadTracker {
 public:
  // Errors (kInvalidArgument): num_experts < 1, a decay outside [0, 1).
  explicit LoadTracker(int64_t num_experts, LoadTrackerOptions options = {});

  // Counts a batch. expert_counts [E] as a RoutingPlan has them.
  // Errors (kInvalidArgument): another length, a negative count.
  void Observe(std::span<const int64_t> expert_counts);

  // [E] load over the mean load, for GatingOptions::utilization; all 1 before the first row.
  std::vector<float> Utilization() const;

  // [E] what a tracker knows. Restored, it goes on with the same bits.
  std::vector<double> Save() const;
  // Errors (kInvalidArgument): another length; values that are negative, NaN or Inf.
  void Restore(std::span<const double> load);

 private:
  const LoadTrackerOptions options_;
  mutable std::mutex mutex_;
  std::vector<double> load_;  // [E]
};

struct BiasUpdateOptions {
  float rate = 1e-3f;
  // Whether the mean of the step is taken off again, so that the bias does not drift as a whole.
  bool centers = true;
};

// bias_i += d_i - mean(d) if centers,  d_i = rate · sign(mean(expert_counts) - expert_counts_i)
//   expert_counts  [E] rows of each expert over the whole batch, of all ranks
//   bias           [E] f32 selection bias, updated in place
// Counts are compared exactly. Cost: O(E), on the calling thread.
// Errors (kInvalidArgument): lengths that differ or are 0; a negative count; counts whose sum is
// 2⁶³ or more; a rate that is negative, NaN or Inf. The bias is then unchanged.
// Source: Wang et al. 2024, arXiv:2408.15664; DeepSeek-V3, arXiv:2412.19437, which does not centre.
void UpdateSelectionBias(std::span<const int64_t> expert_counts, const BiasUpdateOptions& options,
                         std::span<float> bias);

}  // namespace opst

#endif  // OPST_OPS_LOAD_BALANCE_H_
