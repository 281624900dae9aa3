// Flags that `opst generate` and `opst chat` share: sampling, limits, chosen experts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_GENERATION_FLAGS_H_
#define OPST_TOOLS_OPST_GENERATION_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "opst/engine.h"

namespace opst::tool {

// Experts named on the command line; the model's own numbers are checked by the library.
struct ExpertFlags {
  int64_t active_experts = 0;
  std::vector<std::string> masked;
  std::vector<std::string> forced;
  std::string routing;  // "top-k", "threshold", "top-p", "entropy"; empty = the model's rule
  float threshold = 0;
  float top_p = 0.9f;
  std::vector<std::string> entropy_steps;

  // Throws kInvalidArgument for what is neither EXPERT nor LAYER:EXPERT, and for an unknown rule.
  ExpertChoice Choice() const;
};

struct GenerationFlags {
  GenerateOptions options;
  ExpertFlags experts;
  std::vector<std::string> logit_bias;

  // The options with everything that needs parsing.
  GenerateOptions Parsed() const;
};

void AddExpertFlags(CLI::App& command, ExpertFlags& flags);
void AddGenerationFlags(CLI::App& command, GenerationFlags& flags);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_GENERATION_FLAGS_H_
