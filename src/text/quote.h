// Quoting of untrusted text for error messages; not for anything that is read back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_QUOTE_H_
#define OPST_TEXT_QUOTE_H_

#include <string>
#include <string_view>

namespace opst::text {

// `text` in double quotes, control characters as \xHH, at most about 80 bytes of it.
std::string Quoted(std::string_view text);

}  // namespace opst::text

#endif  // OPST_TEXT_QUOTE_H_
