// The check of gating options, for whoever keeps them longer than a call.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_GATING_CHECK_OPTIONS_H_
#define OPST_OPS_GATING_CHECK_OPTIONS_H_

#include <cstdint>

#include "opst/ops/gating.h"

namespace opst {

// Throws kInvalidArgument by the rules of Gate.
void CheckGatingOptions(const GatingOptions& options, int64_t num_experts);

}  // namespace opst

#endif  // OPST_OPS_GATING_CHECK_OPTIONS_H_
