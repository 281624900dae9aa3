// Movement of rows: permute, finalize, gather and scatter-add, with gradients.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/permute.h"

#include "capi/conversions.h"
#include "opst/ops/sparse_rows.h"

using opst::capi::Call;
using opst::capi::Run;
using opst::capi::Use;

opst_status opst_permute(const opst_context* context, const opst_view* x,
                         const opst_routing_plan* plan, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    opst::Permute(Use(call, context), call.In(x, "x"), call.Get(plan, "plan"),
                  call.Out(out, "out"));
  });
}

opst_status opst_permute_backward(const opst_context* context, const opst_view* d_out,
                                  const opst_routing_plan* plan, const opst_view* d_x) {
  return Run(__func__, [&](const Call& call) {
    opst::PermuteBackward(Use(call, context), call.In(d_out, "d_out"), call.Get(plan, "plan"),
                          call.Out(d_x, "d_x"));
  });
}

opst_status opst_permute_quantized(const opst_context* context, const opst_view* x,
                                   const opst_routing_plan* plan,
                                   const opst_quantized_permute_options* options,
                                   const opst_view* out, const opst_view* scales) {
  return Run(__func__, [&](const Call& call) {
    const auto given = call.Options(
        options, opst_quantized_permute_options OPST_QUANTIZED_PERMUTE_OPTIONS_DEFAULT);
    const opst::QuantizedPermuteOptions quantized{
        .quantization = call.Choice<opst::RowQuantization>(given.quantization, "quantization"),
        .scale = given.scale,
        .offset = given.offset,
        .smooth = call.OptionalIn(given.smooth, "smooth")};
    opst::PermuteQuantized(Use(call, context), call.In(x, "x"), call.Get(plan, "plan"), quantized,
                           call.Out(out, "out"), call.OptionalOut(scales, "scales"));
  });
}

opst_status opst_finalize_routing(const opst_context* context, const opst_view* expert_out,
                                  const opst_routing_plan* plan,
                                  const opst_finalize_options* options, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    const auto given = call.Options(options, opst_finalize_options OPST_FINALIZE_OPTIONS_DEFAULT);
    const opst::FinalizeOptions finalize{
        .residual = call.OptionalIn(given.residual, "residual"),
        .second_residual = call.OptionalIn(given.second_residual, "second_residual"),
        .expert_bias = call.OptionalIn(given.expert_bias, "expert_bias"),
        .order = call.Choice<opst::SummationOrder>(given.order, "order")};
    opst::FinalizeRouting(Use(call, context), call.In(expert_out, "expert_out"),
                          call.Get(plan, "plan"), finalize, call.Out(out, "out"));
  });
}

opst_status opst_finalize_routing_backward(const opst_context* context, const opst_view* d_out,
                                           const opst_view* expert_out,
                                           const opst_routing_plan* plan,
                                           const opst_view* expert_bias,
                                           const opst_finalize_gradients* gradients) {
  return Run(__func__, [&](const Call& call) {
    const auto given = call.Required(
        gradients, opst_finalize_gradients OPST_FINALIZE_GRADIENTS_DEFAULT, "gradients");
    const opst::FinalizeGradients wanted{
        .d_expert_out = call.OptionalOut(given.d_expert_out, "d_expert_out"),
        .d_weights = call.OptionalOut(given.d_weights, "d_weights"),
        .d_expert_bias = call.OptionalOut(given.d_expert_bias, "d_expert_bias")};
    opst::FinalizeRoutingBackward(Use(call, context), call.In(d_out, "d_out"),
                                  call.OptionalIn(expert_out, "expert_out"), call.Get(plan, "plan"),
                                  call.OptionalIn(expert_bias, "expert_bias"), wanted);
  });
}

opst_status opst_sparse_gather(const opst_context* context, const opst_view* x,
                               const opst_view* row_indices, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    opst::SparseGather(Use(call, context), call.In(x, "x"), call.In(row_indices, "row_indices"),
                       call.Out(out, "out"));
  });
}

opst_status opst_sparse_scatter_add(const opst_context* context, const opst_view* rows,
                                    const opst_view* row_indices, const opst_view* weights,
                                    opst_output_mode mode, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    opst::SparseScatterAdd(Use(call, context), call.In(rows, "rows"),
                           call.In(row_indices, "row_indices"), call.OptionalIn(weights, "weights"),
                           call.Choice<opst::OutputMode>(mode, "mode"), call.Out(out, "out"));
  });
}
