// Measures the columns and pads the cells.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace opst::bench {

std::string TextTable::ToString() const {
  const std::vector<std::string>& head = rows_.front();
  std::vector<size_t> widths(head.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string padding(widths[i] - rows_[r][i].size(), ' ');
      const std::string& cell = rows_[r][i];
      line += i == 0 ? "" : "  ";
      line += left_columns_.contains(i) ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r > 0) continue;
    size_t total = 2 * (widths.size() - 1);
    for (const size_t width : widths) total += width;
    text += std::string(total, '-') + "\n";
  }
  return text;
}

std::string Digits(double value) {
  if (!std::isfinite(value)) return "-";
  const double magnitude = std::fabs(value);
  int decimals = 0;
  for (double limit = 100; decimals < 6 && magnitude < limit && magnitude > 0; limit /= 10) {
    ++decimals;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string Percent(double fraction) {
  if (!(fraction >= 0)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * fraction);
  return text;
}

std::string Spread(const Summary& summary) {
  return summary.runs == 0 ? "-" : Digits(summary.min) + "-" + Digits(summary.max);
}

}  // namespace opst::bench
