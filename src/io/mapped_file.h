// A whole file as read-only bytes, mapped or read into memory; it knows no format.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_MAPPED_FILE_H_
#define OPST_IO_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/config.h"
#include "base/memory.h"
#include "io/file.h"

namespace opst {

enum class LoadMode {
  kMap,   // pages come from the file when touched and can be dropped again
  kRead,  // read at once into anonymous memory, which gets huge pages on every file system
};

struct LoadOptions {
  LoadOptions() = default;
  LoadOptions(LoadMode load_mode) : mode(load_mode) {}  // NOLINT: a mode alone is enough
  LoadOptions(LoadMode load_mode, bool huge_pages) : mode(load_mode), use_huge_pages(huge_pages) {}

  LoadMode mode = LoadMode::kMap;
  // Asks for 2 MB pages; the kernel may decline silently.
  bool use_huge_pages = true;
};

// What the settings `load` and `huge_pages` say.
LoadOptions LoadOptionsOf(const Config& config);

// The bytes begin on a 2 MB boundary (with kRead from 2 MB on, else on a cache line), so an offset
// aligned in the file is aligned in memory. Movable; the bytes stay where they are.
//
// A mapping only stays valid while the file keeps its length: touching a page behind the end of a
// file that was cut meanwhile ends the process (SIGBUS). CheckUnchanged before a large step turns
// the likely cases into an error; kRead has no such risk.
//
// Thread safety: all const members may be called from several threads.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws kIo (not a regular file, unreadable, shorter than it said) or kOutOfMemory.
  static MappedFile Open(const std::string& path, LoadOptions options = {});
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept { Swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    Swap(other);
    return *this;
  }

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t size() const { return bytes_.size(); }

  // Hints for a byte range; parts outside the file are ignored, and so are failures.
  // WillNeed starts reading in the background. DontNeed takes the pages out of this process (they
  // come back from the page cache or the disk when touched). With kRead both do nothing.
  void WillNeed(uint64_t offset, uint64_t num_bytes) const;
  void DontNeed(uint64_t offset, uint64_t num_bytes) const;

  // Throws kIo when a mapped file was cut, extended or written to since Open.
  void CheckUnchanged() const;

 private:
  void Swap(MappedFile& other) noexcept;
  void Map(bool use_huge_pages);
  void Read(bool use_huge_pages);
  void Advise(uint64_t offset, uint64_t num_bytes, int advice) const;

  std::string path_;
  std::span<const std::byte> bytes_;
  FileDescriptor descriptor_;
  FileStatus status_;
  // kMap: the reserved address range, larger than the file by what alignment needs.
  void* reserved_ = nullptr;
  size_t reserved_bytes_ = 0;
  // kRead
  AlignedBuffer buffer_;
};

}  // namespace opst

#endif  // OPST_IO_MAPPED_FILE_H_
