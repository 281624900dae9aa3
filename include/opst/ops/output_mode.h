// Whether an operator writes its sum over the output or adds to
// it; shared by the operators that sum.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_OUTPUT_MODE_H_
#define OPST_OPS_OUTPUT_MODE_H_

#include <cstdint>

namespace opst {

enum class OutputMode : uint8_t {
  kOverwrite,  // out  = Σ …
  kAdd,        // out += Σ …, in f32
};

}  // namespace opst

#endif  // OPST_OPS_OUTPUT_MODE_H_
