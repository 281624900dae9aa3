// ExpertExchange: how tokens reach the rank that holds their experts, and how results come back.
// The interface and its single-rank version.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_EXPERT_EXCHANGE_H_
#define OPST_EXPERT_EXCHANGE_H_

#include <functional>

#include "opst/context.h"
#include "opst/routing_plan.h"
#include "opst/tensor.h"

namespace opst {

class ExpertExchange {
 public:
  // Computes the experts this rank holds: out [T,H] from x [T,H] by a plan of these T tokens.
  using Compute = std::function<void(ConstTensorView x, const RoutingPlan& plan, TensorView out)>;

  virtual ~ExpertExchange() = default;
  // out [T,H] = what Compute would give if all experts of `plan` were here.
  virtual void Run(const Context& context, ConstTensorView x, const RoutingPlan& plan,
                   const Compute& compute, TensorView out) = 0;
};

// One rank holds everything.
class LocalExpertExchange : public ExpertExchange {
 public:
  void Run(const Context&, ConstTensorView x, const RoutingPlan& plan, const Compute& compute,
           TensorView out) override {
    compute(x, plan, out);
  }
};

}  // namespace opst

#endif  // OPST_EXPERT_EXCHANGE_H_
