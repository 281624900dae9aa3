// The layer in f64, one expert after the other, with its rounding bound.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "bench/wrong_result.h"

namespace opst::bench {
namespace {

constexpr double kRounding = 0x1p-24;

// Σ w·x, Σ |w·x| and Σ |w|.
struct DotSums {
  double sum = 0;
  double magnitude = 0;
  double weights = 0;
};

DotSums Dot(const float* weights, const float* x, int64_t n) {
  DotSums sums;
  for (int64_t i = 0; i < n; ++i) {
    const double product = static_cast<double>(weights[i]) * static_cast<double>(x[i]);
    sums.sum += product;
    sums.magnitude += std::fabs(product);
    sums.weights += std::fabs(static_cast<double>(weights[i]));
  }
  return sums;
}

// Activations of one expert and one token with the bound of each.
struct Activations {
  std::vector<double> value;  // [F]
  std::vector<double> bound;  // [F]
};

Activations ComputeActivations(const Context& context, const LayerShape& shape, double step,
                               const float* gate_up, const float* x) {
  const auto ffn = static_cast<size_t>(shape.ffn);
  const double slack = static_cast<double>(shape.hidden) * kRounding;
  double largest = 0;
  for (int64_t i = 0; i < shape.hidden; ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
  }
  Activations h{std::vector<double>(ffn), std::vector<double>(ffn)};
  context.pool().ParallelFor(ffn, [&](size_t f, int) {
    const float* gate_row = gate_up + static_cast<int64_t>(f) * shape.hidden;
    const DotSums gate = Dot(gate_row, x, shape.hidden);
    const DotSums up = Dot(gate_row + shape.ffn * shape.hidden, x, shape.hidden);
    const double silu = gate.sum / (1 + std::exp(-gate.sum));
    const double gate_error = slack * gate.magnitude + step * largest * gate.weights;
    const double up_error = slack * up.magnitude + step * largest * up.weights;
    const double silu_error = 1.1 * gate_error + 8 * kRounding * std::fabs(silu);
    h.value[f] = silu * up.sum;
    h.bound[f] = silu_error * (std::fabs(up.sum) + up_error) + std::fabs(silu) * up_error +
                 kRounding * std::fabs(h.value[f]);
  });
  double most = 0;
  for (size_t f = 0; f < ffn; ++f) most = std::max(most, std::fabs(h.value[f]) + h.bound[f]);
  for (double& bound : h.bound) bound += step * most;  // they are rounded in their turn
  return h;
}

// row += weight · W_down h.
void AddExpert(const Context& context, const LayerShape& shape, const float* down, double weight,
               const Activations& h, CheckedRow& row) {
  const double slack = static_cast<double>(shape.ffn) * kRounding;
  context.pool().ParallelFor(static_cast<size_t>(shape.hidden), [&](size_t n, int) {
    const float* down_row = down + static_cast<int64_t>(n) * shape.ffn;
    double sum = 0;
    double magnitude = 0;
    double error = 0;
    for (size_t f = 0; f < h.value.size(); ++f) {
      const double w = down_row[f];
      sum += w * h.value[f];
      magnitude += std::fabs(w * h.value[f]);
      error += std::fabs(w) * h.bound[f];
    }
    row.expected[n] += weight * sum;
    row.bound[n] += weight * (error + slack * magnitude) + 64 * kRounding * weight * std::fabs(sum);
  });
}

}  // namespace

std::vector<CheckedRow> ComputeRows(const Context& context, const LayerShape& shape,
                                    const LayerNumerics& numerics, const PlainExperts* plain,
                                    std::span<const float> x, std::span<const int32_t> ids,
                                    std::span<const float> weights,
                                    std::span<const int64_t> tokens) {
  const auto hidden = static_cast<size_t>(shape.hidden);
  AlignedBuffer own;
  if (plain == nullptr) {
    own = AlignedBuffer(static_cast<size_t>(shape.expert_elements()) * sizeof(float));
  }
  std::vector<CheckedRow> rows;
  for (const int64_t token : tokens) {
    CheckedRow row{token, std::vector<double>(hidden, 0.0), std::vector<double>(hidden, 0.0)};
    for (int64_t j = 0; j < shape.top_k; ++j) {
      const auto slot = static_cast<size_t>(token * shape.top_k + j);
      const int64_t expert = ids[slot];
      auto* made = reinterpret_cast<float*>(own.data());
      if (plain == nullptr) FillExpert(shape, numerics.format, expert, made);
      const float* gate_up = plain == nullptr ? made : plain->gate_up(expert);
      const float* down = gate_up + 2 * shape.ffn * shape.hidden;
      const Activations h = ComputeActivations(context, shape, numerics.activation_step, gate_up,
                                               x.data() + token * shape.hidden);
      AddExpert(context, shape, down, weights[slot], h, row);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double CheckRows(std::span<const CheckedRow> rows, std::span<const float> out,
                 std::string_view who) {
  double worst = 0;
  for (const CheckedRow& row : rows) {
    for (size_t n = 0; n < row.expected.size(); ++n) {
      const double value = out[static_cast<size_t>(row.token) * row.expected.size() + n];
      const double error = std::fabs(value - row.expected[n]);
      if (!(error <= row.bound[n])) {
        throw WrongResult(Concat("the result of ", who, " must be right before it is timed"),
                          Concat("[", row.token, ",", n, "] is ", value, ", expected ",
                                 row.expected[n], " within ", row.bound[n]));
      }
      if (row.bound[n] > 0) worst = std::max(worst, error / row.bound[n]);
    }
  }
  return worst;
}

std::vector<int64_t> TokensToCheck(int64_t num_tokens) {
  std::vector<int64_t> tokens{0, num_tokens / 2, num_tokens - 1};
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace opst::bench
