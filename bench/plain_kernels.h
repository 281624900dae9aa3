// The two inner loops of the plain loop; which expert and which thread is decided in plain_loop.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_PLAIN_KERNELS_H_
#define OPST_BENCH_PLAIN_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace opst::bench {

// The slots of one expert in a layer of T tokens.
struct PlainSlots {
  const int32_t* slots;  // t·k + j
  size_t count;
  size_t top_k;
};

// h[slot, f] = silu(gate[f] · x[t]) · (up[f] · x[t]) for f in [begin, end).
//   gate, up  [F, H]    x  [T, H]    h  [T·k, F]
void PlainUp(const PlainSlots& slots, const float* gate, const float* up, const float* x,
             size_t hidden, size_t ffn, size_t begin, size_t end, float* h) noexcept;

// out[t, n] += weights[slot] · (down[n] · h[slot]) for n in [begin, end).
//   down  [H, F]    h  [T·k, F]    out  [T, H]
void PlainDown(const PlainSlots& slots, const float* weights, const float* down, const float* h,
               size_t hidden, size_t ffn, size_t begin, size_t end, float* out) noexcept;

}  // namespace opst::bench

#endif  // OPST_BENCH_PLAIN_KERNELS_H_
