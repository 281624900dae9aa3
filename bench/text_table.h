// An aligned table for people, and numbers in few digits; JSON is in report.h.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_TEXT_TABLE_H_
#define OPST_BENCH_TEXT_TABLE_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/statistics.h"

namespace opst::bench {

// Columns of numbers stand right; `left_columns`, of words, stand left.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head, std::set<size_t> left_columns = {0})
      : left_columns_(std::move(left_columns)) {
    rows_.push_back(std::move(head));
  }

  // As many cells as the head has.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // Lines with line ends; columns two spaces apart, a rule under the head.
  std::string ToString() const;

 private:
  std::set<size_t> left_columns_;
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
