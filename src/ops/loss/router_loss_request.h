// The one checked request that all losses of the router become; forward or backward. Internal.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_LOSS_ROUTER_LOSS_REQUEST_H_
#define OPST_OPS_LOSS_ROUTER_LOSS_REQUEST_H_

#include <cstdint>
#include <span>

#include "opst/context.h"
#include "opst/ops/loss.h"

namespace opst {

enum class RouterLossKind : uint8_t { kBalance, kZ, kImportance };

struct RouterLossRequest {
  RouterLossKind kind;
  ConstTensorView values;      // [T,E] f32
  ConstTensorView expert_ids;  // [T,k] i32 of kBalance; empty otherwise
  BalanceLossOptions options;  // count and sequence_length of kBalance only
  double* loss;                // forward: where it goes; null = backward
  double d_loss;               // backward
  TensorView d_values;         // [T,E] f32, added to

  int64_t num_tokens() const { return values.dim(0); }
  // Losses of the batch, each over so many consecutive tokens.
  int64_t segment_tokens() const {
    const bool has_sequences = kind == RouterLossKind::kBalance && options.sequence_length > 0;
    return has_sequences ? options.sequence_length : num_tokens();
  }
  int64_t num_segments() const {
    return num_tokens() == 0 ? 0 : (num_tokens() - 1) / segment_tokens() + 1;
  }
  bool is_padding(int64_t token) const {
    return !options.is_padding.empty() && options.is_padding[static_cast<size_t>(token)] != 0;
  }
};

namespace ref {
void RouterLoss(const Context& context, const RouterLossRequest& request);
}  // namespace ref

}  // namespace opst

#endif  // OPST_OPS_LOSS_ROUTER_LOSS_REQUEST_H_
