// Names of files that make up one model in numbered parts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file_series.h"

#include "base/check.h"
#include "base/strings.h"
#include "io/quote.h"

namespace opst {
namespace {

constexpr int64_t kMaxParts = 10'000;

}  // namespace

std::optional<SeriesMember> ParseSeriesMember(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const size_t of = name.rfind("-of-");
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> number = ParseInt(name.substr(dash + 1, of - dash - 1));
  const std::optional<int64_t> count = ParseInt(name.substr(of + 4));
  if (!number || !count || *number < 0 || *count < 1 || *count > kMaxParts) return std::nullopt;
  return SeriesMember{Concat(name.substr(0, dash), name.substr(of)), *number, *count};
}

std::vector<std::string> SeriesFiles(const std::string& folder,
                                     const std::vector<std::string>& names,
                                     const SeriesMember& wanted, std::string_view suffix) {
  std::vector<std::string> by_number(static_cast<size_t>(wanted.count));
  for (const std::string& name : names) {
    const std::optional<SeriesMember> member = ParseSeriesMember(name, suffix);
    if (!member || member->series != wanted.series) continue;
    OPST_CHECK_IO(member->number >= 1 && member->number <= member->count, folder,
                  "shard numbers must be 1 to their count", Quote(name));
    by_number[static_cast<size_t>(member->number - 1)] = name;
  }
  for (size_t i = 0; i < by_number.size(); ++i) {
    OPST_CHECK_IO(!by_number[i].empty(), folder, "every shard of a series must be there",
                  "no number ", i + 1, " of ", Quote(Concat(wanted.series, suffix)));
  }
  return by_number;
}

}  // namespace opst
