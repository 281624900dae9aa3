// Files for other programs that a command writes at its end: results, usage. Not its main output.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_REPORT_FILE_H_
#define OPST_TOOLS_OPST_REPORT_FILE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.h"

namespace opst::tool {

// A file that can be written is known before the work begins, so that no result is lost at the end.
class ReportFile {
 public:
  // `flag` names the file in errors; an empty `path` is no file. An existing file is refused unless
  // `if_exists` allows to replace it, one of `inputs` in any case. Devices (/dev/stdout) are
  // written to. Throws kIo.
  ReportFile(std::string_view flag, const std::string& path, IfExists if_exists,
             const std::vector<std::string>& inputs);

  // At the end; once.
  void Write(std::string_view text);

 private:
  std::string path_;
  std::unique_ptr<OutputFile> file_;  // none for a device
};

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_REPORT_FILE_H_
