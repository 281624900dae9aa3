// Tests of mapping and reading whole files, and of giving their pages back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "io/testing/files.h"

namespace opst {
namespace {

using testing::ExpectError;
using testing::ExpectIoError;
using testing::ResidentBytes;

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string Pattern(size_t num_bytes) {
  std::string content(num_bytes, '\0');
  for (size_t i = 0; i < num_bytes; ++i) content[i] = static_cast<char>(i * 31 % 253);
  return content;
}

// Whether the kernel was asked for 2 MB pages where `address` lies: "hg" among the area's flags.
bool AsksForHugePages(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_inside = begin <= wanted && wanted < end;
    } else if (is_inside && line.rfind("VmFlags:", 0) == 0) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

class MappedFileModes : public ::testing::TestWithParam<LoadMode> {};
INSTANTIATE_TEST_SUITE_P(Both, MappedFileModes, ::testing::Values(LoadMode::kMap, LoadMode::kRead));

TEST_P(MappedFileModes, HoldsTheContentOfAnyLength) {
  const TempFolder folder;
  for (const size_t size : {0u, 1u, 4095u, 4096u, 4097u, 2u << 20, (2u << 20) + 1, 5u << 20}) {
    const std::string content = Pattern(size);
    const MappedFile file = MappedFile::Open(folder.Write("f", content), GetParam());
    EXPECT_EQ(file.size(), size);
    EXPECT_TRUE(Text(file) == content) << size;
    const size_t alignment =
        GetParam() == LoadMode::kMap || size >= kHugePageBytes ? kHugePageBytes : kAlignment;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.bytes().data()) % alignment, 0u) << size;
  }
}

TEST_P(MappedFileModes, TheSettingHugePagesDecidesWhetherTheyAreAskedFor) {
  const TempFolder folder;
  const std::string path = folder.Write("f", Pattern(4u << 20));
  const std::string load = GetParam() == LoadMode::kMap ? "map" : "read";
  const bool has_huge_pages = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  for (const bool is_on : {true, false}) {
    const Config config({{"load", load}, {"huge_pages", is_on ? "on" : "off"}}, {});
    const LoadOptions options = LoadOptionsOf(config);
    EXPECT_EQ(options.mode, GetParam());
    const MappedFile file = MappedFile::Open(path, options);
    EXPECT_EQ(AsksForHugePages(file.bytes().data()), is_on && has_huge_pages);
  }
}

TEST_P(MappedFileModes, BytesStayWhereTheyAreWhenMoved) {
  const TempFolder folder;
  MappedFile first = MappedFile::Open(folder.Write("f", "hello"), GetParam());
  const std::byte* data = first.bytes().data();
  MappedFile second(std::move(first));
  MappedFile third;
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(Text(third), "hello");
}

TEST_P(MappedFileModes, ContentSurvivesHints) {
  const TempFolder folder;
  const std::string content = Pattern(100'000);
  const MappedFile file = MappedFile::Open(folder.Write("f", content), GetParam());
  file.WillNeed(0, file.size());
  file.WillNeed(99'999, UINT64_MAX);
  file.DontNeed(10, 50'000);
  file.DontNeed(0, UINT64_MAX);
  file.DontNeed(UINT64_MAX, 1);
  EXPECT_TRUE(Text(file) == content);
}

TEST_P(MappedFileModes, RefusesWhatIsNoRegularFile) {
  const TempFolder folder;
  const auto open = [](const std::string& path) { MappedFile::Open(path, GetParam()); };
  ExpectIoError({"missing", "No such file"}, [&] { open(folder.File("missing")); });
  ExpectIoError({"a folder"}, [&] { open(folder.path()); });
  ExpectIoError({"pipe or device"}, [&] { open("/dev/zero"); });
}

TEST(MappedFileTest, DontNeedGivesMemoryBack) {
  const TempFolder folder;
  constexpr size_t kSize = size_t{64} << 20;
  const MappedFile file = MappedFile::Open(folder.Write("f", std::string(kSize, 'x')));
  const size_t before = ResidentBytes();
  size_t sum = 0;
  for (size_t i = 0; i < kSize; i += 4096) sum += std::to_integer<size_t>(file.bytes()[i]);
  EXPECT_EQ(sum, kSize / 4096 * 'x');
  EXPECT_GT(ResidentBytes(), before + kSize / 2);
  file.DontNeed(0, kSize);
  EXPECT_LT(ResidentBytes(), before + kSize / 4);
}

TEST(MappedFileTest, NoticesThatTheFileChanged) {
  const TempFolder folder;
  const std::string path = folder.Write("f", Pattern(10'000));
  const MappedFile file = MappedFile::Open(path);
  file.CheckUnchanged();
  std::filesystem::resize_file(path, 9'999);
  ExpectIoError({path, "keep its length", "9999 bytes instead of 10000"},
                [&] { file.CheckUnchanged(); });
  std::filesystem::resize_file(path, 10'000);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  ExpectIoError({path, "written to"}, [&] { file.CheckUnchanged(); });
}

TEST(MappedFileTest, ReadModeNoLongerNeedsTheFile) {
  const TempFolder folder;
  const std::string path = folder.Write("f", "hello");
  const MappedFile file = MappedFile::Open(path, LoadMode::kRead);
  std::filesystem::resize_file(path, 0);
  file.CheckUnchanged();
  EXPECT_EQ(Text(file), "hello");
}

TEST(MappedFileTest, FileBeyondTheAddressSpaceIsOutOfMemory) {
  // Only a file system in memory takes sparse files of a petabyte for granted.
  if (KindOf("/dev/shm") != PathKind::kFolder) GTEST_SKIP() << "no /dev/shm";
  const TempFolder folder("/dev/shm");
  const std::string path = folder.Write("f", "x");
  std::filesystem::resize_file(path, uint64_t{1} << 50);
  for (const LoadMode mode : {LoadMode::kMap, LoadMode::kRead}) {
    ExpectError(ErrorKind::kOutOfMemory, {}, [&] { MappedFile::Open(path, mode); });
  }
}

}  // namespace
}  // namespace opst
