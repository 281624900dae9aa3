// A GGUF file as a model source: its tensors, settings and tokenizer as a Hugging Face folder would
// have them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_GGUF_SOURCE_H_
#define OPST_CONVERT_GGUF_SOURCE_H_

#include <string>
#include <vector>

#include "convert/gguf_names.h"
#include "convert/model_source.h"
#include "io/gguf_checkpoint.h"

namespace opst {

// F32, F16 and BF16 tensors keep their bits; blocks are expanded to `expanded`. Every tensor of the
// file becomes exactly one tensor here, or one per expert; a name without a rule is an error.
class GgufSource final : public ModelSource {
 public:
  GgufSource(const std::string& path, DType expanded);

 private:
  using Stored = GgufCheckpoint::Tensor;

  void AddTensor(const Stored& stored, const GgufMatch& match);
  // Row i is row order(i) of the file's.
  void AddRows(std::string name, const Stored& stored, std::vector<int64_t> shape,
               std::function<int64_t(int64_t)> order);
  void AddSlice(std::string name, const Stored& stored, std::vector<int64_t> shape,
                int64_t first_row);
  void AddExperts(const Stored& stored, const GgufMatch& match);
  void AddHeads(std::string name, const Stored& stored, int64_t num_heads);
  void AddTranspose(std::string name, const Stored& stored, const Stored* odd_columns);
  void AddPairs(std::string name, const Stored& even, const Stored& odd);
  void AddKvUp(std::string name, const Stored& keys, const Stored& values);
  const Stored& Partner(const GgufMatch& match) const;
  DType DTypeFor(const Stored& stored) const;

  GgufCheckpoint checkpoint_;
  DType expanded_;
  int64_t num_heads_ = 0;
  int64_t num_kv_heads_ = 0;
};

}  // namespace opst

#endif  // OPST_CONVERT_GGUF_SOURCE_H_
