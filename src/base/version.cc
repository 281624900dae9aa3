// The library's own version.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/version.h"

namespace opst {

const char* LibraryVersion() { return OPST_VERSION_STRING; }

}  // namespace opst
