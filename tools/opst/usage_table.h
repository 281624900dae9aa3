// The table of experts per token that `opst generate --expert-usage` prints.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_USAGE_TABLE_H_
#define OPST_TOOLS_OPST_USAGE_TABLE_H_

#include "opst/engine.h"
#include "runtime/expert_usage.h"

namespace opst::tool {

// To standard output: one line per token with its experts in each layer, then every layer's share
// per expert.
void PrintUsage(const Engine& engine, const std::vector<GenerateResult>& results,
                const ExpertUsage& usage);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_USAGE_TABLE_H_
