// The tensors of a packed model file: their names, shapes and order, the same for the converter
// that writes them and the model that reads them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_PACKED_TENSORS_H_
#define OPST_MODEL_PACKED_TENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opst/model_config.h"
#include "opst/packed_weights.h"

namespace opst {

// Version of the file, in the metadata under kFormatKey. Older ones are read, newer ones refused.
// 2: int8 and int4 panels, and a checksum of the header itself.
inline constexpr int kPackedFormat = 2;
inline constexpr std::string_view kFormatKey = "opst_format";
inline constexpr std::string_view kConfigKey = "config";  // the source's config.json
inline constexpr std::string_view kRecipeKey = "recipe";  // ModelConfig::ToJson of it
// Metadata of one tensor: "source.<name>" and "checksum.<name>" (XXH3, 16 hex digits).
inline constexpr std::string_view kSourcePrefix = "source.";
inline constexpr std::string_view kChecksumPrefix = "checksum.";
// Metadata of the header: HeaderChecksum, in formats from 2 on.
inline constexpr std::string_view kHeaderChecksumKey = "header_checksum";
inline constexpr int kFirstFormatWithHeaderChecksum = 2;
// Text files of the source kept as U8 tensors: "file.tokenizer.json".
inline constexpr std::string_view kFilePrefix = "file.";

enum class Role : uint8_t {
  kEmbedding,          // [V,H] rows; absent when tied: then rows are read from kHead
  kAttentionNorm,      // [H]
  kAttentionNormBias,  // [H]
  kQkv,                // [(heads + 2·kv heads)·d, H] panels: queries, keys, values
  kQkvBias,            // [(heads + 2·kv heads)·d]
  kQueryNorm,          // [d] or [heads·d]
  kKeyNorm,            // [d] or [kv heads·d]
  kSinks,              // [heads]
  kQueryDown,          // [query_rank, H] panels
  kQueryDownNorm,      // [query_rank]
  kQueryUp,            // [heads·d, query_rank or H] panels
  kKvDown,             // [kv_rank + rope dim, H] panels
  kKvDownNorm,         // [kv_rank]
  kKeyUp,              // heads x [kv_rank, content_dim] panels: a query's content into the rank
  kValueUp,            // heads x [value_dim, kv_rank] panels
  kAttentionOut,       // [H, heads·d] panels
  kAttentionOutBias,   // [H]
  kFfnNorm,            // [H]
  kFfnNormBias,        // [H]
  kRouterHidden,       // [hidden_dim,H] panels
  kRouter,             // [E,H] or [E,hidden_dim] panels
  kRouterBias,         // [E]
  kSelectionBias,      // [E]
  kGateUp,             // E x [2F,H] panels
  kGateUpBias,         // [E·2F]
  kDown,               // E x [H,F] panels
  kDownBias,           // [E·H]
  kSharedGate,         // [1,H] panels
  kSharedGateUp,       // [2F,H] panels
  kSharedDown,         // [H,F] panels
  kDenseGateUp,        // [2F,H] panels
  kDenseDown,          // [H,F] panels
  kFinalNorm,          // [H]
  kFinalNormBias,      // [H]
  kHead,               // [V,H] panels
  kHeadBias,           // [V]
};

enum class Storage : uint8_t { kVector, kRows, kPanels };

struct PackedTensor {
  Role role;
  int64_t layer = -1;  // -1 = not of a layer
  Storage storage;
  int64_t num_matrices = 1;  // E
  PanelLayout layout;        // out, in and order; the format is the source's dtype

  // "head", "layers.3.moe.gate_up"
  std::string name() const;
  // Whether a converter may round it to an integer format: matrices of experts, dense blocks and
  // attention; to mxfp4 those of experts alone, as its checkpoints do. Not the router, the head,
  // embeddings, norms, biases and the small matrices of latent heads.
  bool is_quantizable_to(WeightFormat format) const;
  // Shape in the file for a type: [n], [V,H], or panels [E, panels, K, 16] — for bf16
  // [E, panels, ⌈K/2⌉, 16, 2], for integers [E, panels, groups, bytes of a group with its scales],
  // of mxfp4 the bytes as [18, 16].
  std::vector<int64_t> shape(WeightType type) const;
  // The layout with a type.
  PanelLayout layout_as(WeightType type) const;
};

// The type of panels that a tensor of this dtype and shape holds; none if there is no such.
std::optional<WeightType> TypeOfPanels(DType dtype, const std::vector<int64_t>& shape);
// What a file calls the elements of a type: f32, bf16, f16, i8 for int8 panels, u8 for int4.
DType StoredDType(WeightFormat format);

// Name, dtype and shape of a tensor of the file.
struct HeaderEntry {
  std::string_view name;
  std::string_view dtype;
  std::vector<int64_t> shape;
};
// Over the metadata, but for its own entry, and over the tensors, but for padding. 16 hex digits.
std::string HeaderChecksum(const std::map<std::string, std::string>& metadata,
                           std::vector<HeaderEntry> tensors);

// All tensors of a model in file order: the order in which a forward pass reads them.
std::vector<PackedTensor> PackedTensors(const ModelConfig& config);

}  // namespace opst

#endif  // OPST_MODEL_PACKED_TENSORS_H_
