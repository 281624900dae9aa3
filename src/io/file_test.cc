// Tests of small-file reading, listing, quoting and checksums.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/checksum.h"
#include "io/quote.h"
#include "io/testing/files.h"

namespace opst {
namespace {

using ::testing::ElementsAre;
using testing::ExpectIoError;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(FileTest, ReadsWholeContent) {
  const TempFolder folder;
  const std::string content(10'000, 'x');
  EXPECT_EQ(ReadWholeFile(folder.Write("a", content), 10'000), content);
  EXPECT_EQ(ReadWholeFile(folder.Write("b", ""), 0), "");
}

TEST(FileTest, ReadsFilesThatSayZeroLength) {
  EXPECT_FALSE(ReadWholeFile("/proc/self/status", 1 << 20).empty());
}

TEST(FileTest, RefusesMoreThanTheLimit) {
  const TempFolder folder;
  ExpectIoError({"/a]", "at most 9 bytes", "got 10 bytes"},
                [&] { ReadWholeFile(folder.Write("a", "0123456789"), 9); });
  ExpectIoError({"at most 3 bytes"}, [] { ReadWholeFile("/proc/self/status", 3); });
}

TEST(FileTest, RefusesWhatIsNoRegularFile) {
  const TempFolder folder;
  ExpectIoError({folder.path(), "a folder"}, [&] { ReadWholeFile(folder.path(), 10); });
  ExpectIoError({"missing", "No such file"}, [&] { ReadWholeFile(folder.File("missing"), 10); });
  ExpectIoError({"pipe or device"}, [] { ReadWholeFile("/dev/zero", 10); });
  ASSERT_EQ(::mkfifo(folder.File("pipe").c_str(), 0600), 0);
  ExpectIoError({"pipe or device"}, [&] { ReadWholeFile(folder.File("pipe"), 10); });
}

TEST(FileTest, ListsSortedBySuffixWithoutHiddenOnes) {
  const TempFolder folder;
  for (const char* name : {"b.x", "a.x", "c.y", ".d.x"}) folder.Write(name, "");
  std::filesystem::create_directory(folder.File("e.x"));
  std::filesystem::create_symlink("a.x", folder.File("link.x"));
  std::filesystem::create_symlink("nowhere", folder.File("broken.x"));
  EXPECT_THAT(ListFiles(folder.path(), ".x"), ElementsAre("a.x", "b.x", "link.x"));
  ExpectIoError({"must be readable"}, [&] { ListFiles(folder.File("missing"), ""); });
}

TEST(FileTest, KnowsKindsAndPaths) {
  const TempFolder folder;
  EXPECT_EQ(KindOf(folder.path()), PathKind::kFolder);
  EXPECT_EQ(KindOf(folder.Write("a", "")), PathKind::kFile);
  EXPECT_EQ(KindOf(folder.File("b")), PathKind::kMissing);
  EXPECT_EQ(KindOf(folder.File("a/b")), PathKind::kMissing);
  EXPECT_EQ(KindOf("/dev/null"), PathKind::kOther);
  EXPECT_EQ(JoinPath("a/b", "c"), "a/b/c");
  EXPECT_EQ(ParentFolder("a/b"), "a");
  EXPECT_EQ(ParentFolder("b"), ".");
  EXPECT_EQ(FileName("a/b"), "b");
}

TEST(QuoteTest, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Quote("layer.0"), "\"layer.0\"");
  EXPECT_EQ(Quote(std::string_view("a\x1b[2J\n\"\\\0\x7f", 10)),
            "\"a\\x1b[2J\\x0a\\\"\\\\\\x00\\x7f\"");
  EXPECT_EQ(Quote("für"), "\"für\"");
}

TEST(QuoteTest, CutsLongTextAtACharacter) {
  EXPECT_EQ(Quote("abcdef", 3), "\"abc\"...");
  EXPECT_EQ(Quote("ab\xC3\xBC"
                  "d",
                  3),
            "\"ab\"...");
  EXPECT_EQ(Quote(std::string(1000, 'x')).size(), 160 + 5u);
}

// Values of the published reference implementation.
TEST(ChecksumTest, IsXxh3) {
  EXPECT_EQ(Checksum().Hex(), "2d06800538d394c2");
  EXPECT_EQ(ChecksumHex(ChecksumOf(Bytes("a"))), "e6c632b61e964e1f");
  EXPECT_EQ(ChecksumHex(ChecksumOf(Bytes("abc"))), "78af5f94892f3950");
  EXPECT_EQ(ChecksumHex(0x1f), "000000000000001f");
}

TEST(ChecksumTest, PiecesGiveTheSameAsTheWhole) {
  std::string text(5000, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 % 251);
  for (const size_t piece : {1u, 3u, 64u, 255u, 256u, 257u, 4999u}) {
    Checksum checksum;
    for (size_t i = 0; i < text.size(); i += piece)
      checksum.Update(Bytes(text).subspan(i, std::min(piece, text.size() - i)));
    EXPECT_EQ(checksum.Value(), ChecksumOf(Bytes(text))) << piece;
  }
}

}  // namespace
}  // namespace opst
