// Model text on standard output, harmless for a terminal, and text from standard input, bounded.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOOLS_OPST_TERMINAL_TEXT_H_
#define OPST_TOOLS_OPST_TERMINAL_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace opst::tool {

// Writes and flushes. On a terminal, control characters but newline and tab become U+FFFD: model
// text must not move the cursor or set titles.
void PrintText(std::string_view text);

// Prompts and messages are at most as long; an endless stream is no prompt.
inline constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// All of standard input but for the line end that stands last. Throws kIo for more than
// kMaxPromptBytes.
std::string ReadStandardInput();

// The next line of standard input, without its end; none behind the last one. Throws kIo as above.
std::optional<std::string> ReadInputLine();

// Replaces the content of a file. Throws kIo naming it.
void WriteTextFile(const std::string& path, std::string_view text);

}  // namespace opst::tool

#endif  // OPST_TOOLS_OPST_TERMINAL_TEXT_H_
