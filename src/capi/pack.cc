// opst_packed_weights: packing, and what can be asked of packed matrices.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/pack.h"

#include "capi/conversions.h"

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Use;

namespace {

struct PackOptions {
  opst::WeightType type;
  opst::PanelOrder order;
};

PackOptions ToCpp(const Call& call, const opst_pack_options* given) {
  const auto options = call.Options(given, opst_pack_options OPST_PACK_OPTIONS_DEFAULT);
  return {{call.Choice<opst::WeightFormat>(options.format, "format"), options.group},
          call.Choice<opst::PanelOrder>(options.order, "order")};
}

}  // namespace

opst_status opst_pack_experts(const opst_context* context, const opst_view* weights,
                              const opst_pack_options* options, opst_packed_weights** packed) {
  return Make(__func__, packed, [&](const Call& call) {
    const PackOptions pack = ToCpp(call, options);
    call.Create(packed, opst::PackExperts(Use(call, context), call.In(weights, "weights"),
                                          pack.type, pack.order));
  });
}

opst_status opst_pack_experts_transposed(const opst_context* context, const opst_view* weights,
                                         const opst_pack_options* options,
                                         opst_packed_weights** packed) {
  return Make(__func__, packed, [&](const Call& call) {
    const PackOptions pack = ToCpp(call, options);
    OPST_CHECK_CALL(call, pack.order == opst::PanelOrder::kPlain, "order", "must be plain panels",
                    static_cast<int>(pack.order));
    call.Create(packed, opst::PackExpertsTransposed(Use(call, context), call.In(weights, "weights"),
                                                    pack.type));
  });
}

opst_status opst_packed_weights_destroy(opst_packed_weights* packed) {
  return opst::capi::Destroy(__func__, packed);
}

opst_status opst_packed_weights_get(const opst_packed_weights* packed,
                                    opst_packed_weights_info* info) {
  return opst::capi::Run(__func__, [&](const Call& call) {
    const opst::PackedWeights& weights = call.Get(packed, "packed");
    opst_packed_weights_info result = OPST_PACKED_WEIGHTS_INFO_DEFAULT;
    result.format = static_cast<opst_weight_format>(weights.layout().format);
    result.order = static_cast<opst_panel_order>(weights.layout().order);
    result.num_experts = weights.num_experts();
    result.out = weights.layout().out;
    result.in = weights.layout().in;
    result.group = weights.layout().group;
    result.num_bytes =
        weights.layout().matrix_bytes() * static_cast<uint64_t>(weights.num_experts());
    call.Fill(info, result, "info");
  });
}

opst_status opst_packed_weights_at(const opst_packed_weights* packed, int64_t expert, int64_t row,
                                   int64_t k, float* value) {
  return Make(__func__, value, [&](const Call& call) {
    const opst::PackedWeights& weights = call.Get(packed, "packed");
    const auto check = [&](int64_t index, int64_t end, const char* name) {
      OPST_CHECK_CALL(call, index >= 0 && index < end, name,
                      opst::Concat("must be in 0 … ", end - 1), index);
    };
    check(expert, weights.num_experts(), "expert");
    check(row, weights.layout().out, "row");
    check(k, weights.layout().in, "k");
    *value = weights.At(expert, row, k);
  });
}
