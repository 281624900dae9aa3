// `opst bench model`: prefill and decode speed of a packed model, and what memory it takes. Random
// token ids: no text comes out.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_MODEL_BENCH_H_
#define OPST_BENCH_MODEL_BENCH_H_

#include <cstdint>
#include <string>

#include "bench/report.h"
#include "opst/context.h"

namespace opst::bench {

struct ModelBenchOptions {
  std::string path = {};
  int64_t prompt_tokens = 512;  // one call of the model
  int64_t new_tokens = 32;      // one call each, after the prompt
  int runs = 5;
};

// Prefill: GFLOP/s of the matrix products and of attention, beside the measured FMA peak.
// Decode: GB/s of the weights that one token uses, beside the measured read bandwidth with the
// pages that the setting `load` gives (map = 4 KB, read = 2 MB). Peak memory is read before the
// limits are measured, whose buffers are not the model's. Errors: those of Model::Load and
// Model::Forward; kInvalidArgument for counts below 1.
Report RunModelBench(const Context& context, const ModelBenchOptions& options,
                     const ProgressFn& on_progress = {});

}  // namespace opst::bench

#endif  // OPST_BENCH_MODEL_BENCH_H_
