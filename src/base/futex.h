// Sleeping until a 32-bit word changes, by the kernel's futex; no spinning and no ordering of
// memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_FUTEX_H_
#define OPST_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace opst {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

// Sleeps while `word` is `expected`; may return early. std::atomic::wait would call sched_yield
// several times first, which on a busy machine gives other processes a whole time slice each.
inline void FutexWait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

// Wakes up to `count` sleepers.
inline void FutexWake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace opst

#endif  // OPST_BASE_FUTEX_H_
