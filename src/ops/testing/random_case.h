// The draws of one random test case: sizes, types, options; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_TESTING_RANDOM_CASE_H_
#define OPST_OPS_TESTING_RANDOM_CASE_H_

#include <cstdint>
#include <random>

#include "opst/dtype.h"

namespace opst {

class RandomCase {
 public:
  explicit RandomCase(uint32_t seed) : random_(seed) {}

  // Uniform in least … most.
  int64_t Size(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint32_t>(most - least + 1));
  }
  bool Flag() { return random_() % 2 == 0; }
  // f32, bf16 or f16.
  DType Float() {
    constexpr DType kFloats[] = {DType::kF32, DType::kBf16, DType::kF16};
    return kFloats[random_() % 3];
  }
  // One of the first `count` values of an enum.
  template <typename Enum>
  Enum Choice(uint32_t count) {
    return static_cast<Enum>(random_() % count);
  }

 private:
  std::mt19937 random_;
};

}  // namespace opst

#endif  // OPST_OPS_TESTING_RANDOM_CASE_H_
