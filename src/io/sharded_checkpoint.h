// A safetensors checkpoint of one or many files as a single list of tensors, read one at a time.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_SHARDED_CHECKPOINT_H_
#define OPST_IO_SHARDED_CHECKPOINT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"
#include "io/checkpoint_files.h"
#include "io/safetensors.h"

namespace opst {

struct SourceTensor {
  size_t shard = 0;                           // index into shards()
  const SafetensorsTensor* tensor = nullptr;  // name, dtype, shape, num_bytes

  const std::string& name() const { return tensor->name; }
};

// Bytes lent from a shard. The destructor takes their pages out of this process, so reading one
// piece after the other needs the memory of the largest piece, not of the file. Movable.
class SourceBytes {
 public:
  SourceBytes() = default;
  ~SourceBytes() { Release(); }
  SourceBytes(SourceBytes&& other) noexcept { Swap(other); }
  SourceBytes& operator=(SourceBytes&& other) noexcept {
    Swap(other);
    return *this;
  }

  // Lends a range of `file`, or a copy of it when the file does not place it at a multiple of
  // `alignment`. Throws kIo when the file changed since it was opened.
  static SourceBytes Lend(const MappedFile& file, uint64_t offset, uint64_t num_bytes,
                          size_t alignment);
  // Bytes that were computed.
  static SourceBytes Own(AlignedBuffer buffer);

  // Aligned for elements of the tensor's dtype, even when the file did not align them.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void Swap(SourceBytes& other) noexcept;
  void Release() noexcept;

  std::span<const std::byte> bytes_;
  const MappedFile* file_ = nullptr;
  uint64_t file_offset_ = 0;
  AlignedBuffer copy_;  // only for what the file misaligned
};

// Thread safety: const members may be called from several threads. Lent bytes and SourceTensors
// must not outlive the checkpoint; it may be moved.
class ShardedCheckpoint {
 public:
  // `path`: folder, index file or any one shard (see FindCheckpointFiles). Throws kIo naming file
  // and tensor when a tensor stands in two shards, when the index names one that its shard lacks,
  // or when a shard holds one that the index does not name.
  static ShardedCheckpoint Open(const std::string& path);

  // Folder of the checkpoint, where config.json and tokenizer.json stand too.
  const std::string& folder() const { return files_.folder; }
  const CheckpointFiles& files() const { return files_; }
  const std::vector<SafetensorsFile>& shards() const { return shards_; }
  // Shard after shard, in the order of their bytes: the order in which reading is fastest.
  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  // nullptr when there is none of that name.
  const SourceTensor* Find(std::string_view name) const;
  uint64_t total_bytes() const;

  // The whole tensor, or `num_bytes` of it from `begin` (the caller's fault when outside). Throws
  // kIo when the file changed since Open.
  SourceBytes Read(const SourceTensor& source) const;
  SourceBytes Read(const SourceTensor& source, uint64_t begin, uint64_t num_bytes) const;

 private:
  void IndexNames();
  void CheckIndex() const;

  CheckpointFiles files_;
  std::vector<SafetensorsFile> shards_;
  std::vector<SourceTensor> tensors_;
  std::vector<uint32_t> by_name_;  // indices of tensors_, ordered by name
};

}  // namespace opst

#endif  // OPST_IO_SHARDED_CHECKPOINT_H_
