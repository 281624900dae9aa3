// Attention in plain loops: heads with keys and values of their own, and latent attention.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "convert/plain_model.h"
#include "nn/rope.h"

namespace opst {
namespace {

// Turns the first `dim` elements of a head by the angles of its position.
void Rotate(const RopeRecipe& recipe, const Rope::Angles& angles, double* head) {
  const auto half = static_cast<int64_t>(angles.cosines.size());
  for (int64_t i = 0; i < half; ++i) {
    double& a = head[recipe.is_interleaved ? 2 * i : i];
    double& b = head[recipe.is_interleaved ? 2 * i + 1 : i + half];
    const auto cosine = static_cast<double>(angles.cosines[static_cast<size_t>(i)]);
    const auto sine = static_cast<double>(angles.sines[static_cast<size_t>(i)]);
    const double first = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = first;
  }
}

// RMS norm of `n` elements in place.
void NormRun(const std::vector<double>& weight, float eps, double* run) {
  double square = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    square += run[i] * run[i] / static_cast<double>(weight.size());
  }
  const double scale = 1 / std::sqrt(square + static_cast<double>(eps));
  for (size_t i = 0; i < weight.size(); ++i) run[i] *= scale * weight[i];
}

// softmax(scores) with one more score that takes weight only, if there is a sink.
void Softmax(std::vector<double>& scores, const double* sink) {
  double max = *std::max_element(scores.begin(), scores.end());
  if (sink != nullptr) max = std::max(max, *sink);
  double sum = sink == nullptr ? 0 : std::exp(*sink - max);
  for (double& score : scores) sum += score = std::exp(score - max);
  for (double& score : scores) score /= sum;
}

double ScaleOf(const AttentionRecipe& recipe) {
  return recipe.score_scale > 0 ? static_cast<double>(recipe.score_scale)
                                : 1 / std::sqrt(static_cast<double>(recipe.head_dim));
}

// One head of one token over the positions it sees. Keys and values are rows of `key_dim` and
// `value_dim` elements from column `key_at` and `value_at` on.
void AttendOne(const double* query, double scale, const double* sink, int64_t first, int64_t last,
               const PlainMatrix& keys, int64_t key_at, int64_t key_dim, const PlainMatrix& values,
               int64_t value_at, int64_t value_dim, double* out) {
  std::vector<double> weights;
  for (int64_t p = first; p <= last; ++p) {
    double dot = 0;
    for (int64_t i = 0; i < key_dim; ++i) dot += query[i] * keys.row(p)[key_at + i];
    weights.push_back(dot * scale);
  }
  Softmax(weights, sink);
  for (int64_t p = first; p <= last; ++p) {
    for (int64_t i = 0; i < value_dim; ++i) {
      out[i] += weights[static_cast<size_t>(p - first)] * values.row(p)[value_at + i];
    }
  }
}

}  // namespace

PlainMatrix PlainModel::Attention(const PlainMatrix& x, int64_t layer) const {
  const PlainMatrix heads =
      config_.attention.is_latent() ? LatentAttention(x, layer) : HeadAttention(x, layer);
  return Linear(heads, Role::kAttentionOut, layer, Role::kAttentionOutBias);
}

