// Sums, spreads and dot products over indexed rows: the arithmetic of CANN's finalize and permute
// families, which follow index lists that no RoutingPlan would allow.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_ROW_MOVES_H_
#define OPST_CANN_MOE_ROW_MOVES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "opst/context.h"
#include "opst/tensor.h"

namespace opst::cann {

// Which rows the tokens use: token t has the entries [t·k, (t+1)·k), unless `tokens` names the
// token of each entry, which SumRows does not follow. -1 = none.
struct RowUse {
  int64_t k = 1;
  std::span<const int32_t> rows;
  std::span<const float> weights = {};  // one an entry; empty = 1
  // Added to each row before its weight: bias[bias_rows[entry]].
  ConstTensorView bias = {};
  std::span<const int32_t> bias_rows = {};
  std::span<const int32_t> tokens = {};

  int64_t token(size_t entry) const {
    return tokens.empty() ? static_cast<int64_t>(entry) / k : tokens[entry];
  }
  float weight(size_t entry) const { return weights.empty() ? 1.0f : weights[entry]; }
};

// Whether a row of weight 0 is read, so that its NaN reaches the sum.
enum class ZeroWeight : uint8_t { kReads, kSkips };

struct SumOptions {
  ConstTensorView residual = {};         // [T,H], added first
  ConstTensorView second_residual = {};  // [T,H], added second
  ZeroWeight zero_weight = ZeroWeight::kReads;
};

// out[t] = residuals + Σ_j w · (rows[row] + bias), j ascending, in f32, rounded once.
void SumRows(const Context& context, ConstTensorView rows, const RowUse& use,
             const SumOptions& options, TensorView out);

enum class UnusedRows : uint8_t { kStay, kBecomeZero };

// d_rows[row of entry] = w · d_out[token of entry]. No row may be used twice.
void SpreadRows(const Context& context, ConstTensorView d_out, const RowUse& use, UnusedRows unused,
                TensorView d_rows);

// dots[entry] = Σ_h (rows[row,h] + bias) · d_out[token,h]. Entries without a row get the bias
// part alone, which is 0 without a bias.
std::vector<float> DotRows(const Context& context, ConstTensorView rows, const RowUse& use,
                           ConstTensorView d_out);

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_ROW_MOVES_H_
