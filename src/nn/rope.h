// Rotary position embedding: the table of angles and its application to heads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_NN_ROPE_H_
#define OPST_NN_ROPE_H_

#include <cstdint>
#include <vector>

namespace opst {

// Angle of pair i at position p: p · theta^(-2i / head_dim), pairs being (x[i], x[i + head_dim/2]).
// Products are rounded to f32 as in the reference implementations, whose models were trained so.
class Rope {
 public:
  Rope(int64_t head_dim, float theta);

  // Rotates `num_heads` consecutive heads of one token in place. cosines, sines: Angles().
  // Cost: one multiply-add pair per element.
  struct Angles {
    std::vector<float> cosines;  // [head_dim / 2]
    std::vector<float> sines;
  };
  Angles At(int64_t position) const;
  static void Rotate(const Angles& angles, int64_t num_heads, float* heads);

 private:
  std::vector<float> inverse_frequencies_;  // [head_dim / 2]
};

}  // namespace opst

#endif  // OPST_NN_ROPE_H_
