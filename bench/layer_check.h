// Checks rows of a layer's output against sums in f64 before anything is timed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_LAYER_CHECK_H_
#define OPST_BENCH_LAYER_CHECK_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/layer_inputs.h"
#include "bench/shape.h"
#include "opst/context.h"
#include "opst/packed_weights.h"

namespace opst::bench {

// The layer of one token in f64 with a bound on what rounding may do to an f32 computation of it.
struct CheckedRow {
  int64_t token = 0;
  std::vector<double> expected;  // [H]
  std::vector<double> bound;     // [H]
};

// What a computation of the layer works with.
struct LayerNumerics {
  WeightFormat format = WeightFormat::kF32;
  // The most that rounding moves an activation, in parts of the largest of its row; 0 = f32.
  double activation_step = 0;
};

// With u = 2⁻²⁴, s the activation step, and silu' < 1.1:
// clang-format off
//   δg = H·u·Σ|W_g x| + s·max|x|·Σ|W_g|,  δu the same of W_u
//   δh = (1.1·δg + 8u·|silu(g)|)·(|u| + δu) + |silu(g)|·δu + u·|h|
//   bound = Σ_e w (Σ_f |W_d|·(δh + s·max(|h| + δh)) + F·u·Σ|W_d h|) + 64u·Σ_e w·|y_e|,
//           the last for weights and sums
// clang-format on
// `ids` and `weights` [T,k] are the routing that the computation used; `plain` saves making the
// weights again, or is null. Slow: one thread's f64 work is shared by all workers, a few rows only.
std::vector<CheckedRow> ComputeRows(const Context& context, const LayerShape& shape,
                                    const LayerNumerics& numerics, const PlainExperts* plain,
                                    std::span<const float> x, std::span<const int32_t> ids,
                                    std::span<const float> weights,
                                    std::span<const int64_t> tokens);

// The largest |out - expected| / bound. Throws WrongResult naming `who` and the element when
// it is above 1 or not a number: a wrong result is not timed.
double CheckRows(std::span<const CheckedRow> rows, std::span<const float> out,
                 std::string_view who);

// First, middle and last of T tokens, each once.
std::vector<int64_t> TokensToCheck(int64_t num_tokens);

}  // namespace opst::bench

#endif  // OPST_BENCH_LAYER_CHECK_H_
