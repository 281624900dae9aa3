// opst_context: settings, workers, log, names and cancellation.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

struct log_lines {
  int64_t num_lines;
  int64_t num_info;
  char first[200];
};

static void on_log(void* user, opst_log_level level, const char* line) {
  struct log_lines* lines = user;
  if (lines->num_lines++ == 0) snprintf(lines->first, sizeof(lines->first), "%s", line);
  if (level == OPST_LOG_INFO) ++lines->num_info;
}

static void test_settings_and_log(void) {
  struct log_lines lines = {0, 0, ""};
  const opst_setting settings[] = {{"log", "info"}, {"stage1_buffer_size", "1MB"}};
  opst_context_options options = OPST_CONTEXT_OPTIONS_DEFAULT;
  options.num_threads = 2;
  options.settings = settings;
  options.num_settings = 2;
  options.on_log = on_log;
  options.log_user = &lines;
  opst_context* context = NULL;
  OK(opst_context_create(&options, &context));
  int32_t num_threads = 0;
  OK(opst_context_num_threads(context, &num_threads));
  CHECK(num_threads == 2);
  CHECK(lines.num_info == 1);
  CHECK(strstr(lines.first, "2 workers") != NULL);
  OK(opst_context_destroy(context));
}

static void test_defaults(void) {
  opst_context* context = NULL;
  OK(opst_context_create(NULL, &context));
  int32_t num_threads = 0;
  OK(opst_context_num_threads(context, &num_threads));
  CHECK(num_threads >= 1);
  const char* isa = NULL;
  OK(opst_context_isa(context, &isa));
  CHECK(isa != NULL && strlen(isa) > 0);

  // What is in use can be asked for by name; anything else is refused.
  opst_context_options options = OPST_CONTEXT_OPTIONS_DEFAULT;
  options.isa = isa;
  opst_context* same = NULL;
  OK(opst_context_create(&options, &same));
  const char* name = NULL;
  OK(opst_context_isa(same, &name));
  CHECK(strcmp(name, isa) == 0);
  OK(opst_context_destroy(same));
  options.isa = strcmp(isa, "avx2") == 0 ? "sse2" : "avx2";
  OK(opst_context_create(&options, &same));
  REFUSED(opst_context_isa(same, &name), "instruction set");
  CHECK(name == NULL);
  OK(opst_context_destroy(same));
  OK(opst_context_destroy(context));
}

static void test_errors(void) {
  opst_context* context = NULL;
  REFUSED(opst_context_create(NULL, NULL), "[opst_context_create] the output must not be NULL");
  const opst_setting unknown = {"thread", "2"};
  opst_context_options options = OPST_CONTEXT_OPTIONS_DEFAULT;
  options.settings = &unknown;
  options.num_settings = 1;
  REFUSED(opst_context_create(&options, &context), "threads");
  CHECK(context == NULL);
  options.settings = NULL;
  REFUSED(opst_context_create(&options, &context), "settings must not be NULL");
  options.num_settings = -1;
  REFUSED(opst_context_create(&options, &context), "settings must not have a negative length");
  options.num_settings = 0;
  options.isa = "mmx";
  REFUSED(opst_context_create(&options, &context), "isa");
  options.isa = NULL;
  options.num_threads = -3;
  REFUSED(opst_context_create(&options, &context), "threads");
  int32_t num_threads = 0;
  REFUSED(opst_context_num_threads(NULL, &num_threads), "context must not be NULL");
  REFUSED(opst_context_cancel(NULL), "context must not be NULL");
  REFUSED(opst_context_resume(NULL), "context must not be NULL");
  OK(opst_context_destroy(NULL));
}

// A cancelled context refuses operators until it is resumed.
static void test_cancellation(void) {
  opst_context* context = NULL;
  OK(opst_context_create(NULL, &context));
  const float logits[] = {1, 2, 3};
  const opst_view view = opst_matrix(OPST_F32, logits, 1, 3);
  opst_routing_plan* plan = NULL;
  OK(opst_context_cancel(context));
  FAILS(opst_route(context, &view, NULL, NULL, &plan), OPST_CANCELLED, "cancelled");
  CHECK(plan == NULL);
  OK(opst_context_resume(context));
  OK(opst_route(context, &view, NULL, NULL, &plan));
  CHECK(plan != NULL);
  OK(opst_routing_plan_destroy(plan));
  OK(opst_context_destroy(context));
}

static void test_names(void) {
  CHECK(strcmp(opst_version(), OPST_VERSION_STRING) == 0);
  CHECK(strcmp(opst_status_name(OPST_OK), "ok") == 0);
  CHECK(strcmp(opst_status_name(OPST_CANCELLED), "cancelled") == 0);
  CHECK(strcmp(opst_status_name((opst_status)7), "unknown") == 0);
  const char* name = NULL;
  OK(opst_dtype_name(OPST_BF16, &name));
  CHECK(strcmp(name, "bf16") == 0);
  REFUSED(opst_dtype_name(99, &name), "must be one of the values");
  CHECK(name == NULL);
  size_t num_bytes = 0;
  OK(opst_dtype_size(OPST_I64, &num_bytes));
  CHECK(num_bytes == 8);
  REFUSED(opst_dtype_size(-1, &num_bytes), "must be one of the values");
  OK(opst_log_level_name(OPST_LOG_WARNING, &name));
  CHECK(strcmp(name, "warning") == 0);
  OK(opst_weight_format_name(OPST_WEIGHTS_F16, &name));
  CHECK(strcmp(name, "f16") == 0);
  OK(opst_stop_reason_name(OPST_STOP_CANCELLED, &name));
  CHECK(strcmp(name, "cancelled") == 0);
  REFUSED(opst_stop_reason_name(5, &name), "must be one of the values");
  OK(opst_free(NULL));
}

int main(void) {
  CHECK(strcmp(opst_last_error(), "") == 0);
  test_settings_and_log();
  test_defaults();
  test_errors();
  test_cancellation();
  test_names();
  return finish();
}
