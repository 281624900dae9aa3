// Rotary position embedding: the table of angles and its application to heads.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_NN_ROPE_H_
#define OPST_NN_ROPE_H_

#include <cstdint>
#include <vector>

#include "opst/attention_recipe.h"

namespace opst {

// Angle of pair i at position p: p · frequency(i). Products are rounded to f32 as in the reference
// implementations, whose models were trained so.
class Rope {
 public:
  explicit Rope(const RopeRecipe& recipe);

  struct Angles {
    std::vector<float> cosines;  // [dim / 2]
    std::vector<float> sines;
  };
  // Of a token at `position` of a text that is known to be `length` long or longer; only scalings
  // that depend on the length look at it.
  Angles At(int64_t position, int64_t length = 0) const;

  // Rotates the first `dim` elements of `num_heads` heads of one token in place; heads stand
  // `head_stride` elements apart. Cost: one multiply-add pair per element.
  void Rotate(const Angles& angles, int64_t num_heads, int64_t head_stride, float* heads) const;

 private:
  std::vector<float> FrequenciesOf(int64_t length) const;

  RopeRecipe recipe_;
  std::vector<float> frequencies_;       // [dim / 2]
  std::vector<float> long_frequencies_;  // [dim / 2], kLongRope
};

}  // namespace opst

#endif  // OPST_NN_ROPE_H_
