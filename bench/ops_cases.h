// The operators that `opst bench ops` times, each as a call with inputs and an output. Nothing is
// timed here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_OPS_CASES_H_
#define OPST_BENCH_OPS_CASES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/shape.h"
#include "opst/context.h"

namespace opst::bench {

struct OpsInputs;

struct OperatorCase {
  std::string name;  // of the C++ function
  std::function<void(const Context& context)> run;
  std::function<std::vector<float>()> result;  // what the last run made
  double bytes = 0;                            // that must be moved
  double flop = 0;
};

// All operators on `num_tokens` tokens of a layer; inputs live as long as the cases.
std::vector<OperatorCase> OperatorCases(const Context& context, const LayerShape& shape,
                                        int64_t num_tokens);

// Bytes that the cases hold.
size_t OperatorCaseBytes(const LayerShape& shape, int64_t num_tokens);

}  // namespace opst::bench

#endif  // OPST_BENCH_OPS_CASES_H_
