// Conversion, its report, verification and export.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/convert.h"

#include "capi/conversions.h"

namespace opst::capi {
namespace {

ConvertOptions ToCpp(const Call& call, const opst_context* context,
                     const opst_convert_options* given) {
  const auto options = call.Options(given, opst_convert_options OPST_CONVERT_OPTIONS_DEFAULT);
  ConvertOptions result{.overwrites = call.Claim(options.overwrites, "overwrites"),
                        .is_strict = call.Claim(options.is_strict, "is_strict"),
                        .expanded = call.Choice<DType>(options.expanded, "expanded"),
                        .expands_mxfp4 = call.Claim(options.expands_mxfp4, "expands_mxfp4"),
                        .moe_of_dense = {.kind = call.Choice<MoeOfDenseOptions::Kind>(
                                             options.moe_of_dense, "moe_of_dense"),
                                         .num_experts = options.num_experts,
                                         .top_k = options.top_k}};
  if (options.quantized != OPST_WEIGHTS_KEPT) {
    const auto format = call.Choice<WeightFormat>(options.quantized, "quantized");
    OPST_CHECK_CALL(call, IsInteger(format), "quantized", "must be int8, int4, mxfp4 or kept",
                    Name(format));
    result.quantized = WeightType(format, options.group);
  }
  // Between two pieces of the output is where a conversion can be cancelled: nothing stays of it.
  result.on_progress = [context, on_progress = options.on_progress, user = options.user](
                           uint64_t done_bytes, uint64_t total_bytes) {
    if (context->is_cancelled && done_bytes < total_bytes) throw Cancelled();
    if (on_progress != nullptr) on_progress(user, done_bytes, total_bytes);
  };
  return result;
}

std::vector<const char*> PointersTo(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

opst_conversion* NewConversion(ConvertReport report) {
  auto conversion = std::make_unique<opst_conversion>(opst_conversion{std::move(report)});
  conversion->unused_tensors = PointersTo(conversion->value.unused_tensors);
  conversion->unknown_fields = PointersTo(conversion->value.unknown_fields);
  return conversion.release();
}

}  // namespace
}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::Run;
using opst::capi::ToCpp;
using opst::capi::Use;

opst_status opst_convert(const opst_context* context, const char* source, const char* output,
                         const opst_convert_options* options, opst_conversion** conversion) {
  if (conversion != nullptr) *conversion = nullptr;
  return Run(__func__, [&](const Call& call) {
    const opst::Context& workers = Use(call, context);
    const std::string from(call.Text(source, "source"));
    const std::string to(call.Text(output, "output"));
    opst::ConvertReport report = opst::Convert(workers, from, to, ToCpp(call, context, options));
    if (conversion != nullptr) *conversion = opst::capi::NewConversion(std::move(report));
  });
}

opst_status opst_conversion_destroy(opst_conversion* conversion) {
  return opst::capi::Destroy(__func__, conversion);
}

opst_status opst_conversion_get(const opst_conversion* conversion, opst_conversion_info* info) {
  return Run(__func__, [&](const Call& call) {
    const opst::ConvertReport& value = call.Get(conversion, "conversion");
    opst_conversion_info result = OPST_CONVERSION_INFO_DEFAULT;
    result.family = value.family.c_str();
    result.num_source_tensors = value.num_source_tensors;
    result.source_bytes = value.source_bytes;
    result.output_bytes = value.output_bytes;
    result.unused_tensors = conversion->unused_tensors.data();
    result.num_unused_tensors = static_cast<int64_t>(conversion->unused_tensors.size());
    result.unknown_fields = conversion->unknown_fields.data();
    result.num_unknown_fields = static_cast<int64_t>(conversion->unknown_fields.size());
    call.Fill(info, result, "info");
  });
}

opst_status opst_verify(const opst_context* context, const char* source, const char* output,
                        const opst_convert_options* options, opst_verify_report* report,
                        double** layer_errors) {
  if (layer_errors != nullptr) *layer_errors = nullptr;
  return Run(__func__, [&](const Call& call) {
    const opst::Context& workers = Use(call, context);
    const std::string from(call.Text(source, "source"));
    const std::string to(call.Text(output, "output"));
    call.CheckNotNull(report, "report");
    const opst::VerifyReport found = opst::Verify(workers, from, to, ToCpp(call, context, options));
    opst_verify_report result = OPST_VERIFY_REPORT_DEFAULT;
    result.is_equal = found.is_equal ? 1 : 0;
    result.max_error = found.max_error;
    result.worst_position = found.worst_position;
    result.worst_token = found.worst_token;
    result.num_layers = static_cast<int64_t>(found.layer_errors.size());
    result.first_diverging_layer = found.first_diverging_layer;
    call.Fill(report, result, "report");
    if (layer_errors != nullptr) *layer_errors = call.HandOver(std::span(found.layer_errors));
  });
}

opst_status opst_export_to_hugging_face(const char* packed, const char* folder) {
  return Run(__func__, [&](const Call& call) {
    opst::ExportToHuggingFace(std::string(call.Text(packed, "packed")),
                              std::string(call.Text(folder, "folder")));
  });
}
