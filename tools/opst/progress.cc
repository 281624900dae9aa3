// Draws the bar with a carriage return and blanks.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace opst::tool {

Progress::Progress(std::string label)
    : label_(std::move(label)), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::Show(uint64_t done, uint64_t total) {
  if (!is_terminal_ || total == 0) return;
  const int percent =
      static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (percent == percent_) return;
  percent_ = percent;
  constexpr int kWidth = 30;
  std::string bar(static_cast<size_t>(kWidth), ' ');
  for (int i = 0; i < kWidth * percent / 100; ++i) bar[static_cast<size_t>(i)] = '#';
  std::fprintf(stderr, "\r%s [%s] %3d %%", label_.c_str(), bar.c_str(), percent);
}

void Progress::Clear() {
  if (percent_ < 0) return;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(label_.size()) + 42, "");
  percent_ = -1;
}

}  // namespace opst::tool
