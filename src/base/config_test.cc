// Tests of the settings: precedence, refusals with the nearest name, and the committed docs.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/log.h"
#include "base/strings.h"
#include "base/testing/errors.h"
#include "base/testing/temp_folder.h"
#include "opst/error.h"

namespace opst {
namespace {

// A file that is removed with its object.
struct TempFile {
  TempFile(const std::string& name, const std::string& text) : path(folder.Write(name, text)) {}
  const TempFolder folder;
  const std::string path;
};

std::string InvalidOverride(const std::string& key, const std::string& value) {
  return Rejection([&] { Config({{key, value}}, {}); });
}

TEST(ConfigTest, DefaultsHoldWithoutSources) {
  const Config config({}, {});
  EXPECT_EQ(config.GetInt("threads"), 0);
  EXPECT_EQ(config.GetBytes("stage1_buffer_size"), size_t{256} << 20);
  EXPECT_EQ(config.GetChoice("isa"), "auto");
  EXPECT_EQ(config.GetChoice("load"), "map");
  EXPECT_TRUE(config.GetBool("huge_pages"));
  EXPECT_FALSE(config.GetBool("force_fp32"));
  EXPECT_EQ(config.GetChoices("log"), std::vector<std::string_view>{"warning"});
  EXPECT_EQ(config.source("threads"), "default");
}

TEST(ConfigTest, ArgumentBeatsEnvironmentBeatsFileBeatsDefault) {
  const TempFile file("precedence.ini", "threads = 5\nexpert_batch_size = 50\nisa = sse2\n");
  const Settings environment = {
      {"OPST_THREADS", "6"}, {"OPST_EXPERT_BATCH_SIZE", "60"}, {"OPST_CONFIG", file.path}};
  const Config config({{"threads", "7"}}, environment);
  EXPECT_EQ(config.GetInt("threads"), 7);
  EXPECT_EQ(config.source("threads"), "argument");
  EXPECT_EQ(config.GetInt("expert_batch_size"), 60);
  EXPECT_EQ(config.source("expert_batch_size"), "OPST_EXPERT_BATCH_SIZE");
  EXPECT_EQ(config.GetChoice("isa"), "sse2");
  EXPECT_EQ(config.source("isa"), file.path);
  EXPECT_EQ(config.GetChoice("load"), "map");
}

TEST(ConfigTest, LastOfSeveralArgumentsWins) {
  EXPECT_EQ(Config({{"threads", "2"}, {"threads", "3"}}, {}).GetInt("threads"), 3);
}

TEST(ConfigTest, DashesInKeysCountAsUnderscores) {
  EXPECT_EQ(Config({{"stage1-buffer-size", "1KB"}}, {}).GetBytes("stage1_buffer_size"), 1024u);
}

TEST(ConfigTest, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(
      InvalidOverride("thread", "2"),
      "[argument] keys must be settings of the library; got \"thread\", the nearest known one "
      "is \"threads\"");
}

TEST(ConfigTest, UnknownVariableNamesTheNearest) {
  const std::string text = Rejection([] { Config({}, {{"OPST_TREADS", "2"}}); });
  EXPECT_EQ(
      text,
      "[environment] OPST_ variables must be settings of the library; got \"OPST_TREADS\", the "
      "nearest known one is \"OPST_THREADS\"");
}

TEST(ConfigTest, UnknownChoiceNamesTheNearest) {
  EXPECT_EQ(InvalidOverride("isa", "avx"),
            "[argument] isa must be auto|avx512_vnni|avx512|avx2|sse2|neon|baseline|avx3; got "
            "\"avx\", the nearest "
            "known one is \"avx2\"");
  EXPECT_NE(InvalidOverride("log", "info,dispach").find("\"dispatch\""), std::string::npos);
}

TEST(ConfigTest, ValuesOfTheWrongTypeOrRangeAreRefused) {
  EXPECT_EQ(InvalidOverride("threads", "two"),
            "[argument] threads must be int 0 to 4096; got \"two\"");
  for (const char* text : {"", "-1", "4097", "2.5", "2 3"}) InvalidOverride("threads", text);
  for (const char* text : {"", "2", "maybe"}) InvalidOverride("force_fp32", text);
  for (const char* text : {"", "big", "-1MB"}) InvalidOverride("stage1_buffer_size", text);
  InvalidOverride("implementation", "");
  const std::string text = Rejection([] { Config({}, {{"OPST_THREADS", "two"}}); });
  EXPECT_EQ(text, "[OPST_THREADS] threads must be int 0 to 4096; got \"two\"");
}

TEST(ConfigTest, SpellingsOfBooleansAndAuto) {
  for (const char* text : {"1", "true", "Yes", "ON", " on "}) {
    EXPECT_TRUE(Config({{"force_fp32", text}}, {}).GetBool("force_fp32")) << text;
  }
  for (const char* text : {"0", "false", "No", "off"}) {
    EXPECT_FALSE(Config({{"huge_pages", text}}, {}).GetBool("huge_pages")) << text;
  }
  EXPECT_EQ(Config({{"threads", "Auto"}}, {}).GetInt("threads"), 0);
  EXPECT_EQ(Config({{"log", "Info, dispatch"}}, {}).GetChoices("log"),
            (std::vector<std::string_view>{"info", "dispatch"}));
}

TEST(ConfigTest, ForeignNameIsWeakerThanOurOwn) {
  EXPECT_TRUE(Config({}, {{"NPU_FORCE_FP32", "1"}}).GetBool("force_fp32"));
  for (const bool alias_first : {true, false}) {
    Settings environment = {{"OPST_FORCE_FP32", "0"}, {"NPU_FORCE_FP32", "1"}};
    if (alias_first) std::swap(environment[0], environment[1]);
    EXPECT_FALSE(Config({}, environment).GetBool("force_fp32"));
  }
}

TEST(ConfigTest, ReadingAnotherTypeThanTheTablesIsRefused) {
  const Config config({}, {});
  Rejection([&] { config.GetInt("isa"); });
  Rejection([&] { config.GetBool("no_such_key"); });
}

TEST(ConfigTest, EnvironmentIsFilteredByPrefixAndEmptyMeansUnset) {
  setenv("OPST_THREADS", "3", 1);
  setenv("OPST_ISA", "", 1);
  setenv("OPST_SKIP_TORCH", "1", 1);
  setenv("NPU_FORCE_FP32", "1", 1);
  const Settings environment = ReadEnvironment();
  for (const char* name : {"OPST_THREADS", "OPST_ISA", "OPST_SKIP_TORCH", "NPU_FORCE_FP32"}) {
    unsetenv(name);
  }
  std::set<std::string> names;
  for (const auto& [name, value] : environment) names.insert(name);
  EXPECT_TRUE(names.contains("OPST_THREADS"));
  EXPECT_TRUE(names.contains("NPU_FORCE_FP32"));
  EXPECT_FALSE(names.contains("OPST_ISA"));
  EXPECT_FALSE(names.contains("OPST_SKIP_TORCH"));
  EXPECT_FALSE(names.contains("PATH"));
}

TEST(ConfigFileTest, IniHasSectionsAndComments) {
  const TempFile file("pipeline.ini",
                      "# head\r\n[Pipeline]\r\nstage1_buffer_size = 64MB  # pool\r\n"
                      "\r\n; old\r\nforce-fp32=yes");
  EXPECT_EQ(ReadSettingsFile(file.path),
            (Settings{{"stage1_buffer_size", "64MB"}, {"force_fp32", "yes"}}));
}

TEST(ConfigFileTest, JsonValuesMayBeTextNumbersAndBooleans) {
  const TempFile file("config.json",
                      R"({"threads": 2, "force_fp32": true, "stage1_buffer_size": "64MB"})");
  const Config config({{"config", file.path}}, {});
  EXPECT_EQ(config.GetInt("threads"), 2);
  EXPECT_TRUE(config.GetBool("force_fp32"));
  EXPECT_EQ(config.GetBytes("stage1_buffer_size"), size_t{64} << 20);
}

TEST(ConfigFileTest, UnknownAndRepeatedKeysAreRefused) {
  const std::pair<const char*, const char*> files[] = {
      {"unknown.json", R"({"thread": 2})"},
      {"unknown.ini", "thread = 2"},
      {"twice.json", R"({"threads": 2, "threads": 3})"},
      {"twice.ini", "threads = 2\nthreads = 3"},
      {"chain.ini", "config = other.ini"},
  };
  for (const auto& [name, text] : files) {
    const TempFile file(name, text);
    const std::string error = Rejection([&] { ReadSettingsFile(file.path); });
    EXPECT_TRUE(error.starts_with("[" + file.path + "]")) << error;
    if (std::string_view(name).starts_with("unknown")) {
      EXPECT_NE(error.find("nearest known one is \"threads\""), std::string::npos) << error;
    }
  }
}

TEST(ConfigFileTest, WrongValueInAFileNamesTheFile) {
  const TempFile file("wrong.ini", "threads = many\n");
  const std::string error = Rejection([&] { Config({{"config", file.path}}, {}); });
  EXPECT_EQ(error, "[" + file.path + "] threads must be int 0 to 4096; got \"many\"");
}

TEST(ConfigFileTest, MalformedFilesAreIoErrors) {
  const std::pair<const char*, std::string> files[] = {
      {"cut.json", R"({"threads": 2)"},
      {"tail.json", R"({"threads": 2} x)"},
      {"list.json", "[1, 2]"},
      {"bare.json", "3"},
      {"nested.json", R"({"log": ["info"]})"},
      {"object.json", R"({"threads": {"a": 1}})"},
      {"null.json", R"({"threads": null})"},
      {"empty.json", ""},
      {"deep.json", std::string(100000, '[')},
      {"words.ini", "threads 2"},
      {"nokey.ini", "= 2"},
      {"huge.ini", std::string((1 << 20) + 1, '#')},
  };
  for (const auto& [name, text] : files) {
    const TempFile file(name, text);
    IoError([&] { ReadSettingsFile(file.path); });
  }
  IoError([] { ReadSettingsFile("/no/such/file.ini"); });
  Rejection([] { ReadSettingsFile("settings.yaml"); });
}

TEST(ConfigTableTest, RowsAreConsistent) {
  std::set<std::string_view> keys;
  for (const ConfigRow& row : ConfigTable()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key << " twice";
    std::string variable = "OPST_";
    for (const char c : row.key) variable += static_cast<char>(std::toupper(c));
    EXPECT_EQ(row.environment, variable);
    EXPECT_FALSE(row.help.empty() || row.help.ends_with('.')) << row.key;
    EXPECT_EQ(row.help.find('|'), std::string_view::npos) << row.key;
    const bool has_choices = row.type == ConfigType::kChoice || row.type == ConfigType::kChoices;
    EXPECT_EQ(has_choices, !row.choices.empty()) << row.key;
  }
  EXPECT_EQ(FlagName(FindConfigRow("stage1_buffer_size", "test")), "--stage1-buffer-size");
}

TEST(ConfigTableTest, EveryLogNameIsKnownToTheLogger) {
  const std::vector<std::string_view> names = Split(FindConfigRow("log", "test").choices, '|');
  EXPECT_EQ(names.size(), 4 + kNumLogTopics);
  EXPECT_NO_THROW(Logger{names});
}

TEST(ConfigTableTest, CommittedDocsEqualTheTable) {
  std::ifstream file(OPST_SOURCE_DIR "/docs/environment.md", std::ios::binary);
  std::stringstream committed;
  committed << file.rdbuf();
  if (committed.str() == ConfigDocs()) return;
  const std::string expected = Concat(testing::TempDir(), "opst_", getpid(), "_environment.md");
  std::ofstream(expected, std::ios::binary) << ConfigDocs();
  ADD_FAILURE() << "docs/environment.md is not what the table says; copy it from " << expected;
}

}  // namespace
}  // namespace opst
