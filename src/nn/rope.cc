// Angles by libm, rotation by the vector kernel.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "nn/rope.h"

#include <cmath>

#include "kernels/norm.h"

namespace opst {

Rope::Rope(int64_t head_dim, float theta) {
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    inverse_frequencies_.push_back(1.0f / std::pow(theta, exponent));
  }
}

Rope::Angles Rope::At(int64_t position) const {
  Angles angles;
  for (const float frequency : inverse_frequencies_) {
    const float angle = static_cast<float>(position) * frequency;
    angles.cosines.push_back(std::cos(angle));
    angles.sines.push_back(std::sin(angle));
  }
  return angles;
}

void Rope::Rotate(const Angles& angles, int64_t num_heads, float* heads) {
  const size_t half = angles.cosines.size();
  for (int64_t head = 0; head < num_heads; ++head) {
    RotateHalves(heads + static_cast<size_t>(head) * 2 * half, half, angles.cosines.data(),
                 angles.sines.data());
  }
}

}  // namespace opst
