// Tests that an output file appears whole or not at all.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "io/testing/files.h"

namespace opst {
namespace {

using testing::ExpectError;
using testing::ExpectIoError;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Makes files above `num_bytes` fail like a full disk, for this process and this scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t num_bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{num_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST(OutputFileTest, AppearsOnlyOnCommit) {
  const TempFolder folder;
  const std::string path = folder.File("out");
  OutputFile file(path);
  file.Write(Bytes("hello "));
  const std::string large(3'000'000, 'x');
  file.Write(Bytes(large));
  file.Write(Bytes("!"));
  file.WriteAt(0, Bytes("J"));
  EXPECT_EQ(file.position(), large.size() + 7);
  EXPECT_EQ(KindOf(path), PathKind::kMissing);
  // Nameless where the file system can do it: then a killed process leaves nothing behind.
  EXPECT_EQ(folder.NumFiles(), file.temporary_path().empty() ? 0u : 1u);
  file.Commit();
  EXPECT_EQ(ReadWholeFile(path, 1 << 30), "Jello " + large + "!");
  EXPECT_EQ(folder.NumFiles(), 1u);
}

TEST(OutputFileTest, LeavesNothingWithoutCommit) {
  const TempFolder folder;
  {
    OutputFile file(folder.File("out"));
    file.Write(Bytes("hello"));
  }
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(OutputFileTest, RefusesToReplaceUnlessAllowed) {
  const TempFolder folder;
  const std::string path = folder.Write("out", "old");
  ExpectIoError({path, "must not exist yet"}, [&] { OutputFile file(path); });
  {
    OutputFile file(path, IfExists::kReplace);
    file.Write(Bytes("abandoned"));
  }
  EXPECT_EQ(ReadWholeFile(path, 100), "old");
  OutputFile file(path, IfExists::kReplace);
  file.Write(Bytes("new"));
  EXPECT_EQ(ReadWholeFile(path, 100), "old");
  file.Commit();
  EXPECT_EQ(ReadWholeFile(path, 100), "new");
}

TEST(OutputFileTest, RefusesAFileThatAppearedMeanwhile) {
  const TempFolder folder;
  const std::string path = folder.File("out");
  {
    OutputFile file(path);
    file.Write(Bytes("ours"));
    folder.Write("out", "theirs");
    ExpectIoError({path, "must get its name", "File exists"}, [&] { file.Commit(); });
  }
  EXPECT_EQ(ReadWholeFile(path, 100), "theirs");
  EXPECT_EQ(folder.NumFiles(), 1u);
}

TEST(OutputFileTest, RefusesPlacesThatCannotTakeIt) {
  const TempFolder folder;
  ExpectIoError({"a folder"}, [&] { OutputFile file(folder.path(), IfExists::kReplace); });
  ExpectIoError({"a device"}, [&] { OutputFile file("/dev/null", IfExists::kReplace); });
  ExpectIoError({"missing/out", "the output's folder must exist"},
                [&] { OutputFile file(folder.File("missing/out")); });
}

TEST(OutputFileTest, StepsOverTemporariesLeftBehind) {
  const TempFolder folder;
  const std::string left = Concat("out.tmp-", ::getpid(), "-0");
  folder.Write(left, "left by a killed process");
  OutputFile file(folder.File("out"));
  file.Write(Bytes("new"));
  file.Commit();
  EXPECT_EQ(ReadWholeFile(folder.File(left), 100), "left by a killed process");
  EXPECT_EQ(ReadWholeFile(folder.File("out"), 100), "new");
}

TEST(OutputFileTest, NamesThatCanNotBecomeAFileAreRefusedAtOnce) {
  const TempFolder folder;
  EXPECT_THROW(OutputFile file(""), Error);
  ASSERT_EQ(::symlink("nowhere", folder.File("link").c_str()), 0);
  ExpectIoError({"a symbolic link to nothing"}, [&] { OutputFile file(folder.File("link")); });
}

TEST(OutputFileTest, FullDiskIsAnErrorThatLeavesNothing) {
  const TempFolder folder;
  {
    OutputFile file(folder.File("out"));
    const std::string large(3'000'000, 'x');
    const FileSizeLimit limit(1'000'000);
    ExpectIoError({"out]", "disk must take", "File too large"}, [&] { file.Reserve(2'000'000); });
    ExpectIoError({"out]", "disk must take", "File too large"}, [&] { file.Write(Bytes(large)); });
  }
  {
    OutputFile file(folder.File("out"));
    const FileSizeLimit limit(10);
    file.Write(Bytes("more than ten bytes"));
    ExpectIoError({"disk must take"}, [&] { file.Commit(); });
  }
  EXPECT_EQ(folder.NumFiles(), 0u);
}

TEST(OutputFileTest, RefusesAbsurdReservations) {
  const TempFolder folder;
  OutputFile file(folder.File("out"));
  ExpectIoError({"disk must take"}, [&] { file.Reserve(UINT64_MAX); });
  ExpectIoError({"disk must take"}, [&] { file.Reserve(uint64_t{1} << 62); });
}

TEST(OutputFileTest, WriteAtStaysInside) {
  const TempFolder folder;
  OutputFile file(folder.File("out"));
  file.Write(Bytes("hello"));
  ExpectError(ErrorKind::kInvalidArgument, {"WriteAt"}, [&] { file.WriteAt(4, Bytes("ab")); });
  ExpectError(ErrorKind::kInvalidArgument, {"WriteAt"},
              [&] { file.WriteAt(UINT64_MAX, Bytes("ab")); });
}

}  // namespace
}  // namespace opst
