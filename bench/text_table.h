// An aligned table for people, and numbers in few digits; JSON is in report.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_TEXT_TABLE_H_
#define OPST_BENCH_TEXT_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "bench/statistics.h"

namespace opst::bench {

// The first column stands left, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { rows_.push_back(std::move(head)); }

  // As many cells as the head has.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Lines with line ends; columns two spaces apart, a rule under the head.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// `value` with at least three significant digits and no exponent: "0.00123", "12.3", "4567".
std::string Digits(double value);
// "87 %"; "-" when not measured (negative).
std::string Percent(double fraction);
// "12.1-13.4"
std::string Spread(const Summary& summary);

}  // namespace opst::bench

#endif  // OPST_BENCH_TEXT_TABLE_H_
