// ExpertStore: where a layer's expert weights come from. The interface and its in-memory version.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_EXPERT_STORE_H_
#define OPST_EXPERT_STORE_H_

#include <cstdint>
#include <utility>

#include "opst/ops/moe_ffn.h"
#include "opst/routing_plan.h"

namespace opst {

// A layer asks for its experts once per forward call, after routing; a store that keeps only some
// experts in memory fetches the ones that `plan` uses. Threads: every method may be called from
// several threads at once.
class ExpertStore {
 public:
  virtual ~ExpertStore() = default;
  // Panels of one expert, gate_up [2F,H] and down [H,F], and the number E of experts: known without
  // loading any, never changing, and without errors.
  virtual const PanelLayout& gate_up_layout() const = 0;
  virtual const PanelLayout& down_layout() const = 0;
  virtual int64_t num_experts() const = 0;
  // Weights of every expert with a row in `plan`, whose num_experts is this store's; others may be
  // null. Valid while the returned object lives, also when another call evicts them. Cost: what the
  // store must fetch. Errors: kIo for weights that cannot be read, kOutOfMemory for no room.
  virtual ExpertWeights Acquire(const RoutingPlan& plan) = 0;
};

// All experts resident: mapped from a file or packed in memory. Acquire copies no weights and has
// no errors.
class LocalExpertStore : public ExpertStore {
 public:
  // The shapes are checked by the MoeLayer that gets the store.
  explicit LocalExpertStore(ExpertWeights weights) : weights_(std::move(weights)) {}

  const PanelLayout& gate_up_layout() const override { return weights_.gate_up.layout(); }
  const PanelLayout& down_layout() const override { return weights_.down.layout(); }
  int64_t num_experts() const override { return weights_.gate_up.num_experts(); }
  ExpertWeights Acquire(const RoutingPlan&) override { return weights_; }

 private:
  ExpertWeights weights_;
};

}  // namespace opst

#endif  // OPST_EXPERT_STORE_H_
