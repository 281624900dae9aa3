// A decoder evaluated by obvious loops in double, straight from the source's tensors: what a
// converted file is compared with. Never fast, and shares no kernel and no panel with the library.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_PLAIN_MODEL_H_
#define OPST_CONVERT_PLAIN_MODEL_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "convert/model_source.h"
#include "convert/source_map.h"
#include "opst/model_config.h"

namespace opst {

// Rows of doubles, one below the other.
struct PlainMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  PlainMatrix() = default;
  PlainMatrix(int64_t num_rows, int64_t num_columns)
      : rows(num_rows),
        columns(num_columns),
        values(static_cast<size_t>(num_rows * num_columns), 0.0) {}
  double* row(int64_t index) { return values.data() + index * columns; }
  const double* row(int64_t index) const { return values.data() + index * columns; }
};

// Holds one matrix of the model at a time. The only thing taken from the library are the angles of
// the rotary embedding.
class PlainModel {
 public:
  // All must outlive this object.
  PlainModel(const ModelSource& source, const SourceMap& sources, const ModelConfig& config)
      : source_(source), sources_(sources), config_(config) {}

  // Logits [T,V] of a text that begins with tokens[0]; `on_layer` gets the residual stream [T,H]
  // behind each layer.
  PlainMatrix Evaluate(
      std::span<const int32_t> tokens,
      const std::function<void(int64_t layer, const PlainMatrix& x)>& on_layer = {}) const;

 private:
  const MappedTensor* Find(Role role, int64_t layer) const;
  // [out, in] of one matrix of a tensor.
  PlainMatrix Weights(Role role, int64_t layer, int64_t index = 0) const;
  // Empty when the model has no such tensor.
  std::vector<double> Vector(Role role, int64_t layer) const;
  // x Wᵀ, plus the bias if there is one.
  PlainMatrix Linear(const PlainMatrix& x, Role weights, int64_t layer, Role bias) const;
  PlainMatrix Linear(const PlainMatrix& x, Role weights, int64_t layer, int64_t index = 0) const;
  PlainMatrix Norm(const PlainMatrix& x, Role weight, Role bias, int64_t layer) const;

  PlainMatrix Embed(std::span<const int32_t> tokens) const;
  // In plain_attention.cc
  PlainMatrix Attention(const PlainMatrix& x, int64_t layer) const;
  PlainMatrix HeadAttention(const PlainMatrix& x, int64_t layer) const;
  PlainMatrix LatentAttention(const PlainMatrix& x, int64_t layer) const;
  // In plain_ffn.cc
  PlainMatrix Ffn(const PlainMatrix& x, int64_t layer) const;
  PlainMatrix Gated(const PlainMatrix& x, Role gate_up, Role down, int64_t layer,
                    int64_t index = 0) const;
  void AddExpert(const PlainMatrix& x, int64_t layer, int64_t expert, std::span<const double> share,
                 PlainMatrix* out) const;
  void AddShared(const PlainMatrix& x, int64_t layer, PlainMatrix* out) const;

  const ModelSource& source_;
  const SourceMap& sources_;
  const ModelConfig& config_;
};

}  // namespace opst

#endif  // OPST_CONVERT_PLAIN_MODEL_H_
