// A routing map of tokens and experts as CANN's operators read it: slots token by token, rows
// expert by expert.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_MOE_ROUTING_MAP_H_
#define OPST_CANN_MOE_ROUTING_MAP_H_

#include <cstdint>
#include <vector>

#include "cann/src/execution/run.h"

namespace opst::cann {

struct MapShape {
  int64_t tokens = 0;
  int64_t experts = 0;
};

// Every token has k slots for its experts, ascending. CANN wants k experts for every token and does
// not look; a token with fewer has -1 in its last slots, one with more is an error.
struct MapSlots {
  int64_t k = 0;
  std::vector<int32_t> slot_experts;  // [T·k], -1 = empty
  std::vector<int32_t> slot_rows;     // [T·k], -1 = empty
  std::vector<int32_t> row_tokens;    // [R]
  std::vector<int32_t> row_experts;   // [R]
};

inline MapSlots ReadMap(const Run& run, Index map, MapShape shape, int64_t k) {
  const std::vector<int64_t> routed = run.Ints(map);
  MapSlots slots;
  slots.k = k;
  const auto num_slots = static_cast<size_t>(shape.tokens * k);
  slots.slot_experts.assign(num_slots, -1);
  slots.slot_rows.assign(num_slots, -1);
  std::vector<int64_t> used(static_cast<size_t>(shape.tokens), 0);
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    for (int64_t token = 0; token < shape.tokens; ++token) {
      if (routed[static_cast<size_t>(token * shape.experts + expert)] == 0) continue;
      const int64_t choice = used[static_cast<size_t>(token)]++;
      run.Value(choice < k, "a token must have at most the slots of numOutTokens", "token ", token,
                " with more than ", k, " experts");
      const auto slot = static_cast<size_t>(token * k + choice);
      slots.slot_experts[slot] = static_cast<int32_t>(expert);
      slots.slot_rows[slot] = static_cast<int32_t>(slots.row_tokens.size());
      slots.row_tokens.push_back(static_cast<int32_t>(token));
      slots.row_experts.push_back(static_cast<int32_t>(expert));
    }
  }
  return slots;
}

// values[token, expert] for pairs of them; 0 where there is no expert.
inline std::vector<float> PickProbs(const std::vector<float>& probs, int64_t num_experts,
                                    const std::vector<int32_t>& tokens,
                                    const std::vector<int32_t>& experts) {
  std::vector<float> picked(tokens.size(), 0.0f);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (experts[i] < 0) continue;
    picked[i] = probs[static_cast<size_t>(tokens[i] * num_experts + experts[i])];
  }
  return picked;
}

}  // namespace opst::cann

#endif  // OPST_CANN_MOE_ROUTING_MAP_H_
