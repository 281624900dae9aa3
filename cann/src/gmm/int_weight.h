// Integer weights as CANN stores them: plain or fractal, a number a byte, or eight int4 in an
// int32.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_INT_WEIGHT_H_
#define OPST_CANN_GMM_INT_WEIGHT_H_

#include <cstdint>
#include <vector>

#include "cann/src/execution/run.h"

namespace opst::cann {

// E matrices [K,N].
struct IntWeightShape {
  int64_t experts = 0;
  int64_t inner = 0;
  int64_t columns = 0;
};

// Of a tensor [E,K,N], [E,K,N/8] of int32, or fractal [E,N/32,K/16,16,32] of int8; all 0 for
// others.
IntWeightShape ShapeOfIntWeight(const Operand& weight);

// Matrix `expert` as [K,N], a number a byte.
std::vector<int8_t> ReadIntWeight(const Run& run, Index weight, const IntWeightShape& shape,
                                  int64_t expert);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_INT_WEIGHT_H_
