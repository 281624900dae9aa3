// Replaces operator new of the test program by one that notes the largest request.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/testing/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace opst::fuzz {

size_t& LargestAllocation() {
  static size_t largest = 0;
  return largest;
}

}  // namespace opst::fuzz

void* operator new(size_t bytes) {
  size_t& largest = opst::fuzz::LargestAllocation();
  largest = std::max(largest, bytes);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// The delete below frees these, too: a sanitizer's own would be another family.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
