// The table's alignment, numbers in few digits, and the JSON document.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "bench/limits.h"
#include "bench/text_table.h"

namespace opst::bench {
namespace {

TEST(TextTableTest, WordsLeftNumbersRight) {
  TextTable table({"name", "ms", "how"}, {0, 2});
  table.AddRow({"a", "1.5", "quickly"});
  table.AddRow({"longer", "-", "not"});
  EXPECT_EQ(table.ToString(),
            "name     ms  how\n"
            "--------------------\n"
            "a       1.5  quickly\n"
            "longer    -  not\n");
}

TEST(TextTableTest, NumbersKeepThreeDigits) {
  EXPECT_EQ(Digits(0), "0");
  EXPECT_EQ(Digits(0.001234), "0.00123");
  EXPECT_EQ(Digits(1.2345), "1.23");
  EXPECT_EQ(Digits(12.345), "12.3");
  EXPECT_EQ(Digits(123.45), "123");
  EXPECT_EQ(Digits(123456.7), "123457");
  EXPECT_EQ(Digits(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(Percent(0.876), "88 %");
  EXPECT_EQ(Percent(-1), "-");
  EXPECT_EQ(Spread(Summarize({3, 1, 2})), "1.00-3.00");
  EXPECT_EQ(Spread(Summary{}), "-");
}

TEST(ReportTest, JsonNumbersHaveFiveDigits) {
  EXPECT_EQ(ToJson(1.23456789).dump(), "1.2346");
  EXPECT_EQ(ToJson(1234567.0).dump(), "1234600.0");
  EXPECT_EQ(ToJson(0.000012345678).dump(), "1.2346e-05");
  EXPECT_EQ(ToJson(0.0).dump(), "0.0");
  EXPECT_TRUE(ToJson(std::numeric_limits<double>::infinity()).is_null());
  EXPECT_TRUE(ToJson(Summary{}).is_null());
}

TEST(ReportTest, DocumentHasEveryPart) {
  Machine machine;
  machine.isa = "avx2";
  machine.threads = 2;
  const std::vector<Limit> limits{
      {"fma_f32", "multiply-add", 2, "GFLOP/s", Summarize({200, 210, 220}), ""}};
  const auto json = nlohmann::json::parse(
      JsonDocument("layer", machine, {{"runs", 3}}, limits, {{{"tokens", 8}}}));
  EXPECT_EQ(json["schema"], "opst-bench/1");
  EXPECT_EQ(json["command"], "layer");
  EXPECT_EQ(json["machine"]["isa"], "avx2");
  EXPECT_EQ(json["machine"]["threads"], 2);
  EXPECT_TRUE(json["machine"]["commit"].is_null());
  EXPECT_EQ(json["options"]["runs"], 3);
  EXPECT_EQ(json["limits"][0]["name"], "fma_f32");
  EXPECT_EQ(json["limits"][0]["median"], 210);
  EXPECT_EQ(json["rows"][0]["tokens"], 8);
}

TEST(ReportTest, FewRunsAreNoted) {
  std::vector<std::string> notes;
  NoteFewRuns(5, notes);
  EXPECT_TRUE(notes.empty());
  NoteFewRuns(4, notes);
  EXPECT_EQ(notes.size(), 1u);
}

}  // namespace
}  // namespace opst::bench
