// Base of the event-driven JSON readers: every event that a reader does not expect is an error.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/json_events.h"

#include "base/check.h"

namespace opst {

bool JsonEvents::parse_error(size_t position, const std::string&,
                             const nlohmann::detail::exception&) {
  // The parser's own text quotes the input, which may be long and hold control characters.
  ThrowIo(where_, "must be valid JSON", Concat("an error at byte ", position, ", in ", Place()));
}

void JsonEvents::Fail(std::string_view rule, std::string_view found) const {
  ThrowIo(where_, rule, Concat(Place(), ": ", found));
}

bool JsonEvents::Unexpected(std::string_view found) const {
  Fail("JSON must have the structure of its format", found);
}

void ParseJsonEvents(std::string_view text, JsonEvents& events, const std::string& where) {
  // The parser takes a NUL byte for the end of the text and would not look behind it.
  const size_t nul = text.find('\0');
  OPST_CHECK_IO(nul == std::string_view::npos, where, "JSON must not hold NUL bytes",
                "one at byte ", nul);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

}  // namespace opst
