// The error of a benchmark whose own result is wrong: neither the caller's fault nor the world's.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_WRONG_RESULT_H_
#define OPST_BENCH_WRONG_RESULT_H_

#include <stdexcept>
#include <string>

#include "base/check.h"

namespace opst::bench {

class WrongResult : public std::runtime_error {
 public:
  // Text: "[bench] rule; got facts".
  WrongResult(const std::string& rule, const std::string& facts)
      : std::runtime_error(Concat("[bench] ", rule, "; got ", facts)) {}
};

}  // namespace opst::bench

#endif  // OPST_BENCH_WRONG_RESULT_H_
