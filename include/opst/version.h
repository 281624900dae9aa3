// The version of these headers, for C too, and of the library they are linked with.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_VERSION_H_
#define OPST_VERSION_H_

// Semantic; CMakeLists.txt says the same, which a test checks.
#define OPST_VERSION_STRING "0.1.0"

#ifdef __cplusplus
namespace opst {

// OPST_VERSION_STRING of the library's own build: when it differs from the macro, headers and
// library are of different versions.
const char* LibraryVersion();

}  // namespace opst
#endif  // __cplusplus

#endif  // OPST_VERSION_H_
