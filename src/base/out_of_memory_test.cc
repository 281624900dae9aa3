// Tests that failed allocations become the library's error, and that nothing else does.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/out_of_memory.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "base/testing/errors.h"

namespace opst {
namespace {

TEST(OutOfMemoryTest, TheResultComesBack) {
  int value = 1;
  int& reference = NamingOutOfMemory("plan", [&]() -> int& { return value; });
  EXPECT_EQ(&reference, &value);
  EXPECT_EQ(NamingOutOfMemory("plan", [] { return std::string("text"); }), "text");
}

TEST(OutOfMemoryTest, ContainersThatCannotGrowBecomeTheLibrarysError) {
  const auto error_of = [](auto body) {
    return ErrorOf(ErrorKind::kOutOfMemory, [&] { NamingOutOfMemory("plan", body); });
  };
  EXPECT_EQ(error_of([] { throw std::bad_alloc(); }),
            "[plan] what is computed must fit the memory of this process; got an allocation that "
            "failed");
  std::vector<char> bytes;
  EXPECT_EQ(error_of([&] { bytes.resize(bytes.max_size() + 1); }),
            "[plan] what is computed must fit the memory of this process; got more elements than a "
            "container can have");
}

TEST(OutOfMemoryTest, OtherErrorsPass) {
  EXPECT_THROW(NamingOutOfMemory("plan", [] { throw std::runtime_error("other"); }),
               std::runtime_error);
  EXPECT_EQ(
      IoError([] { NamingOutOfMemory("plan", [] { ThrowIo("file", "must be there", "none"); }); }),
      "[file] must be there; got none");
}

}  // namespace
}  // namespace opst
