// A Hugging Face folder as a model source; what it stores quantised appears under the plain name.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_SAFETENSORS_SOURCE_H_
#define OPST_CONVERT_SAFETENSORS_SOURCE_H_

#include <set>
#include <string>
#include <string_view>

#include "convert/model_source.h"

namespace opst {

// Understood `quantization_config.quant_method`s and the tensors that replace NAME:
//   fp8    NAME F8_E4M3 [.., N, K] with NAME_scale_inv [.., ⌈N/b⌉, ⌈K/c⌉], b and c from
//          weight_block_size: w · scale of its block
//   mxfp4  NAME_blocks U8 [E, N, K/32, 16] with NAME_scales U8 [E, N, K/32], appearing transposed
//          as [E, K, N], which is how the plain checkpoints of that family store NAME
//   gptq   NAME without "weight" + qweight, qzeros, scales, g_idx: 4 bits, packed along K; without
//          g_idx, which desc_act needs, groups are runs of group_size inputs, the last may be short
//   awq    the same without g_idx: 4 bits, packed along N in AWQ's order
// Any other method is refused by name.
class SafetensorsSource final : public ModelSource {
 public:
  SafetensorsSource(const std::string& path, DType expanded);

 private:
  void ReadConfig();
  void AddTensors(DType expanded);

  ShardedCheckpoint checkpoint_;
  struct Quantisation {
    std::string method;  // empty = none
    int64_t block_rows = 0;
    int64_t block_columns = 0;
    int64_t group_size = 0;   // gptq and awq: inputs that share a scale; -1 = all
    bool is_ordered = true;   // gptq: groups are runs of inputs, so g_idx may be missing
    int64_t zero_offset = 0;  // gptq: what the stored zero points lack
  } quantisation_;

  // Adds the expanded tensor that `source` is a part of, and notes the parts it used.
  bool AddFp8(const SourceTensor& source, DType expanded);
  bool AddMxfp4(const SourceTensor& source, DType expanded);
  bool AddInt4(const SourceTensor& source, DType expanded);
  const SourceTensor& Part(const std::string& name, std::string_view dtypes,
                           const std::vector<int64_t>& shape);
  std::set<std::string_view> parts_;  // names that are parts of an expanded tensor
};

}  // namespace opst

#endif  // OPST_CONVERT_SAFETENSORS_SOURCE_H_
