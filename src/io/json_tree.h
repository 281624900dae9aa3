// Reads a small JSON text that is not trusted into a tree, with bounds; the readers of large files
// take events instead (base/json_events.h).
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_JSON_TREE_H_
#define OPST_IO_JSON_TREE_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace opst {

struct JsonTreeLimits {
  size_t max_bytes = size_t{1} << 20;
  size_t max_depth = 16;  // objects and arrays inside each other
};

// Keys keep their order. Throws kIo naming `where` (the file) and the place in it: not JSON, an
// object key that stands twice, a limit.
nlohmann::ordered_json ReadJsonTree(std::string_view text, const std::string& where,
                                    const JsonTreeLimits& limits = {});

}  // namespace opst

#endif  // OPST_IO_JSON_TREE_H_
