// Writes one integer panel from sixteen rows of floats.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_PACK_INTEGER_PANEL_H_
#define OPST_PACK_INTEGER_PANEL_H_

#include <array>
#include <cstddef>

#include "base/thread_pool.h"
#include "opst/packed_weights.h"
#include "tensor/integer_panels.h"

namespace opst {

// The weights of one group: row = lane; what is beyond K, or of a padding lane, is 0.
using GroupRows = std::array<std::array<float, kMaxGroup>, PanelLayout::kWidth>;

// kInvalidArgument for a group that integer panels do not have; other formats pass.
void CheckGroup(WeightType type);

//   read  fills the first `count` inputs, from `first` on, of every lane that is no padding
//   out   layout.panel_bytes() bytes
void PackIntegerPanel(const PanelLayout& layout,
                      FunctionRef<void(int64_t first, int64_t count, GroupRows& rows)> read,
                      std::byte* out);

}  // namespace opst

#endif  // OPST_PACK_INTEGER_PANEL_H_
