// What a C program cannot bring about: exceptions of every kind, and arrays longer than any memory.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "capi/call.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace opst::capi {
namespace {

template <typename Exception>
opst_status StatusOfThrown(const Exception& exception) {
  return Run("opst_function", [&](const Call&) { throw exception; });
}

TEST(CallTest, EveryExceptionBecomesAStatusWithAText) {
  EXPECT_EQ(StatusOfThrown(Error(ErrorKind::kInvalidArgument, "[x] a; got b")),
            OPST_INVALID_ARGUMENT);
  EXPECT_STREQ(opst_last_error(), "[x] a; got b");
  EXPECT_EQ(StatusOfThrown(Error(ErrorKind::kIo, "[x] io; got b")), OPST_IO);
  EXPECT_EQ(StatusOfThrown(Error(ErrorKind::kOutOfMemory, "[x] m; got b")), OPST_OUT_OF_MEMORY);
  EXPECT_EQ(StatusOfThrown(Error(ErrorKind::kComm, "[x] c; got b")), OPST_COMM);
  EXPECT_STREQ(opst_last_error(), "[x] c; got b");
  EXPECT_EQ(StatusOfThrown(Cancelled()), OPST_CANCELLED);
  EXPECT_STREQ(opst_last_error(),
               "[opst_function] the context must not be cancelled; got a cancelled one");
  EXPECT_EQ(StatusOfThrown(std::bad_alloc()), OPST_OUT_OF_MEMORY);
  EXPECT_STREQ(opst_last_error(),
               "[opst_function] what is computed must fit the memory of this process; got an "
               "allocation that failed");
  EXPECT_EQ(StatusOfThrown(std::logic_error("no rule")), OPST_INTERNAL);
  EXPECT_STREQ(opst_last_error(), "[opst_function] no rule");
  EXPECT_EQ(StatusOfThrown(5), OPST_INTERNAL);
  EXPECT_STREQ(opst_last_error(), "[opst_function] exceptions must be known; got another one");
}

TEST(CallTest, TheErrorLivesUntilTheNextOne) {
  StatusOfThrown(std::logic_error("first"));
  EXPECT_EQ(capi::Run("opst_function", [](const Call&) {}), OPST_OK);
  EXPECT_STREQ(opst_last_error(), "[opst_function] first");
}

TEST(CallTest, AnOutputIsNullAfterAFailure) {
  int value = 7;
  int* out = &value;
  EXPECT_EQ(Make("opst_function", &out, [](const Call&) { throw 1; }), OPST_INTERNAL);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(Make("opst_function", static_cast<int**>(nullptr), [](const Call&) {}),
            OPST_INVALID_ARGUMENT);
}

TEST(CallTest, LengthsThatNoMemoryHasAreRefused) {
  const int32_t value = 0;
  const auto run = [&](const int32_t* values, int64_t count) {
    return capi::Run("opst_function",
                     [&](const Call& call) { call.Array(values, count, "values"); });
  };
  EXPECT_EQ(run(&value, 1), OPST_OK);
  EXPECT_EQ(run(nullptr, 0), OPST_OK);
  EXPECT_EQ(run(&value, INT64_MAX), OPST_INVALID_ARGUMENT);
  EXPECT_STREQ(opst_last_error(),
               "[opst_function] values must not be longer than any memory; got "
               "9223372036854775807");
}

}  // namespace
}  // namespace opst::capi
