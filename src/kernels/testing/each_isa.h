// A fixture that runs its tests on every instruction set of this machine; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_KERNELS_TESTING_EACH_ISA_H_
#define OPST_KERNELS_TESTING_EACH_ISA_H_

#include <gtest/gtest.h>

#include <string>

#include "kernels/isa.h"

namespace opst {

// Use with INSTANTIATE_TEST_SUITE_P(Isa, MyTest, testing::ValuesIn(AvailableIsas()), IsaName).
class EachIsaTest : public testing::TestWithParam<std::string> {
 protected:
  // Uses up the first call, so that an operator's own does not undo the choice.
  EachIsaTest() { RequireIsa("auto"); }
  void SetUp() override { SelectIsa(GetParam()); }
  void TearDown() override { SelectIsa("auto"); }
};

inline std::string IsaName(const testing::TestParamInfo<std::string>& test) { return test.param; }

}  // namespace opst

#endif  // OPST_KERNELS_TESTING_EACH_ISA_H_
