// The decoder's outline in plain loops: weights, norms, embedding, layers, logits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "convert/plain_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "io/safetensors_dtype.h"
#include "kernels/rows.h"

namespace opst {
namespace {

// The elements of a part, row by row, appended to `values`.
void AppendPart(const ModelSource& source, const SourceRows& part, std::vector<double>& values) {
  const DType dtype = *DTypeFromSafetensors(part.tensor->tensor->dtype);
  const SourceStrides strides =
      part.strides.value_or(SourceStrides{part.first_row * part.columns, part.columns, 1});
  const int64_t last =
      strides.first + (part.num_rows - 1) * strides.row + (part.columns - 1) * strides.column;
  const auto count = static_cast<size_t>(last + 1 - strides.first);
  const SourceBytes bytes =
      source.Read(*part.tensor, static_cast<uint64_t>(strides.first) * ByteSize(dtype),
                  count * ByteSize(dtype));
  std::vector<float> floats(count);
  ConvertToFloat(dtype, bytes.bytes().data(), count, floats.data());
  for (int64_t row = 0; row < part.num_rows; ++row) {
    for (int64_t column = 0; column < part.columns; ++column) {
      const int64_t at = row * strides.row + column * strides.column;
      values.push_back(static_cast<double>(floats[static_cast<size_t>(at)]));
    }
  }
}

}  // namespace

const MappedTensor* PlainModel::Find(Role role, int64_t layer) const {
  const auto& tensors = sources_.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const MappedTensor& tensor) {
    return tensor.packed.role == role && tensor.packed.layer == layer;
  });
  return found == tensors.end() ? nullptr : &*found;
}

PlainMatrix PlainModel::Weights(Role role, int64_t layer, int64_t index) const {
  const MappedTensor* tensor = Find(role, layer);
  OPST_CHECK_ARG(tensor != nullptr, "plain_model", "the model must have the tensor asked for",
                 "role ", static_cast<int>(role), " of layer ", layer);
  PlainMatrix matrix;
  matrix.rows = tensor->packed.layout.out;
  matrix.columns = tensor->packed.layout.in;
  for (const SourceRows& part : tensor->matrices[static_cast<size_t>(index)].parts) {
    AppendPart(source_, part, matrix.values);
  }
  return matrix;
}

std::vector<double> PlainModel::Vector(Role role, int64_t layer) const {
  std::vector<double> values;
  const MappedTensor* tensor = Find(role, layer);
  if (tensor == nullptr) return values;
  for (const SourceRows& part : tensor->matrices.front().parts) AppendPart(source_, part, values);
  return values;
}

PlainMatrix PlainModel::Linear(const PlainMatrix& x, Role weights, int64_t layer,
                               int64_t index) const {
  const PlainMatrix w = Weights(weights, layer, index);
  PlainMatrix y(x.rows, w.rows);
  for (int64_t n = 0; n < w.rows; ++n) {
    for (int64_t t = 0; t < x.rows; ++t) {
      double sum = 0;
      for (int64_t k = 0; k < w.columns; ++k) sum += w.row(n)[k] * x.row(t)[k];
      y.row(t)[n] = sum;
    }
  }
  return y;
}

PlainMatrix PlainModel::Linear(const PlainMatrix& x, Role weights, int64_t layer, Role bias) const {
  PlainMatrix y = Linear(x, weights, layer);
  const std::vector<double> b = Vector(bias, layer);
  for (int64_t t = 0; t < y.rows && !b.empty(); ++t) {
    for (int64_t n = 0; n < y.columns; ++n) y.row(t)[n] += b[static_cast<size_t>(n)];
  }
  return y;
}

PlainMatrix PlainModel::Norm(const PlainMatrix& x, Role weight, Role bias, int64_t layer) const {
  const std::vector<double> w = Vector(weight, layer);
  const std::vector<double> b = Vector(bias, layer);
  PlainMatrix y = x;
  for (int64_t t = 0; t < x.rows; ++t) {
    double* row = y.row(t);
    const auto n = static_cast<double>(x.columns);
    double mean = 0;
    if (config_.norm_kind == NormKind::kLayer) {
      for (int64_t h = 0; h < x.columns; ++h) mean += row[h] / n;
    }
    double square = 0;
    for (int64_t h = 0; h < x.columns; ++h) square += (row[h] - mean) * (row[h] - mean) / n;
    const double scale = 1 / std::sqrt(square + static_cast<double>(config_.norm_eps));
    for (int64_t h = 0; h < x.columns; ++h) {
      const auto i = static_cast<size_t>(h);
      row[h] = (row[h] - mean) * scale * w[i] + (b.empty() ? 0 : b[i]);
    }
  }
  return y;
}

PlainMatrix PlainModel::Embed(std::span<const int32_t> tokens) const {
  const Role role = config_.ties_embeddings ? Role::kHead : Role::kEmbedding;
  const PlainMatrix table = Weights(role, -1);
  PlainMatrix x(static_cast<int64_t>(tokens.size()), config_.hidden());
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t h = 0; h < x.columns; ++h) {
      x.row(t)[h] = table.row(tokens[static_cast<size_t>(t)])[h] *
                    static_cast<double>(config_.embedding_scale);
    }
  }
  return x;
}

PlainMatrix PlainModel::Evaluate(
    std::span<const int32_t> tokens,
    const std::function<void(int64_t layer, const PlainMatrix& x)>& on_layer) const {
  PlainMatrix x = Embed(tokens);
  const auto add = [&](const PlainMatrix& delta) {
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] += delta.values[i] * static_cast<double>(config_.residual_scale);
    }
  };
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    add(Attention(Norm(x, Role::kAttentionNorm, Role::kAttentionNormBias, layer), layer));
    add(Ffn(Norm(x, Role::kFfnNorm, Role::kFfnNormBias, layer), layer));
    if (on_layer) on_layer(layer, x);
  }
  const PlainMatrix normed = Norm(x, Role::kFinalNorm, Role::kFinalNormBias, -1);
  PlainMatrix logits = Linear(normed, Role::kHead, -1, Role::kHeadBias);
  for (double& logit : logits.values) logit /= static_cast<double>(config_.logit_divisor);
  return logits;
}

}  // namespace opst
