// Which files of a folder make up one safetensors checkpoint; does not open the shards.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_files.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/check.h"
#include "io/checkpoint_index.h"
#include "io/file.h"
#include "io/file_series.h"
#include "io/quote.h"

namespace opst {
namespace {

constexpr std::string_view kShardSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr uint64_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxShards = 10'000;

std::string List(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 4; ++i) text += (i > 0 ? ", " : "") + Quote(names[i]);
  if (names.size() > 4) text += Concat(", ... (", names.size(), " in all)");
  return text;
}

// Fills CheckpointFiles for one folder; each step either decides or leaves it to the next.
class Finder {
 public:
  explicit Finder(const std::string& folder)
      : all_(ListFiles(folder, kShardSuffix)), indices_(ListFiles(folder, kIndexSuffix)) {
    files_.folder = folder;
  }

  CheckpointFiles InFolder() {
    const bool has_single = std::count(all_.begin(), all_.end(), kSingleName) > 0;
    const std::vector<std::string> series = SeriesNames();
    if (indices_.size() > 1) AskToName(indices_);
    if (indices_.size() == 1) {
      UseIndex(indices_[0]);
      if (has_single && !IsShard(kSingleName)) AskToName({std::string(kSingleName), indices_[0]});
    } else if (has_single) {
      if (!series.empty()) AskToName({std::string(kSingleName), series[0]});
      files_.shards = {std::string(kSingleName)};
    } else if (series.size() > 1) {
      AskToName(series);
    } else if (series.size() == 1) {
      UseSeries(*ParseSeriesMember(series[0], kShardSuffix));
    } else {
      OPST_CHECK_IO(!all_.empty(), files_.folder, "folder must hold a safetensors checkpoint",
                    "no *.safetensors file", PickleHint());
      files_.shards = all_;
    }
    return Finish();
  }

  // What to do when the weights are there, but pickled.
  std::string PickleHint() const {
    for (const std::string_view suffix : {".bin", ".pth", ".pt"}) {
      const std::vector<std::string> pickles = ListFiles(files_.folder, suffix);
      if (pickles.empty()) continue;
      return Concat(", but ", Quote(pickles.front()),
                    ": scripts/pth_to_safetensors.py turns pickled weights into safetensors");
    }
    return {};
  }

  CheckpointFiles WithIndex(const std::string& name) {
    UseIndex(name);
    return Finish();
  }

  // The model that a named shard belongs to.
  CheckpointFiles WithShard(const std::string& name) {
    for (const std::string& index : indices_) {
      UseIndex(index);
      if (IsShard(name)) return Finish();
    }
    files_.index.clear();
    files_.shard_of_tensor.clear();
    if (const std::optional<SeriesMember> member = ParseSeriesMember(name, kShardSuffix)) {
      UseSeries(*member);
    } else {
      files_.shards = {name};
    }
    return Finish();
  }

 private:
  bool IsShard(std::string_view name) const {
    return std::find(files_.shards.begin(), files_.shards.end(), name) != files_.shards.end();
  }

  [[noreturn]] void AskToName(const std::vector<std::string>& names) const {
    ThrowIo(files_.folder, "folder must hold one model, else the file must be named",
            Concat("more than one: ", List(names)));
  }

  // The first file of each series.
  std::vector<std::string> SeriesNames() const {
    std::set<std::string> seen;
    std::vector<std::string> first;
    for (const std::string& name : all_) {
      const std::optional<SeriesMember> member = ParseSeriesMember(name, kShardSuffix);
      if (member && seen.insert(member->series).second) first.push_back(name);
    }
    return first;
  }

  void UseIndex(const std::string& name) {
    const std::string path = JoinPath(files_.folder, name);
    files_.index = name;
    files_.shard_of_tensor = ParseCheckpointIndex(ReadWholeFile(path, kMaxIndexBytes), path);
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : files_.shard_of_tensor) shards.insert(shard);
    OPST_CHECK_IO(shards.size() <= kMaxShards, path,
                  Concat("index must name at most ", kMaxShards, " shards"), shards.size());
    files_.shards.assign(shards.begin(), shards.end());
  }

  void UseSeries(const SeriesMember& wanted) {
    files_.shards = SeriesFiles(files_.folder, all_, wanted, kShardSuffix);
  }

  CheckpointFiles Finish() {
    for (const std::string& name : files_.shards) {
      const std::string path = JoinPath(files_.folder, name);
      OPST_CHECK_IO(KindOf(path) == PathKind::kFile, files_.folder,
                    "every shard named in the index must be there", "no file ", Quote(name));
    }
    for (const std::string& name : all_) {
      if (!IsShard(name)) files_.unused.push_back(name);
    }
    return std::move(files_);
  }

  CheckpointFiles files_;
  std::vector<std::string> all_;
  std::vector<std::string> indices_;
};

}  // namespace

CheckpointFiles FindCheckpointFiles(const std::string& path) {
  const PathKind kind = KindOf(path);
  if (kind == PathKind::kFolder) return Finder(path).InFolder();
  OPST_CHECK_IO(kind == PathKind::kFile, path, "checkpoint must be a folder or a file of it",
                kind == PathKind::kMissing ? "nothing there" : "a pipe or device");
  const std::string name = FileName(path);
  if (name.ends_with(kIndexSuffix)) return Finder(ParentFolder(path)).WithIndex(name);
  OPST_CHECK_IO(name.ends_with(kShardSuffix), path,
                "file must be called *.safetensors, *.safetensors.index.json or *.gguf; or name "
                "the folder of the checkpoint",
                Quote(name));
  return Finder(ParentFolder(path)).WithShard(name);
}

}  // namespace opst
