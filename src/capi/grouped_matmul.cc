// Grouped products and the gradient of their weights.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/grouped_matmul.h"

#include "capi/conversions.h"
#include "opst/ops/grouped_matmul_fused.h"

using opst::capi::Call;
using opst::capi::Run;
using opst::capi::Use;

opst_status opst_grouped_matmul(const opst_context* context, const opst_view* x,
                                const opst_view* group_offsets, const opst_packed_weights* weights,
                                const opst_grouped_matmul_options* options, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    const auto given =
        call.Options(options, opst_grouped_matmul_options OPST_GROUPED_MATMUL_OPTIONS_DEFAULT);
    opst::GroupedMatmulOptions matmul{
        .bias = call.OptionalIn(given.bias, "bias"),
        .output_mode = call.Choice<opst::OutputMode>(given.output_mode, "output_mode"),
        .group_experts = call.OptionalValues<int32_t>(given.group_experts, "group_experts")};
    if (given.activation != OPST_NO_ACTIVATION) {
      matmul.activation = call.Choice<opst::Activation>(given.activation, "activation");
    }
    opst::GroupedMatmul(Use(call, context), call.In(x, "x"),
                        call.Values<int64_t>(group_offsets, "group_offsets"),
                        call.Get(weights, "weights"), matmul, call.Out(out, "out"));
  });
}

opst_status opst_matmul(const opst_context* context, const opst_view* x,
                        const opst_packed_weights* weights, const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    opst::Matmul(Use(call, context), call.In(x, "x"), call.Get(weights, "weights"),
                 call.Out(out, "out"));
  });
}

opst_status opst_grouped_matmul_weight_gradient(const opst_context* context, const opst_view* x,
                                                const opst_view* d_out,
                                                const opst_view* group_offsets,
                                                opst_output_mode mode, const opst_view* d_weights) {
  return Run(__func__, [&](const Call& call) {
    opst::GroupedMatmulWeightGradient(Use(call, context), call.In(x, "x"), call.In(d_out, "d_out"),
                                      call.Values<int64_t>(group_offsets, "group_offsets"),
                                      call.Choice<opst::OutputMode>(mode, "mode"),
                                      call.Out(d_weights, "d_weights"));
  });
}

opst_status opst_grouped_matmul_quantize(const opst_context* context, const opst_view* x,
                                         const opst_view* group_offsets,
                                         const opst_packed_weights* weights,
                                         const opst_grouped_matmul_quantize_options* options,
                                         const opst_view* values, const opst_view* scales) {
  return Run(__func__, [&](const Call& call) {
    const auto given = call.Options(
        options, opst_grouped_matmul_quantize_options OPST_GROUPED_MATMUL_QUANTIZE_OPTIONS_DEFAULT);
    const opst::GroupedMatmulQuantizeOptions matmul{
        .activation = call.Choice<opst::Activation>(given.activation, "activation"),
        .limits = {.alpha = given.alpha, .limit = given.limit},
        .x_scales = call.OptionalIn(given.x_scales, "x_scales"),
        .bias = call.OptionalIn(given.bias, "bias"),
        .smooth = call.OptionalIn(given.smooth, "smooth"),
        .group_experts = call.OptionalValues<int32_t>(given.group_experts, "group_experts"),
        .workspace_bytes = given.workspace_bytes};
    opst::GroupedMatmulQuantize(Use(call, context), call.In(x, "x"),
                                call.Values<int64_t>(group_offsets, "group_offsets"),
                                call.Get(weights, "weights"), matmul,
                                {call.Out(values, "values"), call.Out(scales, "scales")});
  });
}

opst_status opst_grouped_matmul_finalize(const opst_context* context, const opst_view* x,
                                         const opst_view* group_offsets,
                                         const opst_packed_weights* weights,
                                         const opst_grouped_matmul_finalize_options* options,
                                         const opst_view* out) {
  return Run(__func__, [&](const Call& call) {
    const auto given = call.Required(
        options, opst_grouped_matmul_finalize_options OPST_GROUPED_MATMUL_FINALIZE_OPTIONS_DEFAULT,
        "options");
    const opst::GroupedMatmulFinalizeOptions matmul{
        .row_indices = call.In(given.row_indices, "row_indices"),
        .row_weights = call.OptionalIn(given.row_weights, "row_weights"),
        .x_scales = call.OptionalIn(given.x_scales, "x_scales"),
        .bias = call.OptionalIn(given.bias, "bias"),
        .shared = call.OptionalIn(given.shared, "shared"),
        .shared_weight = given.shared_weight,
        .first_shared_row = given.first_shared_row,
        .group_experts = call.OptionalValues<int32_t>(given.group_experts, "group_experts"),
        .output_mode = call.Choice<opst::OutputMode>(given.output_mode, "output_mode")};
    opst::GroupedMatmulFinalize(Use(call, context), call.In(x, "x"),
                                call.Values<int64_t>(group_offsets, "group_offsets"),
                                call.Get(weights, "weights"), matmul, call.Out(out, "out"));
  });
}
