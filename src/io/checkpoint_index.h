// Reads model.safetensors.index.json, the table of tensors of a sharded checkpoint; opens no shard.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_CHECKPOINT_INDEX_H_
#define OPST_IO_CHECKPOINT_INDEX_H_

#include <map>
#include <string>
#include <string_view>

namespace opst {

// Tensor → name of its shard, from "weight_map"; every other member of the file is skipped. Throws
// kIo naming `where` for a tensor listed twice, for nesting deeper than 32, and for a shard that is
// not a plain *.safetensors name (no folders: an index must not reach outside its own).
std::map<std::string, std::string> ParseCheckpointIndex(std::string_view json,
                                                        const std::string& where);

}  // namespace opst

#endif  // OPST_IO_CHECKPOINT_INDEX_H_
