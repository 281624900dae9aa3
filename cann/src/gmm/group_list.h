// CANN's group lists: running sums, counts, or pairs of expert and count, on the host or the
// device.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_GMM_GROUP_LIST_H_
#define OPST_CANN_GMM_GROUP_LIST_H_

#include <cstdint>
#include <vector>

#include "cann/src/execution/run.h"

namespace opst::cann {

enum class GroupListType : uint8_t { kRunningSums = 0, kCounts = 1, kPairs = 2 };

// Consecutive rows [begin, end) that use one weight.
struct RowGroup {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t weight = 0;
  int64_t size() const { return end - begin; }
};

// The groups of a list. Running sums must not fall and counts not be negative, which CANN takes for
// empty groups; pairs end at the first count that is not positive. Fails when there are more than
// `rows` rows or a weight outside 0 … num_weights-1.
inline std::vector<RowGroup> ReadGroups(const Run& run, const std::vector<int64_t>& list,
                                        GroupListType type, int64_t rows, int64_t num_weights) {
  std::vector<RowGroup> groups;
  int64_t end = 0;
  const auto add = [&](int64_t count, int64_t weight, size_t position) {
    run.Value(count >= 0 && count <= rows - end,
              "the groups must not be negative and have at most the rows", count, " at position ",
              position, " after ", end, " of ", rows, " rows");
    run.Value(weight >= 0 && weight < num_weights, "a group must name a weight", weight, " of ",
              num_weights);
    groups.push_back({end, end + count, weight});
    end += count;
  };
  if (type == GroupListType::kPairs) {
    for (size_t i = 0; i + 1 < list.size() && list[i + 1] > 0; i += 2) add(list[i + 1], list[i], i);
    return groups;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    add(type == GroupListType::kCounts ? list[i] : list[i] - end, static_cast<int64_t>(i), i);
  }
  return groups;
}

}  // namespace opst::cann

#endif  // OPST_CANN_GMM_GROUP_LIST_H_
