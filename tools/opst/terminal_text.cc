// Output that a terminal cannot be tricked by, and small text files.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "terminal_text.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/check.h"

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

}  // namespace

void PrintText(std::string_view text) {
  static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  const std::string shown = is_terminal ? WithoutControls(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

std::string ReadStandardInput() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

void WriteTextFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  OPST_CHECK_IO(file.good(), path, "the file must be writable", "an error when it was written");
}

}  // namespace opst::tool
