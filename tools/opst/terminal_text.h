// Model text on standard output, harmless for a terminal.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_TERMINAL_TEXT_H_
#define OPST_TOOLS_OPST_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace opst::tool {

// Writes and flushes. On a terminal, control characters but newline and tab become U+FFFD: model
// text must not move the cursor or set titles.
void PrintText(std::string_view text);

// All of standard input.
std::string ReadStandardInput();

// Replaces the content of a file. Throws kIo naming it.
void WriteTextFile(const std::string& path, std::string_view text);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_TERMINAL_TEXT_H_
