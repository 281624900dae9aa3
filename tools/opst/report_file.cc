// Opens reports early and names them late.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "report_file.h"

#include <filesystem>
#include <span>

#include "base/check.h"
#include "io/file.h"
#include "terminal_text.h"

namespace opst::tool {

ReportFile::ReportFile(std::string_view flag, const std::string& path, IfExists if_exists,
                       const std::vector<std::string>& inputs)
    : path_(path) {
  if (path.empty()) return;
  for (const std::string& input : inputs) {
    std::error_code error;
    OPST_CHECK_IO(!std::filesystem::equivalent(path, input, error), path,
                  Concat(flag, " must not replace a file that is read"), input);
  }
  if (KindOf(path) == PathKind::kOther) return;
  file_ = std::make_unique<OutputFile>(path, if_exists);
}

void ReportFile::Write(std::string_view text) {
  if (path_.empty()) return;
  if (file_ == nullptr) return WriteTextFile(path_, text);
  file_->Write(std::as_bytes(std::span(text)));
  file_->Commit();
}

}  // namespace opst::tool
