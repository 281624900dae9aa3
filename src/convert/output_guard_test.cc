// Tests that a conversion never replaces what it reads, and names text files that will not do.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "base/testing/temp_folder.h"
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

TEST(OutputGuardTest, ForceReplacesNoFileThatALinkInTheFolderStandsFor) {
  namespace fs = std::filesystem;
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  const TempFolder blobs;  // as a cache of downloads keeps them
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string blob = blobs.File(std::string(name) + ".blob");
    fs::rename(source + "/" + name, blob);
    fs::create_symlink(blob, source + "/" + name);
  }
  const std::string weights = blobs.File("model.safetensors.blob");
  const auto before = fs::file_size(weights);
  EXPECT_THAT(IoError([&] { Convert(context, source, weights, {.overwrites = true}); }),
              HasSubstr("output must not replace a file that is read"));
  EXPECT_EQ(fs::file_size(weights), before);
  Convert(context, source, blobs.File("beside.opst"));
}

TEST(OutputGuardTest, ATextFileThatIsALinkToNothingIsAnError) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  std::filesystem::create_symlink(source + "/nowhere", source + "/tokenizer.json");
  EXPECT_THAT(IoError([&] { Convert(context, source, copy.output()); }),
              HasSubstr("tokenizer.json] a text file of the model must be there; got a symbolic "
                        "link to nothing"));
}

TEST(OutputGuardTest, AWayBackThatFailsLeavesNoFolder) {
  const Context context;
  const CheckpointCopy copy("mixtral");
  const std::string source = copy.Write();
  Convert(context, source, copy.output());
  const TempFolder folder;
  // Files cannot grow beyond some bytes, as on a full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error =
      ErrorIfAny(ErrorKind::kIo, [&] { ExportToHuggingFace(copy.output(), folder.File("back")); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error, HasSubstr("disk must take what is written"));
  EXPECT_FALSE(std::filesystem::exists(folder.File("back")));
  ExportToHuggingFace(copy.output(), folder.File("back"));
  EXPECT_TRUE(std::filesystem::exists(folder.File("back")));
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
