// Grouped products and the gradient of their weights.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/grouped_matmul.h"

#include "capi/conversions.h"

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
