// The two halves of the table of filters: those of texts and those of lists.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_FILTERS_H_
#define OPST_TEXT_JINJA_FILTERS_H_

#include <map>
#include <string_view>

#include "text/jinja/value.h"

namespace opst::text::jinja {

using Filter = Value (*)(const Value& value, const Arguments& arguments, Budget& budget);
using FilterTable = std::map<std::string_view, Filter, std::less<>>;

const FilterTable& TextFilters();
const FilterTable& ListFilters();

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_FILTERS_H_
