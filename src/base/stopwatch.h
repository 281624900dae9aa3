// Monotonic time in microseconds; not a profiler.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_STOPWATCH_H_
#define OPST_BASE_STOPWATCH_H_

#include <chrono>

namespace opst {

// Runs from its construction.
class Stopwatch {
 public:
  double elapsed_us() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }
  // Starts again and returns what had elapsed.
  double RestartUs() {
    const Clock::time_point now = Clock::now();
    const double elapsed = std::chrono::duration<double, std::micro>(now - start_).count();
    start_ = now;
    return elapsed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace opst

#endif  // OPST_BASE_STOPWATCH_H_
