// The choice of every expert by a full sort of its column.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/ref/reference.h"

namespace opst::ref {

void PickTokens(const Context&, const ExpertChoiceRequest& request) {
  const size_t num_experts = request.picks->size();
  for (size_t expert = 0; expert < num_experts; ++expert) {
    std::vector<int32_t> order(request.scores.size() / num_experts);
    std::iota(order.begin(), order.end(), 0);
    const auto score = [&](int32_t token) {
      return request.scores[static_cast<size_t>(token) * num_experts + expert];
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return score(a) > score(b); });
    for (const int32_t token : order) {
      const bool is_full =
          static_cast<int64_t>((*request.picks)[expert].size()) == request.capacity;
      if (!is_full && score(token) > 0) (*request.picks)[expert].push_back(token);
    }
  }
}

}  // namespace opst::ref
