// Makes text from an untrusted file safe to print in an error or a table; not a JSON writer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_QUOTE_H_
#define OPST_IO_QUOTE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace opst {

// In double quotes, with control characters, quotes and backslashes escaped (\x1b, \", \\), cut
// after `max_bytes` bytes of input at a UTF-8 boundary and then followed by "...".
std::string Quote(std::string_view text, size_t max_bytes = 160);

}  // namespace opst

#endif  // OPST_IO_QUOTE_H_
