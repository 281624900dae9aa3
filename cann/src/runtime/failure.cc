// The last error text of each thread. Nothing else remembers errors, but streams theirs.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "cann/src/runtime/failure.h"

#include "cann/src/runtime/log.h"

namespace opst::cann {
namespace {

struct Recent {
  std::string text;
  std::string handed_out;
};

Recent& OfThisThread() {
  thread_local Recent recent;
  return recent;
}

}  // namespace

int Report(int code, std::string_view text) noexcept {
  try {
    OfThisThread().text = Concat("E", code, ": ", text);
    Log(ACL_ERROR, OfThisThread().text);
  } catch (...) {  // no memory for a text: the code alone must do
  }
  return code;
}

}  // namespace opst::cann

const char* aclGetRecentErrMsg() {
  opst::cann::Recent& recent = opst::cann::OfThisThread();
  if (recent.text.empty()) return nullptr;
  recent.handed_out.swap(recent.text);
  recent.text.clear();
  return recent.handed_out.c_str();
}
