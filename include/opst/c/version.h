// The version of the library that a program runs with; that of its headers is OPST_VERSION_STRING.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_C_VERSION_H_
#define OPST_C_VERSION_H_

#include "opst/c/status.h"
#include "opst/version.h"

#ifdef __cplusplus
extern "C" {
#endif

// Semantic, "0.1.0". Within a major version functions and members are added, never changed.
OPST_API const char* opst_version(void);

#ifdef __cplusplus
}
#endif

#endif  // OPST_C_VERSION_H_
