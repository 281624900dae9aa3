// Budget: bounds on what a template may cost, so that a hostile one ends in an error.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_BUDGET_H_
#define OPST_TEXT_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace opst::text::jinja {

// Real templates need some thousand steps and some kilobytes per message.
struct Limits {
  size_t max_source_bytes = size_t{1} << 20;
  int max_nesting = 200;           // of expressions and blocks while parsing
  int max_depth = 1000;            // of evaluation: expressions in blocks in macros in macros …
  uint64_t max_steps = 4'000'000;  // expressions evaluated, elements visited
  uint64_t max_bytes = uint64_t{256} << 20;  // of all texts made on the way, and of lists
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void Step(uint64_t count = 1) {
    steps_ += count < limits_.max_steps ? count : limits_.max_steps + 1;
    OPST_CHECK_IO(steps_ <= limits_.max_steps, "chat_template",
                  "a template must end within its budget of steps", "more than ",
                  limits_.max_steps);
  }
  // Before the memory is taken.
  void Bytes(uint64_t count) {
    bytes_ += count < limits_.max_bytes ? count : limits_.max_bytes + 1;
    OPST_CHECK_IO(bytes_ <= limits_.max_bytes, "chat_template",
                  "a template must stay within its budget of memory", "more than ",
                  limits_.max_bytes, " bytes");
  }
  // For `count` repetitions of `size` bytes; the product may overflow.
  void Bytes(uint64_t count, uint64_t size) {
    Bytes(size != 0 && count > limits_.max_bytes / size ? limits_.max_bytes + 1 : count * size);
  }

  // One level of evaluation; the stack must not overflow.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget.depth_ > budget.limits_.max_depth) {
        --budget.depth_;
        ThrowIo("chat_template", "a template must not call itself so deeply",
                Concat("more than ", budget.limits_.max_depth, " levels"));
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  int depth_ = 0;
};

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_BUDGET_H_
