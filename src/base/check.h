// Helpers that build and throw opst::Error with the house's text form; not an assertion framework.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_CHECK_H_
#define OPST_BASE_CHECK_H_

#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "opst/error.h"

namespace opst {

// Everything that has operator<<, one after the other, in the "C" locale whatever the program's is.
template <typename... Args>
std::string Concat(const Args&... args) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  (stream << ... << args);
  return std::move(stream).str();
}

// Throws "[where] rule; got facts". `where` is the operator or the file.
[[noreturn]] void Throw(ErrorKind kind, std::string_view where, std::string_view rule,
                        std::string_view facts);

[[noreturn]] inline void ThrowInvalid(std::string_view where, std::string_view rule,
                                      std::string_view facts) {
  Throw(ErrorKind::kInvalidArgument, where, rule, facts);
}
[[noreturn]] inline void ThrowIo(std::string_view where, std::string_view rule,
                                 std::string_view facts) {
  Throw(ErrorKind::kIo, where, rule, facts);
}

}  // namespace opst

// Checks the caller's arguments; the facts are only formatted when the rule is broken.
#define OPST_CHECK_ARG(condition, where, rule, ...)                   \
  do {                                                                \
    if (!(condition)) {                                               \
      ::opst::ThrowInvalid(where, rule, ::opst::Concat(__VA_ARGS__)); \
    }                                                                 \
  } while (false)

// Checks what a file says, in the same form.
#define OPST_CHECK_IO(condition, where, rule, ...)               \
  do {                                                           \
    if (!(condition)) {                                          \
      ::opst::ThrowIo(where, rule, ::opst::Concat(__VA_ARGS__)); \
    }                                                            \
  } while (false)

#endif  // OPST_BASE_CHECK_H_
