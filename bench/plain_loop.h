// The "plain loop": a MoE layer as loops over experts and their tokens on unpacked f32 weights, on
// all workers. The tool's own yardstick, never called the standard implementation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_PLAIN_LOOP_H_
#define OPST_BENCH_PLAIN_LOOP_H_

#include <vector>

#include "bench/layer_inputs.h"
#include "bench/plain_routing.h"
#include "bench/shape.h"
#include "opst/context.h"

namespace opst::bench {

// out[t] = Σ_j w[t,j] · W_down(e) (silu(W_gate(e) x[t]) ∘ (W_up(e) x[t])), ascending in e.
//   x, out       [T, H]
//   activations  kept between calls, so that they are allocated once
// Each weight row is read once for all tokens of its expert; each output column has one writer.
void RunPlainLoop(const Context& context, const LayerShape& shape, const PlainExperts& experts,
                  const PlainRouting& routing, const std::vector<float>& x,
                  std::vector<float>& activations, std::vector<float>& out);

}  // namespace opst::bench

#endif  // OPST_BENCH_PLAIN_LOOP_H_
