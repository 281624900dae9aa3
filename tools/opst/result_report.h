// What `opst generate` says about finished texts: speed, probabilities, JSON.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_RESULT_REPORT_H_
#define OPST_TOOLS_OPST_RESULT_REPORT_H_

#include <string>
#include <vector>

#include "opst/engine.h"

namespace opst::tool {

// One line to standard error.
void PrintSpeed(const GenerateResult& result);

// One line per new token to standard output.
void PrintLogProbs(const Engine& engine, const GenerateResult& result);

// A list with one object per text; `lines` where each prompt stands in its file, or empty.
std::string ResultsJson(const Engine& engine, const std::vector<GenerateResult>& results,
                        const std::vector<int64_t>& lines);

// The token's text on one line, in brackets so that spaces show.
std::string TokenLabel(const Engine& engine, int32_t token);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_RESULT_REPORT_H_
