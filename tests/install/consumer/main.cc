// A user's first program: routes four tokens to two of three experts. Not an example of speed.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <opst/error.h>
#include <opst/ops/gating.h>

#include <cstdio>
#include <vector>

int main() {
  opst::Context context;
  const std::vector<float> logits = {3, 2, 1, 1, 3, 2, 2, 1, 3, 3, 1, 2};
  const opst::ConstTensorView view(logits.data(), {4, 3});
  const opst::RoutingPlan plan = opst::Route(context, view, {.top_k = 2});
  if (plan.num_rows() != 8 || plan.expert_ids[0] != 0) return 1;
  try {
    opst::Route(context, view, {.top_k = 4});
    return 1;
  } catch (const opst::Error& error) {
    std::printf("%lld rows; refused as it should be: %s\n", static_cast<long long>(plan.num_rows()),
                error.what());
  }
  return 0;
}
