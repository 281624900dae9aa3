// The five benchmarks on tiny inputs: what they report, and what they refuse. No speed is judged.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/layer_bench.h"
#include "bench/layer_rows.h"
#include "bench/limits.h"
#include "bench/model_bench.h"
#include "bench/ops_bench.h"
#include "bench/roofline.h"
#include "bench/routing_bench.h"
#include "io/testing/files.h"
#include "opst/convert.h"

namespace opst::bench {
namespace {

using ::opst::testing::ExpectError;
using ::testing::HasSubstr;
using ::testing::Not;

LayerShape TinyShape() {
  LayerShape shape;
  shape.name = "tiny";
  shape.hidden = 64;
  shape.ffn = 48;
  shape.num_experts = 8;
  shape.top_k = 2;
  return shape;
}

TEST(LayerBenchTest, ReportsEveryRowInEveryFormat) {
  const Context context({.num_threads = 2});
  for (const WeightType type : {WeightType(WeightFormat::kF32), WeightType(WeightFormat::kBf16),
                                WeightType(WeightFormat::kF16), WeightType(WeightFormat::kInt8),
                                WeightType(WeightFormat::kInt4, 128)}) {
    const Report report =
        RunLayerBench(context, {.shape = TinyShape(), .tokens = {1, 13}, .type = type, .runs = 2});
    EXPECT_THAT(report.text, HasSubstr("tiny: H 64, F 48, E 8, k 2"));
    EXPECT_THAT(report.text, HasSubstr("of roofline"));
    EXPECT_EQ(report.notes.size(), 1u) << "two runs are few";
    const auto json = nlohmann::json::parse(report.json);
    EXPECT_EQ(json["options"]["weights"], type.ToString());
    EXPECT_EQ(json["options"]["weights_from"], "cache");
    ASSERT_EQ(json["rows"].size(), 2u);
    const auto& row = json["rows"][1];
    EXPECT_EQ(row["tokens"], 13);
    EXPECT_EQ(row["us"]["runs"], 2);
    EXPECT_GT(row["gflop_per_s"], 0.0);
    EXPECT_GT(row["ratio_to_plain_loop"]["median"], 0.0);
    EXPECT_LE(row["max_error_of_bound"], 1.0);
    EXPECT_GT(row["fraction_of_roofline"]["median"], 0.0);
    EXPECT_EQ(json["limits"].size(), IsInteger(type.format) ? 3u : 2u);
  }
}

TEST(OpsBenchTest, ReportsEveryOperatorOnce) {
  const Context context({.num_threads = 2});
  const Report report = RunOpsBench(context, {.shape = TinyShape(), .num_tokens = 13, .runs = 2});
  EXPECT_THAT(report.text, HasSubstr("of roofline"));
  const auto json = nlohmann::json::parse(report.json);
  EXPECT_EQ(json["options"]["tokens"], 13);
  ASSERT_EQ(json["rows"].size(), 20u);
  for (const auto& row : json["rows"]) {
    EXPECT_GT(row["us"]["median"], 0.0) << row;
    EXPECT_GT(row["fraction_of_roofline"]["median"], 0.0) << row;
  }
  ExpectError(ErrorKind::kInvalidArgument, {"tokens must be 1 to"},
              [&] { RunOpsBench(context, {.shape = TinyShape(), .num_tokens = 0}); });
}

TEST(LayerBenchTest, RunsWithoutThePlainLoop) {
  const Context context({.num_threads = 1});
  LayerShape shape = TinyShape();
  shape.decode_tokens = {3};
  const Report report = RunLayerBench(
      context,
      {.shape = shape, .routing = RoutingKind::kOneHot, .runs_plain_loop = false, .runs = 5});
  EXPECT_TRUE(report.notes.empty());
  const auto json = nlohmann::json::parse(report.json);
  EXPECT_EQ(json["rows"][0]["tokens"], 3);
  EXPECT_TRUE(json["rows"][0]["plain_loop_us"].is_null());
  EXPECT_TRUE(json["rows"][0]["ratio_to_plain_loop"].is_null());
  EXPECT_EQ(json["options"]["routing"], "one-hot");
}

// A machine whose last cache is smaller than the layer.
TEST(LayerBenchTest, WeightsLargerThanTheCacheAreReadFromMemory) {
  const Context context({.num_threads = 2});
  Machine machine = DescribeMachine(context);
  machine.l2_bytes = machine.l3_bytes = 64 << 10;
  const LayerBenchOptions options{
      .shape = TinyShape(), .tokens = {4}, .runs = 2, .most_plain_seconds = 0};
  const size_t bytes = PackedBytes(options.shape, options.type);
  Roofline roofline(context, machine, {.model_bytes = bytes, .benchmark_bytes = bytes});
  EXPECT_TRUE(roofline.reads_memory());
  const LayerRow row = LayerRunner(context, options).MeasureRow(4, roofline);
  EXPECT_EQ(row.us.runs, 2);
  EXPECT_EQ(row.plain_us.runs, 1) << "out of time after the first";
  EXPECT_GE(row.distinct_experts, 2);
  EXPECT_LE(row.distinct_experts, 8);
  EXPECT_DOUBLE_EQ(row.weight_bytes, row.distinct_experts * 3 * 64 * 48 * 4);
  EXPECT_EQ(roofline.Limits()[1].name, "read_memory_2mb_pages");
  EXPECT_EQ(roofline.Limits()[1].value.runs, 3) << "before each sample of both";
}

TEST(LayerBenchTest, ShapeThatDoesNotFitIsRefusedBeforeAnyWork) {
  const Context context({.num_threads = 1});
  LayerShape shape = TinyShape();
  shape.hidden = shape.ffn = 1 << 20;
  ExpectError(ErrorKind::kOutOfMemory,
              {"the layer tiny (H 1048576", "in f32 must fit the free memory", "--weights bf16",
               "--no-plain-loop", " needed, "},
              [&] { RunLayerBench(context, {.shape = shape, .tokens = {1}}); });
}

TEST(LayerBenchTest, WrongRequestsAreRefused) {
  const Context context({.num_threads = 1});
  ExpectError(ErrorKind::kInvalidArgument, {"number of tokens must be given"},
              [&] { RunLayerBench(context, {.shape = TinyShape()}); });
  ExpectError(ErrorKind::kInvalidArgument, {"tokens must be 1 to"},
              [&] { RunLayerBench(context, {.shape = TinyShape(), .tokens = {0}}); });
  ExpectError(ErrorKind::kInvalidArgument, {"runs must be at least 1"},
              [&] { RunLayerBench(context, {.shape = TinyShape(), .tokens = {1}, .runs = 0}); });
}

TEST(RoutingBenchTest, ReportsRowsPerSecond) {
  const Context context({.num_threads = 2});
  uint64_t last_done = 0;
  const Report report =
      RunRoutingBench(context, {.shape = TinyShape(), .tokens = {1, 70}, .runs = 2},
                      [&](uint64_t done, uint64_t total) {
                        EXPECT_LT(done, total);
                        last_done = done;
                      });
  EXPECT_EQ(last_done, 1u);
  EXPECT_THAT(report.text, HasSubstr("rows/s"));
  const auto json = nlohmann::json::parse(report.json);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["bytes"], 70 * (8 * 4 + 2 * 16));
  EXPECT_GT(json["rows"][1]["rows_per_s"], 0.0);
  EXPECT_GT(json["rows"][1]["ratio_to_plain_routing"]["median"], 0.0);
}

TEST(LimitsBenchTest, MeasuresEveryLimitOnOneAndAllWorkers) {
  const Context context({.num_threads = 2});
  const Report report = RunLimitsBench(context, {.runs = 1, .read_bytes = 64 << 20});
  const auto json = nlohmann::json::parse(report.json);
  std::string names;
  for (const auto& limit : json["limits"]) {
    EXPECT_GT(limit["median"], 0.0) << limit["name"];
    names +=
        limit["name"].get<std::string>() + "/" + std::to_string(limit["threads"].get<int>()) + " ";
  }
  for (const char* name : {"fma_f32/1", "fma_f32/2", "tile_f32_l1/2", "tile_bf16_l1/1",
                           "tile_f16_l1/2", "read_memory_2mb_pages/1", "read_memory_2mb_pages/2",
                           "read_memory_4kb_pages/2", "fork_join/2", "queued_section/2"}) {
    EXPECT_THAT(names, HasSubstr(name));
  }
}

TEST(LimitsBenchTest, OneWorkerHasNobodyToWaitFor) {
  const Context context({.num_threads = 1});
  const Report report = RunLimitsBench(context, {.runs = 1, .read_bytes = 64 << 20});
  EXPECT_THAT(report.text, Not(HasSubstr("queued_section")));
}

TEST(ModelBenchTest, ReportsBothPhasesAndMemory) {
  const Context context({.num_threads = 2});
  const TempFolder folder;
  Convert(context, std::string(OPST_SOURCE_DIR) + "/tests/data/tiny/olmoe",
          folder.File("olmoe.opst"));
  const Report report = RunModelBench(
      context, {.path = folder.File("olmoe.opst"), .prompt_tokens = 9, .new_tokens = 3, .runs = 2});
  EXPECT_THAT(report.text, HasSubstr("olmoe.opst, olmoe"));
  EXPECT_THAT(report.text, HasSubstr("peak resident"));
  const auto json = nlohmann::json::parse(report.json);
  EXPECT_EQ(json["options"]["model"], "olmoe.opst") << "no folder of this machine";
  ASSERT_EQ(json["rows"].size(), 3u);
  EXPECT_GT(json["rows"][0]["tokens_per_s"]["median"], 0.0);
  EXPECT_GT(json["rows"][0]["gflop_per_s"], 0.0);
  EXPECT_GT(json["rows"][1]["weight_bytes_per_token"], 0.0);
  EXPECT_LT(json["rows"][1]["weight_bytes_per_token"], json["rows"][2]["file_bytes"]);
  EXPECT_GT(json["rows"][2]["peak_resident_bytes"], 0);
}

TEST(ModelBenchTest, WrongRequestsAreRefused) {
  const Context context({.num_threads = 1});
  ExpectError(ErrorKind::kInvalidArgument, {"must be at least 1"},
              [&] { RunModelBench(context, {.path = "x", .new_tokens = 0}); });
  ExpectError(ErrorKind::kIo, {"/no/such.opst"},
              [&] { RunModelBench(context, {.path = "/no/such.opst"}); });
}

}  // namespace
}  // namespace opst::bench
