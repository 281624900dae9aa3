// Builds the error text "[where] rule; got facts" in one place; knows no operator.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

namespace opst {

void Throw(ErrorKind kind, std::string_view where, std::string_view rule, std::string_view facts) {
  std::string text = Concat("[", where, "] ", rule);
  if (!facts.empty()) text += Concat("; got ", facts);
  throw Error(kind, text);
}

}  // namespace opst
