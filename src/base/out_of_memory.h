// Turns what the standard library throws for want of memory into the library's error, at public
// entries whose containers grow with the input; buffers of base/memory.h throw it themselves.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_OUT_OF_MEMORY_H_
#define OPST_BASE_OUT_OF_MEMORY_H_

#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace opst {

// Returns body(). std::bad_alloc and std::length_error (more elements than a container can have)
// become kOutOfMemory; `where` is the operator or the file.
template <typename Body>
decltype(auto) NamingOutOfMemory(std::string_view where, Body&& body) {
  constexpr std::string_view kRule = "what is computed must fit the memory of this process";
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    Throw(ErrorKind::kOutOfMemory, where, kRule, "an allocation that failed");
  } catch (const std::length_error&) {
    Throw(ErrorKind::kOutOfMemory, where, kRule, "more elements than a container can have");
  }
}

}  // namespace opst

#endif  // OPST_BASE_OUT_OF_MEMORY_H_
