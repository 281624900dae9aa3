// How the tensors of a GGUF architecture are called in the Hugging Face checkpoints of the same
// family, and what the GGUF writer had done to them. Reads no data.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_GGUF_NAMES_H_
#define OPST_CONVERT_GGUF_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

// What has to be undone.
enum class GgufChange : uint8_t {
  kNone,
  kQueryRows,    // rows of each query head reordered for adjacent rotary pairs
  kKeyRows,      // the same for key heads
  kPerExpert,    // [E, …] in one tensor; here one tensor per {expert}
  kMatrixOfRow,  // [H] was [1, H]
  kTranspose,    // [E, N, K] was [E, K, N]
  kGateOfPairs,  // gate and up apart; was [E, H, 2F] with gate and up columns alternating
  kBiasOfPairs,  // the same for [E, F] biases, was [E, 2F]
  kKeyOfKvUp,    // latent attention: keys and values apart, keys transposed; was [h (k + v), rank]
  kIgnored,      // derived data that inference does not read
  kRopeFactors,  // divisors of the rotary frequencies; they belong to the config
};

struct GgufRule {
  std::string_view gguf;   // with {layer} and, in old files, {expert}
  std::string_view plain;  // with the same
  GgufChange change = GgufChange::kNone;
  std::string_view partner = {};  // second tensor of kGateOfPairs, kBiasOfPairs, kKeyOfKvUp
};

// The rules of a model_type ("mixtral", "qwen3_moe", …). The first that fits a name holds.
std::vector<GgufRule> GgufRules(std::string_view model_type);

struct GgufMatch {
  const GgufRule* rule = nullptr;  // nullptr = none fits
  int64_t layer = 0;
  int64_t expert = 0;
};
GgufMatch MatchGgufName(const std::vector<GgufRule>& rules, std::string_view name);

}  // namespace opst

#endif  // OPST_CONVERT_GGUF_NAMES_H_
