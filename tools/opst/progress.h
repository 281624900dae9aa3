// A progress bar on standard error, drawn only when that is a terminal.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_PROGRESS_H_
#define OPST_TOOLS_OPST_PROGRESS_H_

#include <cstdint>
#include <string>

namespace opst::tool {

class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Redraws when a whole percent has passed.
  void Show(uint64_t done, uint64_t total);
  // Removes the bar, so that other text may follow.
  void Clear();

 private:
  std::string label_;
  bool is_terminal_;
  int percent_ = -1;
};

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_PROGRESS_H_
