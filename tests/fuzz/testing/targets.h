// What the fuzzer and the replay test feed with bytes: one function per reader of untrusted input.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TESTS_FUZZ_TESTING_TARGETS_H_
#define OPST_TESTS_FUZZ_TESTING_TARGETS_H_

#include <span>
#include <string>
#include <string_view>

namespace opst::fuzz {

// Each reads the bytes as far as it can and swallows opst::Error; anything else is a bug.
void FuzzSafetensors(std::string_view bytes);
void FuzzPacked(std::string_view bytes);
void FuzzGguf(std::string_view bytes);
void FuzzTokenizer(std::string_view bytes);
void FuzzConfig(std::string_view bytes);
void FuzzTemplate(std::string_view bytes);

struct Target {
  std::string_view name;  // and folder of its corpus
  void (*run)(std::string_view bytes);
};
std::span<const Target> Targets();

// A file without a name on disk that holds `bytes` as long as the object lives.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace opst::fuzz

#endif  // OPST_TESTS_FUZZ_TESTING_TARGETS_H_
