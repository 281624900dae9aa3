// Peak memory of a conversion: it must not grow with the checkpoint.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "convert/testing/checkpoint_copy.h"
#include "opst/convert.h"

namespace opst {
namespace {

using testing::CheckpointCopy;

constexpr int64_t kMegabyte = int64_t{1} << 20;

// Makes the experts of a tiny Mixtral `ffn` wide, zeros as values.
void WidenExperts(CheckpointCopy& copy, int64_t ffn) {
  copy.config()["intermediate_size"] = ffn;
  for (auto& tensor : copy.tensors()) {
    auto& [name, dtype, shape] = tensor.declaration;
    if (name.find(".experts.") == std::string::npos) continue;
    const size_t axis = name.ends_with("w2.weight") ? 1 : 0;
    shape[axis] = ffn;
    tensor.bytes.assign(static_cast<size_t>(shape[0] * shape[1]) * sizeof(float), std::byte{0});
  }
}

// Most memory, in bytes, that a process of its own had resident while it converted.
int64_t PeakOfConversion(const std::string& source, const std::string& output) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      const Context context({.num_threads = 2});
      Convert(context, source, output, {.overwrites = true});
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return usage.ru_maxrss * 1024;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;  // shadow memory and quarantine are not the converter's
#else
constexpr bool kIsSanitized = false;
#endif

TEST(ConvertMemoryTest, PeakDoesNotGrowWithTheCheckpoint) {
  int64_t small_peak = 0;
  {
    const CheckpointCopy small("mixtral");
    small_peak = PeakOfConversion(small.Write(), small.output());
  }
  // 2 layers x 5 experts x 3 matrices x 48 x 65,536 x 4 bytes = 360 MB.
  auto large = std::make_unique<CheckpointCopy>("mixtral");
  WidenExperts(*large, 65536);
  const std::string source = large->Write();
  large->tensors().clear();  // 360 MB that the child would inherit
  large->tensors().shrink_to_fit();
  const int64_t large_peak = PeakOfConversion(source, large->output());
  RecordProperty("small_peak_bytes", std::to_string(small_peak));
  RecordProperty("large_peak_bytes", std::to_string(large_peak));
  // One slice of 32 MB packed, its source of 32 MB, and buffers: 128 MB leaves room for noise.
  if (!kIsSanitized) {
    EXPECT_LT(large_peak - small_peak, 128 * kMegabyte);
  }
}

}  // namespace
}  // namespace opst
