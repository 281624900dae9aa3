// Tests that a conversion never replaces what it reads, and warns of a tokenizer that will not do.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "convert/testing/checkpoint_copy.h"
#include "opst/convert.h"

namespace opst {
namespace {

using testing::CheckpointCopy;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(OutputGuardTest, ForceReplacesNoFileOfTheSourceFolder) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string output = source + "/" + name;
    const auto before = std::filesystem::file_size(output);
    try {
      Convert(context, source, output, {.overwrites = true});
      ADD_FAILURE() << output << " was replaced";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("must not replace a file of the source folder"));
    }
    EXPECT_EQ(std::filesystem::file_size(output), before);
  }
  Convert(context, source, copy.output());
  Convert(context, source, copy.output(), {.overwrites = true});  // an older output
}

TEST(OutputGuardTest, ATokenizerThatWillBeRefusedIsNamedAtOnce) {
  std::vector<std::string> lines;
  ContextOptions options;
  options.log_sink = [&](LogLevel, std::string_view line) { lines.emplace_back(line); };
  const Context context(options);
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  std::ofstream(source + "/tokenizer.json") << R"({"model": {"type": "Unigram"}})";
  Convert(context, source, copy.output(), {.overwrites = true});
  EXPECT_THAT(lines, Contains(HasSubstr("the model will give no text, its tokenizer is refused")));
}

}  // namespace
}  // namespace opst
