// Names of files that make up one model in numbered parts; opens nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_FILE_SERIES_H_
#define OPST_IO_FILE_SERIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

// NAME-00002-of-00005<suffix>
struct SeriesMember {
  std::string series;  // what all members share: "NAME-of-00005"
  int64_t number = 0;  // not checked against count
  int64_t count = 0;   // 1 to 10,000
};

std::optional<SeriesMember> ParseSeriesMember(std::string_view name, std::string_view suffix);

// The members of `wanted` among `names`, number 1 first. Throws kIo naming `folder` when one is
// missing or a number is out of range.
std::vector<std::string> SeriesFiles(const std::string& folder,
                                     const std::vector<std::string>& names,
                                     const SeriesMember& wanted, std::string_view suffix);

}  // namespace opst

#endif  // OPST_IO_FILE_SERIES_H_
