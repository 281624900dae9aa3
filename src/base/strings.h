// Small text helpers: trim, split, sizes, nearest name; not a formatting library (Concat: check.h).
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_STRINGS_H_
#define OPST_BASE_STRINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace opst {

// Without spaces, tabs and line ends on both sides.
std::string_view Trim(std::string_view text);

// ASCII letters only; nothing here depends on the locale.
std::string ToLower(std::string_view text);

// The trimmed parts between separators; "" gives no part, "a,,b" gives an empty one in the middle.
std::vector<std::string_view> Split(std::string_view text, char separator);

// Whole text or nothing: no sign other than '-', no spaces, no trailing letters, no infinities.
std::optional<int64_t> ParseInt(std::string_view text);
std::optional<double> ParseFloat(std::string_view text);

// "4096", "256MB", "1.5 GB": B, KB, MB, GB and TB are powers of 1024, in any case; K and KiB mean
// KB.
std::optional<size_t> ParseBytes(std::string_view text);
// The reverse, for messages: "256 MB", "1.50 GB", "17 B".
std::string FormatBytes(size_t bytes);

// The name with the smallest edit distance to `word`, the first one of several; "" without names.
// A swap of two neighbours counts as one edit.
std::string_view NearestName(std::string_view word, std::span<const std::string_view> names);
// The same if it may well be what was meant: at most a third of the longer one's letters differ;
// else empty.
std::string_view CloseName(std::string_view word, std::span<const std::string_view> names);

}  // namespace opst

#endif  // OPST_BASE_STRINGS_H_
