// opst_context: its creation, its cancellation, and what can be asked of it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"
#include "base/log.h"
#include "capi/conversions.h"
#include "kernels/isa.h"

namespace opst::capi {
namespace {

ContextOptions ToCpp(const Call& call, const opst_context_options* given) {
  const auto options = call.Options(given, opst_context_options OPST_CONTEXT_OPTIONS_DEFAULT);
  ContextOptions result{.num_threads = options.num_threads};
  for (const opst_setting& setting :
       call.Array(options.settings, options.num_settings, "settings")) {
    result.settings.emplace_back(call.Text(setting.key, "settings.key"),
                                 call.Text(setting.value, "settings.value"));
  }
  if (options.isa != nullptr) result.settings.emplace_back("isa", options.isa);
  if (options.on_log != nullptr) {
    result.log_sink = [on_log = options.on_log, user = options.log_user](LogLevel level,
                                                                         std::string_view line) {
      on_log(user, static_cast<opst_log_level>(level), std::string(line).c_str());
    };
  }
  return result;
}

}  // namespace

const Context& Use(const Call& call, const opst_context* context) {
  const Context& result = call.Get(context, "context");
  if (context->is_cancelled) throw Cancelled();
  return result;
}

}  // namespace opst::capi

using opst::capi::Call;
using opst::capi::Make;
using opst::capi::Run;

opst_status opst_context_create(const opst_context_options* options, opst_context** context) {
  return Make(__func__, context,
              [&](const Call& call) { call.Create(context, opst::capi::ToCpp(call, options)); });
}

opst_status opst_context_destroy(opst_context* context) {
  return opst::capi::Destroy(__func__, context);
}

opst_status opst_context_num_threads(const opst_context* context, int32_t* num_threads) {
  return Make(__func__, num_threads,
              [&](const Call& call) { *num_threads = call.Get(context, "context").num_threads(); });
}

opst_status opst_context_isa(const opst_context* context, const char** name) {
  return Make(__func__, name, [&](const Call& call) {
    opst::RequireIsa(call.Get(context, "context").config().GetChoice("isa"));
    const std::lock_guard<std::mutex> lock(context->isa_mutex);
    if (context->isa.empty()) context->isa = opst::CurrentIsa();
    *name = context->isa.c_str();
  });
}

opst_status opst_context_cancel(opst_context* context) {
  return Run(__func__, [&](const Call& call) {
    call.CheckNotNull(context, "context");
    context->is_cancelled = true;
  });
}

opst_status opst_context_resume(opst_context* context) {
  return Run(__func__, [&](const Call& call) {
    call.CheckNotNull(context, "context");
    context->is_cancelled = false;
  });
}
