// The one exception type of the library and its kinds; not a place for error texts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_ERROR_H_
#define OPST_ERROR_H_

#include <stdexcept>
#include <string>

namespace opst {

// Whose fault an error is. Bugs of our own are debug assertions, never an `Error`.
enum class ErrorKind {
  kInvalidArgument,  // the caller's: thrown before any work is done
  kIo,           // the world's: a file that is missing, truncated, hostile or of a newer version
  kOutOfMemory,  // the world's: what was asked for does not fit
  kComm,         // the world's: a peer that left or a message that did not arrive
};

// Text = "[operator] rule; got the facts", e.g.
// "[grouped_matmul] weights dim 2 must equal input dim 1 (H); got weights [8,14336,4096] bf16, ..."
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace opst

#endif  // OPST_ERROR_H_