PlainMatrix PlainModel::HeadAttention(const PlainMatrix& x, int64_t layer) const {
  const AttentionRecipe& recipe = config_.attention;
  const Rope rope(recipe.rope);
  PlainMatrix qkv = Linear(x, Role::kQkv, layer, Role::kQkvBias);
  const std::vector<double> query_norm = Vector(Role::kQueryNorm, layer);
  const std::vector<double> key_norm = Vector(Role::kKeyNorm, layer);
  const std::vector<double> sinks = Vector(Role::kSinks, layer);
  const int64_t keys_at = recipe.query_width();
  const int64_t values_at = keys_at + recipe.kv_width();
  for (int64_t t = 0; t < x.rows; ++t) {
    const auto prepare = [&](const std::vector<double>& norm, int64_t begin, int64_t width) {
      double* run = qkv.row(t) + begin;
      for (int64_t i = 0; !norm.empty() && i < width; i += static_cast<int64_t>(norm.size())) {
        NormRun(norm, config_.norm_eps, run + i);
      }
      const auto clip = static_cast<double>(recipe.qkv_clip);
      for (int64_t i = 0; clip > 0 && i < width; ++i) run[i] = std::clamp(run[i], -clip, clip);
    };
    prepare(query_norm, 0, recipe.query_width());
    prepare(key_norm, keys_at, recipe.kv_width());
    prepare({}, values_at, recipe.kv_width());
    const Rope::Angles angles = rope.At(t, x.rows);
    for (int64_t i = 0; i < values_at; i += recipe.head_dim) {
      Rotate(recipe.rope, angles, qkv.row(t) + i);
    }
  }
  const int64_t window = config_.window(layer);
  const int64_t group = recipe.num_heads / recipe.num_kv_heads;
  PlainMatrix out(x.rows, recipe.output_width());
  for (int64_t t = 0; t < x.rows; ++t) {
    const int64_t first = window > 0 ? std::max<int64_t>(0, t - window + 1) : 0;
    for (int64_t h = 0; h < recipe.num_heads; ++h) {
      const int64_t shared = h / group * recipe.head_dim;
      AttendOne(qkv.row(t) + h * recipe.head_dim, ScaleOf(recipe),
                sinks.empty() ? nullptr : &sinks[static_cast<size_t>(h)], first, t, qkv,
                keys_at + shared, recipe.head_dim, qkv, values_at + shared, recipe.head_dim,
                out.row(t) + h * recipe.head_dim);
    }
  }
  return out;
}

// As the family's paper writes it: keys and values of every head are computed from the latents.
PlainMatrix PlainModel::LatentAttention(const PlainMatrix& x, int64_t layer) const {
  const AttentionRecipe& recipe = config_.attention;
  const LatentRecipe& latent = recipe.latent;
  const Rope rope(recipe.rope);
  PlainMatrix down = x;
  if (latent.query_rank > 0) {
    down = Linear(x, Role::kQueryDown, layer);
    const std::vector<double> norm = Vector(Role::kQueryDownNorm, layer);
    for (int64_t t = 0; t < x.rows; ++t) NormRun(norm, latent.norm_eps, down.row(t));
  }
  PlainMatrix queries = Linear(down, Role::kQueryUp, layer);
  PlainMatrix latents = Linear(x, Role::kKvDown, layer);
  const std::vector<double> norm = Vector(Role::kKvDownNorm, layer);
  for (int64_t t = 0; t < x.rows; ++t) {
    const Rope::Angles angles = rope.At(t, x.rows);
    NormRun(norm, latent.norm_eps, latents.row(t));
    Rotate(recipe.rope, angles, latents.row(t) + latent.kv_rank);
    for (int64_t h = 0; h < recipe.num_heads; ++h) {
      Rotate(recipe.rope, angles, queries.row(t) + h * recipe.head_dim + latent.content_dim);
    }
  }
  PlainMatrix out(x.rows, recipe.output_width());
  for (int64_t h = 0; h < recipe.num_heads; ++h) {
    const PlainMatrix key_up = Weights(Role::kKeyUp, layer, h);      // [rank, content]
    const PlainMatrix value_up = Weights(Role::kValueUp, layer, h);  // [value, rank]
    PlainMatrix keys(x.rows, recipe.head_dim);
    PlainMatrix values(x.rows, latent.value_dim);
    for (int64_t t = 0; t < x.rows; ++t) {
      for (int64_t r = 0; r < latent.kv_rank; ++r) {
        const double element = latents.row(t)[r];
        for (int64_t c = 0; c < latent.content_dim; ++c) {
          keys.row(t)[c] += key_up.row(r)[c] * element;
        }
        for (int64_t v = 0; v < latent.value_dim; ++v) {
          values.row(t)[v] += value_up.row(v)[r] * element;
        }
      }
      std::copy_n(latents.row(t) + latent.kv_rank, recipe.rope.dim,
                  keys.row(t) + latent.content_dim);
    }
    for (int64_t t = 0; t < x.rows; ++t) {
      AttendOne(queries.row(t) + h * recipe.head_dim, ScaleOf(recipe), nullptr, 0, t, keys, 0,
                recipe.head_dim, values, 0, latent.value_dim, out.row(t) + h * latent.value_dim);
    }
  }
  return out;
}

}  // namespace opst
