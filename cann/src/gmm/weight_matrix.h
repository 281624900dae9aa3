// Weights as CANN stores them: plain or fractal; floats, int8 a number a byte, int4 two in a byte
// or eight in an int32.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_WEIGHT_MATRIX_H_
#define OPST_CANN_GMM_WEIGHT_MATRIX_H_

#include <cstdint>
#include <vector>

#include "cann/src/execution/run.h"
#include "opst/tensor.h"

namespace opst::cann {

// E matrices [K,N]; experts 0 = one matrix without an axis of experts.
struct WeightShape {
  int64_t experts = 0;
  int64_t inner = 0;
  int64_t columns = 0;

  int64_t num_matrices() const { return experts == 0 ? 1 : experts; }
};

// Of a tensor [E,K,N] or [K,N], in int32 [...,N/8]. Fractal ones are called so, too, or by their
// blocks [...,N/c,K/16,16,c], where c is 32 bytes of numbers (in int32 c/8). All 0 for others.
WeightShape ShapeOfWeight(const Operand& weight);

// Matrix `expert` as [K,N], a number a byte.
std::vector<int8_t> ReadIntWeight(const Run& run, Index weight, const WeightShape& shape,
                                  int64_t expert);

// Matrix `expert` of f32, f16 or bf16 as a plain [K,N]; fractal ones are copied into `copy`.
ConstTensorView ReadFloatWeight(const Run& run, Index weight, const WeightShape& shape,
                                int64_t expert, std::vector<uint16_t>& copy);

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_WEIGHT_MATRIX_H_
