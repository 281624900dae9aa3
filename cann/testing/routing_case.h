// Random routings for the tests of the routing operators, and the order of slots by plain sorting.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_TESTING_ROUTING_CASE_H_
#define OPST_CANN_TESTING_ROUTING_CASE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace opst::cann {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

inline size_t At(int64_t index) { return static_cast<size_t>(index); }

// Slots in ascending order of id; equal ids in slot order.
inline Ints SlotsById(const Ints& ids) {
  Ints order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return ids[At(a)] < ids[At(b)]; });
  return order;
}

// Where each element of a permutation stands.
inline Ints Inverse(const Ints& order) {
  Ints inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[At(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

inline Ints CountsOf(const Ints& ids, int64_t num_experts) {
  Ints counts(At(num_experts), 0);
  for (const int64_t id : ids) {
    if (id >= 0 && id < num_experts) ++counts[At(id)];
  }
  return counts;
}

// Σ_j weights[t,j] · rows[row_ids[t,j]], in fp64; -1 and rows that are not there give nothing. Also
// the sums of magnitudes, which bound the rounding.
struct Sums {
  Doubles values;
  Doubles magnitudes;
};
inline Sums SumOfRows(const std::vector<float>& rows, int64_t width, const Ints& row_ids,
                      const std::vector<float>& weights, int64_t k) {
  const int64_t num_rows = width == 0 ? 0 : static_cast<int64_t>(rows.size()) / width;
  const auto tokens = static_cast<int64_t>(row_ids.size()) / k;
  Sums sums{Doubles(At(tokens * width), 0.0), Doubles(At(tokens * width), 0.0)};
  for (int64_t slot = 0; slot < tokens * k; ++slot) {
    const int64_t row = row_ids[At(slot)];
    if (row < 0 || row >= num_rows) continue;
    const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[At(slot)]);
    for (int64_t h = 0; h < width; ++h) {
      const double term = weight * static_cast<double>(rows[At(row * width + h)]);
      sums.values[At(slot / k * width + h)] += term;
      sums.magnitudes[At(slot / k * width + h)] += std::abs(term);
    }
  }
  return sums;
}

inline std::vector<float> AsFloats(const Doubles& values) { return {values.begin(), values.end()}; }

}  // namespace opst::cann

#endif  // OPST_CANN_TESTING_ROUTING_CASE_H_
