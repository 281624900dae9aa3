// What a call throws, as text; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_TESTING_ERRORS_H_
#define OPST_BASE_TESTING_ERRORS_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "opst/error.h"

namespace opst {

// The text of the Error that `call` throws, "no error" when it throws none. The test fails when the
// error is of another kind.
template <typename Call>
std::string ErrorIfAny(ErrorKind kind, Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  return "no error";
}

// The same; the test fails, too, when nothing is thrown.
template <typename Call>
std::string ErrorOf(ErrorKind kind, Call&& call) {
  std::string text = ErrorIfAny(kind, std::forward<Call>(call));
  if (text == "no error") ADD_FAILURE() << "nothing was thrown";
  return text;
}

// Of the caller's fault, and of the world's.
template <typename Call>
std::string Rejection(Call&& call) {
  return ErrorOf(ErrorKind::kInvalidArgument, std::forward<Call>(call));
}
template <typename Call>
std::string IoError(Call&& call) {
  return ErrorOf(ErrorKind::kIo, std::forward<Call>(call));
}

}  // namespace opst

#endif  // OPST_BASE_TESTING_ERRORS_H_
