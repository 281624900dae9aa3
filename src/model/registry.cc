// The list of families. How one is read stands in its file in arch/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/check.h"
#include "model/family.h"

// One line per family: the name of the function in its file, in the order of the docs. A macro,
// because a function must be declared before it is called, and the name should stand here once.
#define OPST_FAMILIES(FAMILY) \
  FAMILY(Mixtral)             \
  FAMILY(Olmoe)               \
  FAMILY(Qwen2Moe)            \
  FAMILY(Qwen3Moe)            \
  FAMILY(DeepseekV2)          \
  FAMILY(DeepseekV3)          \
  FAMILY(GptOss)              \
  FAMILY(Glm4Moe)             \
  FAMILY(GraniteMoe)          \
  FAMILY(Ernie45Moe)          \
  FAMILY(PhiMoe)              \
  FAMILY(LlamaMoe)            \
  FAMILY(Llama)               \
  FAMILY(Qwen2)               \
  FAMILY(Qwen3)

namespace opst {

#define OPST_DECLARE(NAME) Family NAME();
OPST_FAMILIES(OPST_DECLARE)
#undef OPST_DECLARE

namespace {

// Fields that say nothing about inference, in any family.
void IgnoreTrainingFields(ConfigReader& config) {
  config.Ignore({"_name_or_path", "architectures", "attention_dropout", "auto_map", "bos_token_id",
                 "dtype", "initializer_range", "output_router_logits", "pad_token_id",
                 "router_aux_loss_coef", "torch_dtype", "transformers_version", "use_cache"});
}

}  // namespace

std::span<const Family> Families() {
#define OPST_ENTRY(NAME) NAME(),
  static const std::array families{OPST_FAMILIES(OPST_ENTRY)};
#undef OPST_ENTRY
  return families;
}

const Family& FindFamily(std::string_view model_type, const std::string& file) {
  std::string known;
  for (const Family& family : Families()) {
    if (family.model_type == model_type) return family;
    known += Concat(known.empty() ? "" : ", ", family.model_type);
  }
  ThrowIo(file, Concat("model_type must be one of ", known), model_type);
}

ModelConfig ReadModelConfig(std::string_view json, const std::string& file,
                            std::vector<std::string>* unknown_fields) {
  ConfigReader config(json, file);
  const Family& family = FindFamily(config.String("model_type"), file);
  ModelConfig model = family.read_config(config);
  model.family = family.model_type;
  IgnoreTrainingFields(config);
  if (unknown_fields != nullptr) *unknown_fields = config.UnaskedKeys();
  return model;
}

std::string TensorName(std::string_view pattern, int64_t layer, int64_t expert) {
  std::string name(pattern);
  const auto replace = [&](std::string_view mark, int64_t number) {
    const size_t at = name.find(mark);
    if (at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
  };
  replace("{layer}", layer);
  replace("{next}", layer);
  replace("{expert}", expert);
  return name;
}

bool MatchesPattern(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view prefix = pattern.substr(0, star);
  const std::string_view suffix = pattern.substr(star + 1);
  return name.size() >= prefix.size() + suffix.size() && name.starts_with(prefix) &&
         name.ends_with(suffix);
}

}  // namespace opst
