// How calls of this layer fail: one exception that carries CANN's code, and the boundary that turns
// exceptions into codes and texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_RUNTIME_FAILURE_H_
#define OPST_CANN_RUNTIME_FAILURE_H_

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "acl/acl_base.h"
#include "base/check.h"

namespace opst::cann {

// Text = "[function] rule; got facts", as everywhere in this project.
class Failure : public std::runtime_error {
 public:
  Failure(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

template <typename... Facts>
[[noreturn]] void Fail(int code, std::string_view where, std::string_view rule,
                       const Facts&... facts) {
  throw Failure(code, Concat("[", where, "] ", rule, "; got ", facts...));
}

// Checks a rule; the facts are only joined when it is broken.
template <typename... Facts>
void Require(bool holds, int code, std::string_view where, std::string_view rule,
             const Facts&... facts) {
  if (!holds) Fail(code, where, rule, facts...);
}

// Keeps the text for aclGetRecentErrMsg of this thread, logs it, and returns the code.
int Report(int code, std::string_view text) noexcept;

struct Outcome {
  int code = ACL_SUCCESS;
  std::string text;
};

// Runs a body. Exceptions become codes: that of a Failure, and `invalid` for arguments that an
// operator refuses.
template <typename Body>
Outcome Try(int invalid, const Body& body) noexcept {
  try {
    body();
    return {};
  } catch (const Failure& failure) {
    return {failure.code(), failure.what()};
  } catch (const Error& error) {
    const bool is_memory = error.kind() == ErrorKind::kOutOfMemory;
    return {is_memory ? ACL_ERROR_RT_MEMORY_ALLOCATION : invalid, error.what()};
  } catch (const std::bad_alloc&) {
    return {ACL_ERROR_RT_MEMORY_ALLOCATION, {}};
  } catch (const std::exception& error) {
    return {ACL_ERROR_INTERNAL_ERROR, error.what()};
  }
}

// The body of a function of the C interface.
template <typename Body>
int Guard(int invalid, const Body& body) noexcept {
  const Outcome outcome = Try(invalid, body);
  return outcome.code == ACL_SUCCESS ? outcome.code : Report(outcome.code, outcome.text);
}

}  // namespace opst::cann

#endif  // OPST_CANN_RUNTIME_FAILURE_H_
