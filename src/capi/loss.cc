// The losses of the router, forward and backward.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/loss.h"

#include "capi/conversions.h"

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Run;
using opst::capi::Use;

namespace {

opst::BalanceLossOptions ToCpp(const Call& call, const opst_balance_loss_options* given) {
  const auto options =
      call.Options(given, opst_balance_loss_options OPST_BALANCE_LOSS_OPTIONS_DEFAULT);
  return {.coefficient = options.coefficient,
          .values = call.Choice<opst::RouterValues>(options.values, "values"),
          .count = call.Choice<opst::BalanceCount>(options.count, "count"),
          .sequence_length = options.sequence_length,
          .is_padding = call.Padding(options.is_padding)};
}

opst::RouterLossOptions ToCpp(const Call& call, const opst_router_loss_options* given) {
  const auto options =
      call.Options(given, opst_router_loss_options OPST_ROUTER_LOSS_OPTIONS_DEFAULT);
  return {.coefficient = options.coefficient,
          .values = call.Choice<opst::RouterValues>(options.values, "values"),
          .is_padding = call.Padding(options.is_padding)};
}

}  // namespace

opst_status opst_balance_loss(const opst_context* context, const opst_view* values,
                              const opst_view* expert_ids, const opst_balance_loss_options* options,
                              double* loss) {
  return Make(__func__, loss, [&](const Call& call) {
    *loss = opst::BalanceLoss(Use(call, context), call.In(values, "values"),
                              call.In(expert_ids, "expert_ids"), ToCpp(call, options));
  });
}

opst_status opst_balance_loss_backward(const opst_context* context, const opst_view* values,
                                       const opst_view* expert_ids,
                                       const opst_balance_loss_options* options, double d_loss,
                                       const opst_view* d_values) {
  return Run(__func__, [&](const Call& call) {
    opst::BalanceLossBackward(Use(call, context), call.In(values, "values"),
                              call.In(expert_ids, "expert_ids"), ToCpp(call, options), d_loss,
                              call.Out(d_values, "d_values"));
  });
}

opst_status opst_router_z_loss(const opst_context* context, const opst_view* logits,
                               const opst_router_loss_options* options, double* loss) {
  return Make(__func__, loss, [&](const Call& call) {
    *loss = opst::RouterZLoss(Use(call, context), call.In(logits, "logits"), ToCpp(call, options));
  });
}

opst_status opst_router_z_loss_backward(const opst_context* context, const opst_view* logits,
                                        const opst_router_loss_options* options, double d_loss,
                                        const opst_view* d_logits) {
  return Run(__func__, [&](const Call& call) {
    opst::RouterZLossBackward(Use(call, context), call.In(logits, "logits"), ToCpp(call, options),
                              d_loss, call.Out(d_logits, "d_logits"));
  });
}

opst_status opst_importance_loss(const opst_context* context, const opst_view* values,
                                 const opst_router_loss_options* options, double* loss) {
  return Make(__func__, loss, [&](const Call& call) {
    *loss =
        opst::ImportanceLoss(Use(call, context), call.In(values, "values"), ToCpp(call, options));
  });
}

opst_status opst_importance_loss_backward(const opst_context* context, const opst_view* values,
                                          const opst_router_loss_options* options, double d_loss,
                                          const opst_view* d_values) {
  return Run(__func__, [&](const Call& call) {
    opst::ImportanceLossBackward(Use(call, context), call.In(values, "values"),
                                 ToCpp(call, options), d_loss, call.Out(d_values, "d_values"));
  });
}
