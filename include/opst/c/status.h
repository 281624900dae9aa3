// Status codes, error texts, and the rules that every function of the C API keeps; no operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
// Every function returns an opst_status, except opst_last_error, opst_status_name and opst_version,
// which cannot fail. Outputs are the last arguments. Nothing is thrown across this boundary.
//
// Handles (opst_context, opst_model, ...) are opaque. Who creates one destroys it, in any order: a
// handle keeps alive what it needs of another. opst_..._destroy accepts NULL. When a call fails,
// handles and pointers that it would have returned are NULL, and other outputs are undefined.
//
// Structs with a `struct_size` grow at their end in later versions. Start with the macro
// OPST_<STRUCT>_DEFAULT, which fills in size and defaults, then change members:
//   opst_gating_options options = OPST_GATING_OPTIONS_DEFAULT;
//   options.top_k = 8;
// A smaller struct_size is an older caller, who gets the defaults of the members it does not know;
// a larger one is a newer caller, who must not have set members that this library does not know. A
// size that is 0, no multiple of 8 or above OPST_MAX_STRUCT_SIZE is an error. Where options are
// passed by pointer, NULL means the defaults. Members called `reserved` are 0.
//
// Members that read as claims (renormalizes, is_strict) are 0 or 1.
//
// The formula, accuracy and cost of each operator stand in the C++ header of the same name in
// opst/ops/; the headers here say what an argument is.
#ifndef OPST_C_STATUS_H_
#define OPST_C_STATUS_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define OPST_API __attribute__((visibility("default")))
#else
#define OPST_API
#endif

#define OPST_MAX_STRUCT_SIZE 4096

#ifdef __cplusplus
extern "C" {
#endif

typedef enum opst_status {
  OPST_OK = 0,
  OPST_INVALID_ARGUMENT = 1,  // the caller's fault; nothing was written
  OPST_IO = 2,                // a file that is missing, cut, broken or of a newer format
  OPST_OUT_OF_MEMORY = 3,     // a buffer that cannot be had
  OPST_COMM = 4,              // a peer that left or a message that did not arrive
  OPST_CANCELLED = 5,         // opst_context_cancel was called
  OPST_INTERNAL = 6           // a bug of the library, or an exception of a callback
} opst_status;

// Text of the last call of this thread that failed, "[function] rule; got facts"; "" before the
// first. A call that succeeds leaves it. Valid until the next call of this thread fails.
OPST_API const char* opst_last_error(void);

// "ok", "invalid argument", ...; "unknown" for a value that is none of them.
OPST_API const char* opst_status_name(opst_status status);

// Frees a text or array that the library handed over (the arguments of type `char**`, `int32_t**`
// and `double**` say so). NULL is fine.
OPST_API opst_status opst_free(void* memory);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_STATUS_H_
