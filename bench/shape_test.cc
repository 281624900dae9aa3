// Shape files: parsing, the bundled ones, and what wrong ones are told.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/testing/files.h"

namespace opst::bench {
namespace {

using ::opst::testing::ExpectError;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kGood =
    "# A layer.\n"
    "hidden = 64\n"
    "ffn = 32   # behind a value\n"
    "\n"
    "num_experts = 8\n"
    "top_k = 2\n"
    "renormalizes = no\n"
    "decode_tokens = 1, 8\n"
    "prefill_tokens = 512\n";

void ExpectRefused(std::string_view text, std::initializer_list<std::string_view> parts) {
  ExpectError(ErrorKind::kInvalidArgument, parts, [&] { ParseShape("x", text, "x.txt"); });
}

TEST(ShapeTest, ReadsEveryKey) {
  const LayerShape shape = ParseShape("tiny", kGood, "tiny.txt");
  EXPECT_EQ(shape.name, "tiny");
  EXPECT_EQ(shape.comment, "A layer.");
  EXPECT_EQ(shape.ToString(), "H 64, F 32, E 8, k 2");
  EXPECT_EQ(shape.num_layers, 1);
  EXPECT_FALSE(shape.renormalizes);
  EXPECT_THAT(shape.all_tokens(), ElementsAre(1, 8, 512));
  EXPECT_EQ(shape.expert_elements(), 3 * 64 * 32);
  EXPECT_EQ(shape.flop(5), 6.0 * 5 * 2 * 64 * 32);
}

TEST(ShapeTest, WrongFilesAreRefusedWithTheReason) {
  ExpectRefused("hiden = 4\n", {"[x.txt]", "did you mean hidden?", "hiden"});
  ExpectRefused("hidden 4\n", {"key = value", "hidden 4"});
  ExpectRefused("hidden = 4\nhidden = 4\n", {"only once"});
  ExpectRefused("hidden = 0\n", {"hidden must be a number from 1"});
  ExpectRefused("hidden = 1e9\n", {"hidden must be a number from 1"});
  ExpectRefused("hidden = 4\nffn = 4\nnum_experts = 2\n", {"must say top_k"});
  ExpectRefused("hidden = 4\nffn = 4\nnum_experts = 2\ntop_k = 3\n", {"at most num_experts"});
  ExpectRefused("decode_tokens = 1,,2\n", {"decode_tokens must be"});
  ExpectRefused("renormalizes = maybe\n", {"yes or no"});
}

TEST(ShapeTest, EveryBundledShapeParsesAndHasTokens) {
  EXPECT_GE(BundledShapes().size(), 6u);
  for (const ShapeText& bundled : BundledShapes()) {
    const LayerShape shape = FindShape(bundled.name);
    EXPECT_FALSE(shape.comment.empty()) << bundled.name;
    EXPECT_FALSE(shape.decode_tokens.empty()) << bundled.name;
    EXPECT_FALSE(shape.prefill_tokens.empty()) << bundled.name;
    EXPECT_THAT(ShapeNames(), HasSubstr(std::string(bundled.name)));
  }
}

TEST(ShapeTest, BundledModelHasItsOwnShape) {
  std::ifstream file(std::string(OPST_SOURCE_DIR) + "/models/austen-moe/config.json");
  ASSERT_TRUE(file.good());
  const auto config = nlohmann::json::parse(file);
  const LayerShape shape = FindShape("austen-moe");
  EXPECT_EQ(shape.hidden, config["hidden_size"].get<int64_t>());
  EXPECT_EQ(shape.ffn, config["moe_intermediate_size"].get<int64_t>());
  EXPECT_EQ(shape.num_experts, config["num_local_experts"].get<int64_t>());
  EXPECT_EQ(shape.top_k, config["num_experts_per_tok"].get<int64_t>());
  EXPECT_EQ(shape.num_layers, config["num_hidden_layers"].get<int64_t>());
  EXPECT_EQ(shape.renormalizes, config["norm_topk_prob"].get<bool>());
}

TEST(ShapeTest, NamesIgnoreCaseAndFilesAreRead) {
  EXPECT_EQ(FindShape("OLMoE-1B-7B").hidden, 2048);
  const TempFolder folder;
  const LayerShape shape = FindShape(folder.Write("mine.txt", kGood));
  EXPECT_EQ(shape.name, "mine");
  EXPECT_EQ(shape.hidden, 64);
}

TEST(ShapeTest, WrongNamesListWhatExists) {
  ExpectError(ErrorKind::kInvalidArgument,
              {"olmoe-1b-7b, ", "austen-moe", "did you mean mixtral-8x7b?", "mixtral-8x7"},
              [] { FindShape("mixtral-8x7"); });
  ExpectError(ErrorKind::kIo, {"/no/such.txt", "readable"}, [] { FindShape("/no/such.txt"); });
}

}  // namespace
}  // namespace opst::bench
