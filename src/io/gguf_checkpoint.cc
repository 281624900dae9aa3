// A GGUF model of one or many files as a single list of tensors.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_checkpoint.h"

#include <utility>

#include "base/check.h"
#include "io/file.h"
#include "io/file_series.h"
#include "io/quote.h"

namespace opst {
namespace {

constexpr std::string_view kSuffix = ".gguf";

// The file to begin with: `path` itself, or the one model of a folder.
std::string FirstFile(const std::string& path) {
  if (KindOf(path) != PathKind::kFolder) return path;
  const std::vector<std::string> names = ListFiles(path, kSuffix);
  OPST_CHECK_IO(!names.empty(), path, "folder must hold a model", "no *.gguf file");
  const auto first = ParseSeriesMember(names.front(), kSuffix);
  for (const std::string& name : names) {
    const auto member = ParseSeriesMember(name, kSuffix);
    const bool is_same =
        name == names.front() || (first && member && member->series == first->series);
    OPST_CHECK_IO(is_same, path, "folder must hold one model, else the file must be named",
                  "more than one: ", Quote(names.front()), ", ", Quote(name));
  }
  return JoinPath(path, names.front());
}

}  // namespace

bool GgufCheckpoint::IsGguf(const std::string& path) {
  if (KindOf(path) != PathKind::kFolder) return path.ends_with(kSuffix);
  return ListFiles(path, ".safetensors").empty() && !ListFiles(path, kSuffix).empty();
}

GgufCheckpoint GgufCheckpoint::Open(const std::string& path) {
  GgufCheckpoint result;
  const std::string first = FirstFile(path);
  const std::string folder = ParentFolder(first);
  std::vector<std::string> names = {FileName(first)};
  if (const auto member = ParseSeriesMember(names.front(), kSuffix)) {
    names = SeriesFiles(folder, ListFiles(folder, kSuffix), *member, kSuffix);
  }
  for (const std::string& name : names) {
    result.files_.push_back(GgufFile::Open(JoinPath(folder, name)));
  }
  result.CheckParts();
  result.IndexTensors();
  return result;
}

void GgufCheckpoint::CheckParts() const {
  const auto count = static_cast<int64_t>(files_.size());
  for (int64_t i = 0; i < count; ++i) {
    const GgufMetadata& metadata = files_[static_cast<size_t>(i)].metadata();
    const int64_t parts = metadata.Integer("split.count", 0, 65535, 1);
    OPST_CHECK_IO(parts == count || (parts == 0 && count == 1), metadata.where(),
                  "split.count must be the number of parts that the file's name says", parts,
                  " instead of ", count);
    OPST_CHECK_IO(metadata.Integer("split.no", 0, 65535, 0) == i, metadata.where(),
                  "split.no must be the part that the file's name says, counted from 0",
                  metadata.Integer("split.no", 0, 65535, 0), " instead of ", i);
  }
}

void GgufCheckpoint::IndexTensors() {
  for (const GgufFile& file : files_) {
    for (const GgufTensor& tensor : file.tensors()) {
      const bool is_new = tensors_.emplace(tensor.name, Tensor{&file, &tensor}).second;
      OPST_CHECK_IO(is_new, file.path(), "a tensor must stand in one part only", Quote(tensor.name),
                    " again");
    }
  }
  const int64_t total = metadata().Integer("split.tensors.count", 0, int64_t{1} << 40,
                                           static_cast<int64_t>(tensors_.size()));
  OPST_CHECK_IO(total == static_cast<int64_t>(tensors_.size()), path(),
                "split.tensors.count must be the number of tensors of all parts", total,
                " instead of ", tensors_.size());
}

const GgufCheckpoint::Tensor* GgufCheckpoint::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

uint64_t GgufCheckpoint::total_bytes() const {
  uint64_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.tensor->num_bytes;
  return total;
}

}  // namespace opst
