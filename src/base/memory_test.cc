// Tests of alignment, zeroing, huge page requests, failure and reuse.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "base/testing/errors.h"
#include "opst/error.h"

namespace opst {
namespace {

bool IsAligned(const void* pointer, size_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

bool IsZero(const AlignedBuffer& buffer) {
  return std::all_of(buffer.data(), buffer.data() + buffer.size(),
                     [](std::byte value) { return value == std::byte{0}; });
}

// Whether the mapping that contains `pointer` carries the advice, as the kernel reports it.
bool HasHugePageAdvice(const void* pointer) {
  std::ifstream file("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(pointer);
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_inside = begin <= wanted && wanted < end;
    } else if (is_inside && line.starts_with("VmFlags:")) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

constexpr size_t kSizes[] = {1,
                             63,
                             64,
                             65,
                             100000,
                             kHugePageBytes - 1,
                             kHugePageBytes,
                             kHugePageBytes + 1,
                             3 * kHugePageBytes + 12345};

TEST(AlignedBufferTest, EverySizeIsAlignedZeroedAndWritable) {
  for (const size_t bytes : kSizes) {
    const AlignedBuffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_TRUE(IsAligned(buffer.data(), bytes < kHugePageBytes ? kAlignment : kHugePageBytes));
    EXPECT_TRUE(IsZero(buffer)) << bytes;
    std::memset(buffer.data(), 0xff, bytes);
  }
}

TEST(AlignedBufferTest, NoBytesNeedNoMemory) {
  const AlignedBuffer buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0u);
}

TEST(AlignedBufferTest, MovingLeavesOneOwner) {
  AlignedBuffer first(4 * kHugePageBytes);
  const std::byte* data = first.data();
  AlignedBuffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  AlignedBuffer third(100);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  third = AlignedBuffer();
  EXPECT_EQ(third.data(), nullptr);
}

TEST(AlignedBufferTest, HugePagesAreAskedForOnlyWhenWanted) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  }
  const AlignedBuffer with(2 * kHugePageBytes);
  const AlignedBuffer without(2 * kHugePageBytes, {.use_huge_pages = false});
  EXPECT_TRUE(HasHugePageAdvice(with.data()));
  EXPECT_FALSE(HasHugePageAdvice(without.data()));
}

TEST(AlignedBufferTest, WhatDoesNotFitThrowsWithItsSize) {
  for (const size_t bytes : {size_t{1} << 60, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX}) {
    const std::string error =
        ErrorOf(ErrorKind::kOutOfMemory, [&] { const AlignedBuffer buffer(bytes); });
    EXPECT_NE(error.find(std::to_string(bytes)), std::string::npos) << error;
  }
}

TEST(ScratchArenaTest, TakenArraysAreAlignedAndApart) {
  ScratchArena arena;
  auto* bytes = arena.Take<uint8_t>(3);
  auto* floats = arena.Take<float>(1000);
  auto* nothing = arena.Take<double>(0);
  EXPECT_TRUE(IsAligned(bytes, kAlignment));
  EXPECT_TRUE(IsAligned(floats, kAlignment));
  EXPECT_NE(nothing, nullptr);
  std::memset(bytes, 1, 3);
  std::fill(floats, floats + 1000, 2.0f);
  EXPECT_EQ(bytes[2], 1);
}

TEST(ScratchArenaTest, RepeatedUseOfTheSameSizesAllocatesNothing) {
  ScratchArena arena;
  const auto use = [&] {
    arena.Take<float>(5000);
    arena.Take<int32_t>(7);
    return arena.Take<float>(100000);
  };
  use();
  const size_t capacity = arena.capacity_bytes();
  arena.Reset();
  const float* first = use();
  EXPECT_EQ(arena.capacity_bytes(), capacity);
  arena.Reset();
  EXPECT_EQ(use(), first);
  EXPECT_EQ(arena.capacity_bytes(), capacity);
  arena.Release();
  EXPECT_EQ(arena.capacity_bytes(), 0u);
}

TEST(ScratchArenaTest, CountThatOverflowsIsOutOfMemory) {
  ScratchArena arena;
  EXPECT_THROW(arena.Take<double>(SIZE_MAX / 4), Error);
  EXPECT_THROW(arena.Take<uint8_t>(SIZE_MAX), Error);
  EXPECT_EQ(arena.capacity_bytes(), 0u);
}

}  // namespace
}  // namespace opst
