// Conversion of a Hugging Face checkpoint or a GGUF file into one packed, mappable file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_H_
#define OPST_CONVERT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "opst/context.h"
#include "opst/dtype.h"

namespace opst {

struct ConvertOptions {
  bool overwrites = false;  // an existing output file
  bool is_strict = false;   // config.json fields that no rule names are errors, not warnings
  // What quantised tensors of the source become: f32, bf16 or f16. Others keep their dtype.
  DType expanded = DType::kBf16;
  // Called with the tensor bytes written so far and the length of the file, from the calling
  // thread. The last call, when the file stands under its name, has both equal.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> on_progress = {};
};

struct ConvertReport {
  std::string family;
  int64_t num_source_tensors = 0;
  uint64_t source_bytes = 0;
  uint64_t output_bytes = 0;
  std::vector<std::string> unused_tensors;  // known not to matter for inference
  std::vector<std::string> unknown_fields;  // of config.json
};

// Reads `source` and writes `output`. A source is
//   a folder with config.json and *.safetensors, its index file, or any one shard, with weights in
//   F32, BF16, F16, fp8 with block scales, MXFP4, or 4-bit GPTQ or AWQ;
//   a .gguf file, any part of a split one, or a folder with one such model.
// Every source tensor is used exactly once or is known to be unused, and every packed tensor is
// written once; otherwise nothing is written and the error names the rest. Float
// weights keep their dtype. Memory: about 200 MB whatever the size. The output appears under its
// name only when complete. Errors: kIo for a source that is incomplete, unknown or broken, an
// output that exists, a full disk.
ConvertReport Convert(const Context& context, const std::string& source, const std::string& output,
                      const ConvertOptions& options = {});

}  // namespace opst

#endif  // OPST_CONVERT_H_
