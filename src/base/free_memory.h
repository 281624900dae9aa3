// What memory this process may still take and has taken; it allocates nothing.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_FREE_MEMORY_H_
#define OPST_BASE_FREE_MEMORY_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace opst {

// Bytes that can be taken without swapping: what the kernel calls available, or less when a memory
// limit of the process's control group, or of a group above it, leaves less. `root` stands before
// /proc and /sys, "" for the running system. SIZE_MAX when nothing can be read.
size_t FreeMemoryBytes(const std::string& root = "");

// Throws kOutOfMemory of `where` when less than `needed_bytes` are free; `what` begins the
// sentence, `advice` ends it.
void RequireFreeMemory(std::string_view where, std::string_view what, size_t needed_bytes,
                       std::string_view advice, const std::string& root = "");

// The largest resident set so far, mapped file pages included; 0 when unknown.
size_t PeakResidentBytes();
// Anonymous memory now in 2 MB pages; 0 when unknown.
size_t HugePageBytes();

}  // namespace opst

#endif  // OPST_BASE_FREE_MEMORY_H_
