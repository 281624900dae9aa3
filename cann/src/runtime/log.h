// The log of this layer, steered by ASCEND_SLOG_PRINT_TO_STDOUT and ASCEND_GLOBAL_LOG_LEVEL.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CANN_RUNTIME_LOG_H_
#define OPST_CANN_RUNTIME_LOG_H_

#include <string_view>

#include "acl/acl_base.h"

namespace opst::cann {

// Reads the two variables again; aclInit calls it.
void ReadLogSettings();
bool LogEnabled(aclLogLevel level) noexcept;
// A whole line to standard output; nothing unless ASCEND_SLOG_PRINT_TO_STDOUT is 1 and the level
// is not below ASCEND_GLOBAL_LOG_LEVEL (0 debug … 3 error, the default; 4 nothing).
void Log(aclLogLevel level, std::string_view text);

}  // namespace opst::cann

#endif  // OPST_CANN_RUNTIME_LOG_H_
