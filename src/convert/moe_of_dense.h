// A dense Llama or Qwen3 checkpoint seen as a MoE checkpoint with an untrained router; nothing is
// trained or copied here.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_MOE_OF_DENSE_H_
#define OPST_CONVERT_MOE_OF_DENSE_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "convert/model_source.h"
#include "opst/convert.h"

namespace opst {

// kUpcycle (Komatsuzaki et al. 2023): every expert is the dense FFN; weights of the chosen ones sum
// to 1. kSplit (LLaMA-MoE, Zhu et al. 2024): expert e has neurons [eF/E, (e+1)F/E) and weight 1.
// The router is zeros, so all experts score alike and the lowest ids are taken. Then upcycling
// gives the dense model's function for any k, and splitting does for k = E.
//   llama → mixtral or llama_moe;  qwen3 → qwen3_moe (upcycling only)
class MoeOfDense final : public ModelSource {
 public:
  // Throws kInvalidArgument for numbers that make no MoE, kIo for a source of another family.
  MoeOfDense(std::unique_ptr<const ModelSource> dense, const MoeOfDenseOptions& options);

 private:
  void WriteConfig(nlohmann::ordered_json& config);
  void AddLayer(int64_t layer);
  void AddRouter(int64_t layer, const SourceTensor& like);
  void AddCopy(std::string name, const SourceTensor& dense);
  void AddRows(std::string name, const SourceTensor& dense, int64_t expert);
  void AddColumns(std::string name, const SourceTensor& dense, int64_t expert);
  const SourceTensor& Dense(int64_t layer, std::string_view role) const;

  std::unique_ptr<const ModelSource> dense_;
  MoeOfDenseOptions options_;
  std::string model_type_;
};

}  // namespace opst

#endif  // OPST_CONVERT_MOE_OF_DENSE_H_
