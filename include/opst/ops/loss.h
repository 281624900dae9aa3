// Auxiliary losses of the router, forward and backward: balance, importance and z-loss. Balance
// without a loss is load_balance.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_LOSS_H_
#define OPST_OPS_LOSS_H_

#include <cstdint>
#include <span>

#include "opst/context.h"
#include "opst/tensor.h"

namespace opst {

// What the rows [T, E] that a loss gets hold, and how p follows from them.
enum class RouterValues : uint8_t {
  kSoftmaxLogits,  // p = softmax(values)
  kSigmoidLogits,  // p = s / Σ s,  s = sigmoid(values)
  kProbabilities,  // p = values, for instance GatingResult::scores
};

// How choices are counted, c_i of expert i.
enum class BalanceCount : uint8_t {
  kPerChoice,    // f_i = c_i / Σ c: balanced routing costs the coefficient, for any k (Megatron)
  kFirstChoice,  // the same of first choices only (GShard, DeepSpeed)
  kPerToken,     // f_i = c_i / T: k times kPerChoice when no slot is empty (transformers)
};

struct BalanceLossOptions {
  float coefficient = 0.01f;
  RouterValues values = RouterValues::kSoftmaxLogits;
  BalanceCount count = BalanceCount::kPerChoice;
  // Above 0, the loss is the mean of those of each sequence of so many consecutive tokens (the
  // last one may be shorter); 0 = one loss over the batch.
  int64_t sequence_length = 0;
  // Not 0 = tokens that no loss knows of; [T] or empty.
  std::span<const uint8_t> is_padding = {};
};

// L = coefficient · E · Σ_i f_i P_i,  P_i = mean_t p_ti
//   values      [T, E] f32, rows may be strided
//   expert_ids  [T, k] i32, rows may be strided: the choice, best first; -1 = an empty slot
// Padding and rows without a usable logit (NaN or -inf throughout) are left out of f and P; a
// sequence with no other rows is left out of the mean. Without rows at all L is 0.
// f has no gradient. p follows from the values alone: no bias and no groups.
// Accuracy: p as Gate's scores, sums in f64. The bits do not depend on the number of threads.
// Cost: O(T·E), one pass. Errors (kInvalidArgument): shapes or dtypes that do not fit; an id
// outside -1 … E-1; is_padding of another length; a negative sequence length; a coefficient that
// is NaN or Inf; a gradient that overlaps an input.
// Source: Switch Transformer, arXiv:2101.03961; GShard, arXiv:2006.16668.
double BalanceLoss(const Context& context, ConstTensorView values, ConstTensorView expert_ids,
                   const BalanceLossOptions& options = {});
// d_values += d_loss · ∂L/∂values. d_values [T, E] f32, rows may be strided; no overlap. Masked
// values and rows that the loss leaves out are not changed. Errors: as BalanceLoss.
void BalanceLossBackward(const Context& context, ConstTensorView values, ConstTensorView expert_ids,
                         const BalanceLossOptions& options, double d_loss, TensorView d_values);

struct RouterLossOptions {
  float coefficient = 1e-3f;
  RouterValues values = RouterValues::kSoftmaxLogits;  // of the importance loss only
  std::span<const uint8_t> is_padding = {};            // as for the balance loss
};

// L = coefficient · mean_t (ln Σ_i e^logits_ti)². A logit of +inf makes it +inf.
//   logits  [T, E] f32, rows may be strided
// Rows, accuracy, cost, errors: as BalanceLoss. Source: ST-MoE, arXiv:2202.08906.
double RouterZLoss(const Context& context, ConstTensorView logits,
                   const RouterLossOptions& options = {});
void RouterZLossBackward(const Context& context, ConstTensorView logits,
                         const RouterLossOptions& options, double d_loss, TensorView d_logits);

// L = coefficient · CV²(I),  I_i = Σ_t p_ti,  CV² = variance over E / mean²
// Rows, accuracy, cost, errors: as BalanceLoss. Source: Shazeer et al. 2017, arXiv:1701.06538.
double ImportanceLoss(const Context& context, ConstTensorView values,
                      const RouterLossOptions& options = {});
void ImportanceLossBackward(const Context& context, ConstTensorView values,
                            const RouterLossOptions& options, double d_loss, TensorView d_values);

}  // namespace opst

#endif  // OPST_OPS_LOSS_H_
