// Tables of code points that are younger than the system's Unicode libraries, or than the
// reference's; the general properties come from those libraries.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_UNICODE_TABLES_H_
#define OPST_TEXT_UNICODE_TABLES_H_

#include <span>

namespace opst::text {

struct CodePointRange {
  char32_t first, last;  // both inclusive
};

struct NamedRange {
  char32_t first, last;
  const char* name;  // general category ("Lo") or script ("Han")
};

// Assigned after Unicode 14, at the latest in 16; ascending.
std::span<const NamedRange> CategoriesSinceUnicode14();
std::span<const NamedRange> ScriptsSinceUnicode14();

// Numbers of all kinds assigned after Unicode 14, at the latest in 17; ascending.
std::span<const CodePointRange> NumericSinceUnicode14();

// What Unicode 9 does not know and later versions decompose, compose or reorder; ascending.
std::span<const CodePointRange> TooYoungForNormalForms();

}  // namespace opst::text

#endif  // OPST_TEXT_UNICODE_TABLES_H_
