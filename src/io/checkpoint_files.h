// Which files of a folder make up one safetensors checkpoint; does not open the shards.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_CHECKPOINT_FILES_H_
#define OPST_IO_CHECKPOINT_FILES_H_

#include <map>
#include <string>
#include <vector>

namespace opst {

struct CheckpointFiles {
  std::string folder;
  // Names inside the folder, sorted.
  std::vector<std::string> shards;
  // Name of the index file, empty without one, and what it says: tensor → shard.
  std::string index;
  std::map<std::string, std::string> shard_of_tensor;
  // Other *.safetensors files of the folder, left alone; worth a line in the log.
  std::vector<std::string> unused;
};

// `path` may be a folder, an index file (*.safetensors.index.json) or any one shard; all three give
// the same answer. In a folder these are tried in order:
//   1. one index file, with the shards it names;
//   2. model.safetensors;
//   3. one complete series NAME-00001-of-0000N.safetensors;
//   4. all *.safetensors files together.
// Throws kIo when nothing is found, when a shard is missing, when the index is not what it should
// be (names that leave the folder, a tensor twice), and when the folder holds more than one model:
// then the text asks to name the file.
CheckpointFiles FindCheckpointFiles(const std::string& path);

}  // namespace opst

#endif  // OPST_IO_CHECKPOINT_FILES_H_
