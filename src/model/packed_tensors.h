// The tensors of a packed model file: their names, shapes and order, the same for the converter
// that writes them and the model that reads them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_PACKED_TENSORS_H_
#define OPST_MODEL_PACKED_TENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "opst/model_config.h"
#include "opst/packed_weights.h"

namespace opst {

// Version of the file, in the metadata under kFormatKey. Older ones are read, newer ones refused.
inline constexpr int kPackedFormat = 1;
inline constexpr std::string_view kFormatKey = "opst_format";
inline constexpr std::string_view kConfigKey = "config";  // the source's config.json
inline constexpr std::string_view kRecipeKey = "recipe";  // ModelConfig::ToJson of it
// Metadata of one tensor: "source.<name>" and "checksum.<name>" (XXH3, 16 hex digits).
inline constexpr std::string_view kSourcePrefix = "source.";
inline constexpr std::string_view kChecksumPrefix = "checksum.";
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
  // Shape in the file for a format: [n], [V,H], or panels [E, panels, K, 16] — for bf16
  // [E, panels, ⌈K/2⌉, 16, 2].
  std::vector<int64_t> shape(WeightFormat format) const;
  // The layout with a format.
  PanelLayout layout_as(WeightFormat format) const;
  uint64_t num_bytes(WeightFormat format) const;
};

// All tensors of a model in file order: the order in which a forward pass reads them.
std::vector<PackedTensor> PackedTensors(const ModelConfig& config);

}  // namespace opst

#endif  // OPST_MODEL_PACKED_TENSORS_H_
