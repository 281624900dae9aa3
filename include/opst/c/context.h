// opst_context: workers, settings, log and cancellation of the calls that get it. No globals.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_CONTEXT_H_
#define OPST_C_CONTEXT_H_

#include "opst/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Threads: may be used from several threads at once; their parallel sections take turns.
typedef struct opst_context opst_context;

typedef int32_t opst_log_level;
enum { OPST_LOG_ERROR = 0, OPST_LOG_WARNING = 1, OPST_LOG_INFO = 2, OPST_LOG_DEBUG = 3 };

// Receives whole lines without a line end; called from any thread, one call at a time. It must not
// call the library with the same context.
typedef void (*opst_log_callback)(void* user, opst_log_level level, const char* line);

// A row of docs/environment.md: {"log", "info"}, {"stage1_buffer_size", "64MB"}.
typedef struct opst_setting {
  const char* key;
  const char* value;
} opst_setting;

typedef struct opst_context_options {
  uint32_t struct_size;
  int32_t num_threads;           // workers, the calling thread included; 0 = the setting `threads`
  const char* isa;               // "avx512", "avx2", ...; NULL = the setting `isa`
  const opst_setting* settings;  // [num_settings]; they win over the environment
  int64_t num_settings;
  opst_log_callback on_log;  // NULL = standard error; the setting `log` says how much
  void* log_user;            // first argument of on_log
} opst_context_options;

#define OPST_CONTEXT_OPTIONS_DEFAULT                                                              \
  {                                                                                               \
    .struct_size = sizeof(opst_context_options), .num_threads = 0, .isa = NULL, .settings = NULL, \
    .num_settings = 0, .on_log = NULL, .log_user = NULL                                           \
  }

// Reads the OPST_* environment once. Errors: an unknown setting or variable, which names the
// nearest known one; a value of the wrong type.
OPST_API opst_status opst_context_create(const opst_context_options* options,
                                         opst_context** context);
// Nothing may run with it any more.
OPST_API opst_status opst_context_destroy(opst_context* context);

OPST_API opst_status opst_context_num_threads(const opst_context* context, int32_t* num_threads);

// The instruction set that the kernels of this process use; chosen by the first operator, or by
// this. The text lives as long as the context. Errors: the context asks for another one.
OPST_API opst_status opst_context_isa(const opst_context* context, const char** name);

// Cancels what runs with this context, from any thread: generation and forward passes stop behind
// the layer they are in, conversion before its next piece, and all return OPST_CANCELLED, as does
// every call that starts with this context afterwards, until opst_context_resume. A single operator
// runs to its end.
OPST_API opst_status opst_context_cancel(opst_context* context);
OPST_API opst_status opst_context_resume(opst_context* context);

// "error", "warning", "info", "debug"
OPST_API opst_status opst_log_level_name(opst_log_level level, const char** name);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_CONTEXT_H_
