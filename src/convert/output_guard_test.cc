// Tests that a conversion never replaces what it reads, and names text files that will not do.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/errors.h"
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
    EXPECT_THAT(IoError([&] { Convert(context, source, output, {.overwrites = true}); }),
                HasSubstr("must not replace a file of the source folder"));
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

TEST(OutputGuardTest, AGenerationConfigThatWillNotLoadIsRefusedBeforeAnythingIsWritten) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  const auto vocabulary = copy.config().at("vocab_size").get<int64_t>();
  for (const std::string& json :
       {std::string("{"), std::string("[]"), std::string(R"({"eos_token_id": "</s>"})"),
        R"({"eos_token_id": [0, )" + std::to_string(vocabulary) + "]}"}) {
    std::ofstream(source + "/generation_config.json") << json;
    EXPECT_THAT(IoError([&] { Convert(context, source, copy.output()); }),
                HasSubstr("generation_config.json]"))
        << json;
    EXPECT_FALSE(std::filesystem::exists(copy.output()));
  }
}

}  // namespace
}  // namespace opst
