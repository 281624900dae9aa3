// The largest single request of memory of this process, for tests of bounded memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TESTS_FUZZ_TESTING_ALLOCATIONS_H_
#define OPST_TESTS_FUZZ_TESTING_ALLOCATIONS_H_

#include <cstddef>

namespace opst::fuzz {

// In bytes, since it was last set to 0; only what goes through operator new.
size_t& LargestAllocation();

}  // namespace opst::fuzz

#endif  // OPST_TESTS_FUZZ_TESTING_ALLOCATIONS_H_
