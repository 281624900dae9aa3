// The ordered list of implementations that every operator has, and the choice among them. Holds no
// operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_OPS_IMPLEMENTATION_H_
#define OPST_OPS_IMPLEMENTATION_H_

#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/config.h"
#include "base/log.h"
#include "kernels/isa.h"
#include "opst/context.h"

namespace opst {

// One way to execute a checked request. Fastest first in the operator's list, the reference last.
template <typename Request>
struct Implementation {
  std::string_view name;
  // Why it cannot serve this request; empty = it can.
  std::string (*decline)(const Context&, const Request&);
  void (*run)(const Context&, const Request&);
};

// For `decline` of an implementation that takes everything.
template <typename Request>
std::string TakesAll(const Context&, const Request&) {
  return {};
}

// For `decline` of every fast implementation: OPST_IMPLEMENTATION=reference leaves them out.
inline std::string DeclineIfReferenceForced(const Context& context) {
  return context.config().GetChoice("implementation") == "reference"
             ? "OPST_IMPLEMENTATION=reference"
             : "";
}

// Runs the first implementation that does not decline. OPST_LOG=dispatch tells which and why.
template <typename Request>
void Dispatch(const Context& context, std::string_view op,
              std::span<const Implementation<Request>> implementations, const Request& request) {
  RequireIsa(context.config().GetChoice("isa"));
  std::string declined;
  for (const Implementation<Request>& implementation : implementations) {
    const std::string reason = implementation.decline(context, request);
    if (reason.empty()) {
      context.log().Write(LogTopic::kDispatch, op, ": ", implementation.name, declined);
      implementation.run(context, request);
      return;
    }
    if (context.log().Enabled(LogTopic::kDispatch)) {
      declined += Concat("; ", implementation.name, " declined: ", reason);
    }
  }
  ThrowInvalid(op, "no implementation serves this request", declined);
}

}  // namespace opst

#endif  // OPST_OPS_IMPLEMENTATION_H_
