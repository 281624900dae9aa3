// Which kind of product the dtypes of a grouped_matmul mean, and what each kind asks for.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_PRODUCT_KIND_H_
#define OPST_CANN_GMM_PRODUCT_KIND_H_

#include <vector>

#include "cann/src/gmm/group_quantization.h"

namespace opst::cann {

// Inner dim of x [...,K]; eight int4 stand in an int32.
inline int64_t InnerOf(const Operand& x) {
  return x.rank() == 0 ? 0 : x.dims.back() * (x.dtype == ACL_INT32 ? 8 : 1);
}

// Of grouped_matmul: dtypes, lists that must be there or not, activation, and all numbers
// (161002).
void CheckQuantization(const Call& call, const GroupQuantization& quantization,
                       const std::vector<Index>& x, const std::vector<Index>& weight,
                       const std::vector<Index>& out);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_PRODUCT_KIND_H_
