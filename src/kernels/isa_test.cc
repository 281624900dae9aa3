// Tests of listing and forcing instruction sets.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/errors.h"
#include "kernels/gemm_tile.h"
#include "kernels/testing/each_isa.h"
#include "opst/error.h"

namespace opst {
namespace {

TEST(IsaTest, ListsTheBestFirstAndAlwaysSomething) {
  const std::vector<std::string> names = AvailableIsas();
  ASSERT_FALSE(names.empty());
  SelectIsa("auto");
  EXPECT_EQ(CurrentIsa(), names.front());
}

TEST(IsaTest, UnknownNamesAreRefusedWithWhatExists) {
  for (const char* name : {"avx9", "", "AUTO", "neon2"}) {
    EXPECT_THAT(Rejection([&] { SelectIsa(name); }),
                testing::StartsWith("[isa] the instruction set must be auto or one of " +
                                    AvailableIsas().front()));
  }
  EXPECT_EQ(CurrentIsa(), AvailableIsas().front());
}

TEST(IsaTest, ALaterContextMustAgreeOrLeaveTheChoice) {
  RequireIsa("auto");
  SelectIsa("auto");
  const std::string best = AvailableIsas().front();
  RequireIsa(best);
  for (const std::string& other : AvailableIsas()) {
    if (other == best) continue;
    EXPECT_EQ(Rejection([&] { RequireIsa(other); }),
              "[isa] all contexts of a process must ask for the same instruction set, or for "
              "auto; got " +
                  other + " while " + best + " is in use");
  }
  RequireIsa("auto");
  EXPECT_EQ(CurrentIsa(), best);
}

TEST(IsaTest, OtherNamesMeanTheSame) {
  SelectIsa("baseline");
  EXPECT_EQ(CurrentIsa(), AvailableIsas().back());
  const std::vector<std::string> isas = AvailableIsas();
  if (std::find(isas.begin(), isas.end(), "avx512") != isas.end()) {
    SelectIsa("avx3");
    EXPECT_EQ(CurrentIsa(), "avx512");
    RequireIsa("avx3");
  }
  SelectIsa("auto");
}

class SelectedIsaTest : public EachIsaTest {};

TEST_P(SelectedIsaTest, IsInForceAndHasItsOwnTiles) {
  EXPECT_EQ(CurrentIsa(), GetParam());
  const TileKernels* mine = &GetIntegerTileKernels(WeightFormat::kInt4, ActivationFormat::kInt16);
  for (const std::string& other : AvailableIsas()) {
    if (other == GetParam()) continue;
    SelectIsa(other);
    EXPECT_NE(&GetIntegerTileKernels(WeightFormat::kInt4, ActivationFormat::kInt16), mine) << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, SelectedIsaTest, testing::ValuesIn(AvailableIsas()), IsaName);

}  // namespace
}  // namespace opst
