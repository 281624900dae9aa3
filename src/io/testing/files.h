// Helpers for tests of files: raw safetensors bytes, memory, expected errors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_TESTING_FILES_H_
#define OPST_IO_TESTING_FILES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/testing/errors.h"
#include "base/testing/temp_folder.h"

namespace opst::testing {

// Header length, header and `data` as they stand in a safetensors file; nothing is checked.
inline std::string RawSafetensors(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 255);
  }
  return bytes.append(header).append(data);
}

// Memory this process occupies now, mapped files included.
inline size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// `action` must throw an opst::Error of this kind whose text holds all `parts`.
template <typename Action>
void ExpectError(ErrorKind kind, std::initializer_list<std::string_view> parts, Action&& action) {
  const std::string text = ErrorOf(kind, std::forward<Action>(action));
  for (const std::string_view part : parts) {
    EXPECT_THAT(text, ::testing::HasSubstr(std::string(part)));
  }
}

template <typename Action>
void ExpectIoError(std::initializer_list<std::string_view> parts, Action&& action) {
  ExpectError(ErrorKind::kIo, parts, std::forward<Action>(action));
}

}  // namespace opst::testing

#endif  // OPST_IO_TESTING_FILES_H_
