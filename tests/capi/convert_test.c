// Conversion from C: report, progress, cancellation, verification and the way back. Writes the
// packed file that other programs of this folder read.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

static opst_context* context;

struct progress {
  int64_t num_calls;
  uint64_t done_bytes;
  uint64_t total_bytes;
  int64_t cancel_at;  // the call that cancels the context; 0 = none
};

static void on_progress(void* user, uint64_t done_bytes, uint64_t total_bytes) {
  struct progress* progress = user;
  CHECK(done_bytes >= progress->done_bytes);
  progress->done_bytes = done_bytes;
  progress->total_bytes = total_bytes;
  if (++progress->num_calls == progress->cancel_at) OK(opst_context_cancel(context));
}

static int exists(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file != NULL) fclose(file);
  return file != NULL;
}

static void test_convert(void) {
  struct progress progress = {0, 0, 0, 0};
  opst_convert_options options = OPST_CONVERT_OPTIONS_DEFAULT;
  options.overwrites = 1;
  options.on_progress = on_progress;
  options.user = &progress;
  opst_conversion* conversion = NULL;
  OK(opst_convert(context, MODEL_FOLDER, PACKED_FILE, &options, &conversion));
  CHECK(progress.num_calls > 2 && progress.done_bytes == progress.total_bytes);
  opst_conversion_info info = OPST_CONVERSION_INFO_DEFAULT;
  OK(opst_conversion_get(conversion, &info));
  CHECK(strcmp(info.family, "qwen3_moe") == 0);
  CHECK(info.num_source_tensors > 10 && info.output_bytes == progress.total_bytes);
  CHECK(info.source_bytes > 1000000 && info.num_unused_tensors == 0);
  OK(opst_conversion_destroy(conversion));

  FAILS(opst_convert(context, MODEL_FOLDER, PACKED_FILE, NULL, &conversion), OPST_IO,
        "output must not exist yet");
  CHECK(conversion == NULL);
  FAILS(opst_convert(context, "nowhere", PACKED_FILE, &options, NULL), OPST_IO, "nowhere");
  REFUSED(opst_convert(context, NULL, PACKED_FILE, NULL, NULL), "source must not be NULL");
  options.moe_of_dense = 3;
  REFUSED(opst_convert(context, MODEL_FOLDER, PACKED_FILE, &options, NULL), "moe_of_dense must");
  options.moe_of_dense = 0;
  options.is_strict = -1;
  REFUSED(opst_convert(context, MODEL_FOLDER, PACKED_FILE, &options, NULL), "is_strict must be 0");
}

// Nothing stays of a conversion that is cancelled in the middle.
static void test_cancelled_conversion(void) {
  const char* output = PACKED_FILE ".cancelled";
  remove(output);
  struct progress progress = {0, 0, 0, 2};
  opst_convert_options options = OPST_CONVERT_OPTIONS_DEFAULT;
  options.on_progress = on_progress;
  options.user = &progress;
  opst_conversion* conversion = NULL;
  FAILS(opst_convert(context, MODEL_FOLDER, output, &options, &conversion), OPST_CANCELLED,
        "cancelled");
  CHECK(conversion == NULL && progress.num_calls == 2 && !exists(output));
  OK(opst_context_resume(context));
}

// A quarter of the bytes, less what keeps its dtype.
static void test_integer_weights(void) {
  const char* output = PACKED_FILE ".int4";
  opst_convert_options options = OPST_CONVERT_OPTIONS_DEFAULT;
  options.overwrites = 1;
  options.quantized = OPST_WEIGHTS_INT4;
  OK(opst_convert(context, MODEL_FOLDER, output, &options, NULL));
  opst_model *packed = NULL, *plain = NULL;
  opst_model_info small = OPST_MODEL_INFO_DEFAULT, large = OPST_MODEL_INFO_DEFAULT;
  OK(opst_model_load(context, output, &packed));
  OK(opst_model_load(context, PACKED_FILE, &plain));
  OK(opst_model_get(packed, &small));
  OK(opst_model_get(plain, &large));
  // 4 bits and a thirty-second of 16, where there were 16.
  CHECK(small.routed_expert_bytes * 16 * 32 == large.routed_expert_bytes * (4 * 32 + 16));
  OK(opst_model_destroy(packed));
  OK(opst_model_destroy(plain));
  remove(output);
  options.quantized = OPST_WEIGHTS_BF16;
  REFUSED(opst_convert(context, MODEL_FOLDER, output, &options, NULL), "quantized must be int8");
  options.quantized = OPST_WEIGHTS_MXFP4 + 1;
  REFUSED(opst_convert(context, MODEL_FOLDER, output, &options, NULL), "quantized must be one of");
}

static void test_verify_and_export(void) {
  opst_verify_report report = OPST_VERIFY_REPORT_DEFAULT;
  double* layer_errors = NULL;
  OK(opst_verify(context, MODEL_FOLDER, PACKED_FILE, NULL, &report, &layer_errors));
  CHECK(report.is_equal == 1 && report.max_error < 1e-3 && report.num_layers == 4);
  CHECK(report.first_diverging_layer == -1);
  for (int64_t layer = 0; layer < report.num_layers; ++layer) CHECK(layer_errors[layer] < 1e-3);
  OK(opst_free(layer_errors));
  OK(opst_verify(context, MODEL_FOLDER, PACKED_FILE, NULL, &report, NULL));
  REFUSED(opst_verify(context, MODEL_FOLDER, PACKED_FILE, NULL, NULL, NULL), "report must not");

  OK(opst_export_to_hugging_face(PACKED_FILE, EXPORT_FOLDER));
  CHECK(exists(EXPORT_FOLDER "/config.json"));
  FAILS(opst_export_to_hugging_face(PACKED_FILE, EXPORT_FOLDER), OPST_IO, "exist");
  REFUSED(opst_export_to_hugging_face(PACKED_FILE, NULL), "folder must not be NULL");
}

int main(void) {
  OK(opst_context_create(NULL, &context));
  test_convert();
  test_cancelled_conversion();
  test_integer_weights();
  test_verify_and_export();
  OK(opst_context_destroy(context));
  return finish();
}
