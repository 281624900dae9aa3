// A safetensors checkpoint of one or many files as a single list of tensors, read one at a time.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/sharded_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "io/file.h"
#include "io/quote.h"
#include "io/safetensors_dtype.h"

namespace opst {
namespace {

// Larger pieces are left to the kernel's own read-ahead: asking for all of a huge tensor at once
// would push out of the page cache what is needed first.
constexpr uint64_t kMaxPrefetchBytes = uint64_t{64} << 20;

// Alignment that elements of a dtype need in memory; 1 for types that are only carried as bytes.
size_t ElementAlignment(std::string_view dtype) {
  const std::optional<uint32_t> bits = SafetensorsBits(dtype);
  return bits && *bits % 8 == 0 ? *bits / 8 : 1;
}

}  // namespace

void SourceBytes::Swap(SourceBytes& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(file_, other.file_);
  std::swap(file_offset_, other.file_offset_);
  std::swap(copy_, other.copy_);
}

void SourceBytes::Release() noexcept {
  if (file_ != nullptr) file_->DontNeed(file_offset_, bytes_.size());
}

SourceBytes SourceBytes::Lend(const MappedFile& file, uint64_t offset, uint64_t num_bytes,
                              size_t alignment) {
  file.CheckUnchanged();
  SourceBytes result;
  const auto bytes =
      file.bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(num_bytes));
  if (num_bytes > 0 && num_bytes <= kMaxPrefetchBytes) file.WillNeed(offset, num_bytes);
  if (num_bytes > 0 && offset % alignment != 0) {
    AlignedBuffer copy(bytes.size(), {.is_zeroed = false});
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    file.DontNeed(offset, num_bytes);
    return Own(std::move(copy));
  }
  result.bytes_ = bytes;
  result.file_ = &file;
  result.file_offset_ = offset;
  return result;
}

SourceBytes SourceBytes::Own(AlignedBuffer buffer) {
  SourceBytes result;
  result.copy_ = std::move(buffer);
  result.bytes_ = {result.copy_.data(), result.copy_.size()};
  return result;
}

ShardedCheckpoint ShardedCheckpoint::Open(const std::string& path) {
  ShardedCheckpoint result;
  result.files_ = FindCheckpointFiles(path);
  result.shards_.reserve(result.files_.shards.size());
  for (const std::string& name : result.files_.shards) {
    result.shards_.push_back(SafetensorsFile::Open(JoinPath(result.files_.folder, name)));
  }
  for (size_t shard = 0; shard < result.shards_.size(); ++shard) {
    for (const SafetensorsTensor& tensor : result.shards_[shard].tensors()) {
      result.tensors_.push_back({shard, &tensor});
    }
  }
  result.IndexNames();
  if (!result.files_.index.empty()) result.CheckIndex();
  return result;
}

void ShardedCheckpoint::IndexNames() {
  OPST_CHECK_IO(tensors_.size() <= std::numeric_limits<uint32_t>::max(), folder(),
                "checkpoint must have at most 2^32 - 1 tensors", tensors_.size());
  by_name_.resize(tensors_.size());
  for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = static_cast<uint32_t>(i);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name() < tensors_[b].name(); });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const SourceTensor& a = tensors_[by_name_[i - 1]];
    const SourceTensor& b = tensors_[by_name_[i]];
    OPST_CHECK_IO(a.name() != b.name(), folder(), "a tensor must stand in one shard only",
                  Quote(a.name()), " in ", Quote(files_.shards[a.shard]), " and ",
                  Quote(files_.shards[b.shard]), " (name one file if these are different models)");
  }
}

void ShardedCheckpoint::CheckIndex() const {
  const std::string where = JoinPath(folder(), files_.index);
  for (const auto& [name, shard] : files_.shard_of_tensor) {
    const SourceTensor* source = Find(name);
    OPST_CHECK_IO(source != nullptr && files_.shards[source->shard] == shard, where,
                  "tensors must stand in the shard that the index names", Quote(name),
                  source == nullptr ? " not in " : " elsewhere than in ", Quote(shard));
  }
  for (const SourceTensor& source : tensors_) {
    OPST_CHECK_IO(files_.shard_of_tensor.contains(source.name()), where,
                  "the index must name every tensor of its shards", Quote(source.name()), " in ",
                  Quote(files_.shards[source.shard]), ", not in the index");
  }
}

const SourceTensor* ShardedCheckpoint::Find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](uint32_t index, std::string_view wanted) {
                                        return std::string_view(tensors_[index].name()) < wanted;
                                      });
  if (found == by_name_.end() || tensors_[*found].name() != name) return nullptr;
  return &tensors_[*found];
}

uint64_t ShardedCheckpoint::total_bytes() const {
  uint64_t total = 0;
  for (const SourceTensor& source : tensors_) total += source.tensor->num_bytes;
  return total;
}

SourceBytes ShardedCheckpoint::Read(const SourceTensor& source) const {
  return Read(source, 0, source.tensor->num_bytes);
}

SourceBytes ShardedCheckpoint::Read(const SourceTensor& source, uint64_t begin,
                                    uint64_t num_bytes) const {
  const SafetensorsTensor& tensor = *source.tensor;
  OPST_CHECK_ARG(begin <= tensor.num_bytes && num_bytes <= tensor.num_bytes - begin,
                 "sharded_checkpoint", "Read must stay inside the tensor", tensor.Describe(), ", [",
                 begin, ", +", num_bytes, "] of ", tensor.num_bytes, " bytes");
  const SafetensorsFile& shard = shards_[source.shard];
  return SourceBytes::Lend(shard.file(), shard.FileOffset(tensor) + begin, num_bytes,
                           ElementAlignment(tensor.dtype));
}

}  // namespace opst
