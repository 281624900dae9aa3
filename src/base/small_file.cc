// Reads files whose size is only known after reading; sizes of /proc and /sys files say nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/small_file.h"

#include <array>
#include <fstream>

namespace opst {

std::optional<std::string> ReadSmallFile(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> block{};
  while (file && text.size() < kMaxBytes) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return std::nullopt;
  return text;
}

}  // namespace opst
