// Conversion of a Hugging Face checkpoint or a GGUF file into one packed, mappable file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_H_
#define OPST_CONVERT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "opst/context.h"
#include "opst/dtype.h"
#include "opst/packed_weights.h"

namespace opst {

// Makes a MoE of a dense Llama or Qwen3 model, with a router of zeros that wants training.
struct MoeOfDenseOptions {
  enum class Kind : uint8_t {
    kNone,
    kUpcycle,  // every expert is a copy of the FFN: the same function as the dense model
    kSplit,    // the FFN's neurons are dealt out to the experts: the same function when k = E
  } kind = Kind::kNone;
  int64_t num_experts = 0;
  int64_t top_k = 0;
};

struct ConvertOptions {
  bool overwrites = false;  // an existing output file
  bool is_strict = false;   // config.json fields that no rule names are errors, not warnings
  // What quantised tensors of the source become: f32, bf16 or f16. Others keep their dtype.
  DType expanded = DType::kBf16;
  // Whether that holds for experts in MXFP4, too, which else stay as they are.
  bool expands_mxfp4 = false;
  // What the matrices of experts, dense blocks and attention are rounded to: int8 or int4, or those
  // of experts alone to mxfp4. Router, norms, biases, embeddings, the head and the latent matrices
  // of heads keep their dtype.
  std::optional<WeightType> quantized = {};
  MoeOfDenseOptions moe_of_dense = {};
  // Called with the tensor bytes written so far and the length of the file, from the calling
  // thread. The last call, when the file stands under its name, has both equal.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> on_progress = {};
};

// What integers lost of a packed tensor: √(Σ (packed - w)² / Σ w²) over its weights w.
struct RoundedTensor {
  std::string name;
  double relative_error = 0;
};

struct ConvertReport {
  std::string family;
  int64_t num_source_tensors = 0;
  uint64_t source_bytes = 0;
  uint64_t output_bytes = 0;
  std::vector<std::string> unused_tensors;  // known not to matter for inference
  std::vector<std::string> unknown_fields;  // of config.json
  std::vector<RoundedTensor> rounded;       // in the order of the file; empty for float weights
};

// Reads `source` and writes `output`. A source is
//   a folder with config.json and *.safetensors, its index file, or any one shard, with weights in
//   F32, BF16, F16, fp8 with block scales, MXFP4, or 4-bit GPTQ or AWQ;
//   a .gguf file, any part of a split one, or a folder with one such model.
// Every source tensor is used exactly once or is known to be unused, and every packed tensor is
// written once; otherwise nothing is written and the error names the rest. Float
// weights keep their dtype. Memory: about 200 MB whatever the size. The output appears under its
// name only when complete. Errors: kIo for a source that is incomplete, unknown or broken, an
// output that exists, a full disk; kInvalidArgument for a weight that integers can't hold.
ConvertReport Convert(const Context& context, const std::string& source, const std::string& output,
                      const ConvertOptions& options = {});

// Errors are largest distances, over the largest value of the plain evaluation.
struct VerifyReport {
  bool is_equal = false;       // all errors within kVerifyTolerance
  double max_error = 0;        // of the logits
  int64_t worst_position = 0;  // of the text, and the token id there
  int64_t worst_token = 0;
  std::vector<double> layer_errors;    // of the residual stream behind each layer
  int64_t first_diverging_layer = -1;  // -1 = none
};

// Weights have the same bits on both sides, so only roundings of f32 activations differ: about 1e-6
// a layer. A wrong tensor gives errors of the order of 1.
inline constexpr double kVerifyTolerance = 1e-3;

// Runs a fixed text of 16 tokens through `output`, which Convert wrote with these options, and
// through a plain evaluation of `source`: loops in f64 over the source's own tensors, without
// panels or kernels of the library. Quantised tensors count as what they were expanded to. Slow:
// about a second per 10^8 weights used. Errors: as Convert; kIo when the file is not of this
// source; kInvalidArgument for integer weights, whose rounding shows in every logit.
VerifyReport Verify(const Context& context, const std::string& source, const std::string& output,
                    const ConvertOptions& options = {});

// The way back: writes the float tensors of a packed file, bit for bit, under the names and in the
// layout (one tensor per expert, or fused) of the checkpoint it was made of, into a new `folder`
// with config.json and the text files. Memory: the largest tensor. Errors: kIo for a folder that
// exists, or a file that Convert did not write.
void ExportToHuggingFace(const std::string& packed, const std::string& folder);

}  // namespace opst

#endif  // OPST_CONVERT_H_
