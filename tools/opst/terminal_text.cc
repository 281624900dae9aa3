// Output that a terminal cannot be tricked by, and small text files.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "terminal_text.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <streambuf>

#include "base/strings.h"

namespace opst::tool {
namespace {

// C0, DEL, and C1, which is C2 80 … C2 9F in UTF-8.
std::string WithoutControls(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (is_c0 || is_c1) {
      result += "\xEF\xBF\xBD";
      i += is_c1 ? 1 : 0;
    } else {
      result += text[i];
    }
  }
  return result;
}

// Characters of standard input up to the end or to `last`, which is left out; whether there was
// any.
bool ReadInput(std::string& text, int last) {
  constexpr int kEnd = std::streambuf::traits_type::eof();
  std::streambuf& input = *std::cin.rdbuf();
  int c = input.sbumpc();
  const bool is_any = c != kEnd;
  for (; c != kEnd && c != last; c = input.sbumpc()) {
    OPST_CHECK_IO(text.size() < kMaxPromptBytes, "standard input",
                  Concat("a prompt must have at most ", FormatBytes(kMaxPromptBytes)), "more");
    text += static_cast<char>(c);
  }
  return is_any;
}

}  // namespace

void PrintText(std::string_view text) {
  static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  const std::string shown = is_terminal ? WithoutControls(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

std::string ReadStandardInput() {
  if (isatty(STDIN_FILENO) != 0) {
    std::fprintf(stderr, "reading the prompt from standard input; Ctrl-D ends it\n");
  }
  std::string text;
  ReadInput(text, std::streambuf::traits_type::eof());
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::optional<std::string> ReadInputLine() {
  std::string line;
  if (!ReadInput(line, '\n')) return std::nullopt;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

void WriteTextFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  OPST_CHECK_IO(file.good(), path, "the file must be writable", "an error when it was written");
}

}  // namespace opst::tool
