// Reads the one-page files of /proc and /sys; model files and settings are read elsewhere.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_SMALL_FILE_H_
#define OPST_BASE_SMALL_FILE_H_

#include <optional>
#include <string>

namespace opst {

// At most the first megabyte; nothing when the file cannot be read.
std::optional<std::string> ReadSmallFile(const std::string& path);

}  // namespace opst

#endif  // OPST_BASE_SMALL_FILE_H_
