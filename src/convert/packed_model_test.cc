// Packed files that are damaged, altered, foreign or of another version never load quietly.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/packed_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/errors.h"
#include "convert/testing/checkpoint_copy.h"
#include "opst/convert.h"
#include "opst/model.h"

namespace opst {
namespace {

using testing::CheckpointCopy;
using ::testing::HasSubstr;

// A converted model whose file can be rewritten byte by byte.
class PackedModelTest : public ::testing::Test {
 protected:
  PackedModelTest() : copy_("mixtral") {
    Convert(context_, copy_.Write(), copy_.output());
    bytes_ = ReadWholeFile(copy_.output(), 1 << 24);
  }

  void Rewrite(const std::string& bytes) { std::ofstream(copy_.output()) << bytes; }
  using Replacement = std::pair<std::string, std::string>;  // of equal length
  // In a file of format 1, whose header has no checksum that would notice.
  void Replace(const std::vector<Replacement>& replacements) {
    std::string bytes = bytes_;
    bytes.replace(bytes.find(kFormat), kFormat.size(), R"("opst_format":"1")");
    for (const auto& [from, to] : replacements) {
      ASSERT_EQ(from.size(), to.size());
      ASSERT_NE(bytes.find(from), std::string::npos) << from;
      bytes.replace(bytes.find(from), from.size(), to);
    }
    Rewrite(bytes);
  }
  std::string ErrorOfOpening() {
    return ErrorIfAny(ErrorKind::kIo,
                      [&] { PackedModel::Open(copy_.output(), LoadMode::kMap)->CheckChecksums(); });
  }

  static constexpr std::string_view kFormat = R"("opst_format":"2")";
  Context context_;
  CheckpointCopy copy_;
  std::string bytes_;
};

TEST_F(PackedModelTest, AnUntouchedFilePassesItsChecksums) {
  EXPECT_EQ(ErrorOfOpening(), "no error");
}

TEST_F(PackedModelTest, OneAlteredBitIsFoundByTheChecksum) {
  std::string bytes = bytes_;
  bytes[bytes.size() - 40] = static_cast<char>(bytes[bytes.size() - 40] ^ 1);
  Rewrite(bytes);
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("checksum of head must be"));
}

TEST_F(PackedModelTest, AnAlteredFileDoesNotLoadWithCheckOnLoad) {
  const Context checking({.settings = {{"check_on_load", "on"}}});
  Model::Load(checking, copy_.output());
  std::string bytes = bytes_;
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  Rewrite(bytes);
  Model::Load(context_, copy_.output());
  EXPECT_THAT(IoError([&] { Model::Load(checking, copy_.output()); }), HasSubstr("checksum of"));
}

TEST_F(PackedModelTest, ATruncatedFileIsRefused) {
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{100}, bytes_.size() / 2, bytes_.size() - 1}) {
    Rewrite(bytes_.substr(0, length));
    EXPECT_NE(ErrorOfOpening(), "no error") << length;
  }
}

TEST_F(PackedModelTest, ANewerFormatIsRefusedByNumber) {
  Replace({{R"("opst_format":"1")", R"("opst_format":"3")"}});
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("reads packed files up to format 2"));
}

TEST_F(PackedModelTest, AnOlderFormatIsRead) {
  Replace({});
  EXPECT_EQ(ErrorOfOpening(), "no error");
}

// Header, padding and data; the length in front of the header is read before anything else.
TEST_F(PackedModelTest, EveryAlteredBitIsFound) {
  const auto step = std::max<size_t>(bytes_.size() / 3000, 1);
  for (size_t at = 0; at < bytes_.size(); at += step) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at / step % 8)));
    Rewrite(bytes);
    ASSERT_NE(ErrorOfOpening(), "no error") << "byte " << at;
  }
}

// Not even without a look at the data: what the header says is checked whenever a file is opened.
TEST_F(PackedModelTest, AnAlteredHeaderNeverOpens) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes_.data(), sizeof(header_bytes));
  for (size_t at = 8; at < 8 + header_bytes; at += 7) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    Rewrite(bytes);
    EXPECT_NE(
        ErrorIfAny(ErrorKind::kIo, [&] { PackedModel::Open(copy_.output(), LoadMode::kMap); }),
        "no error")
        << "byte " << at << ": " << bytes.substr(at - 8, 24);
  }
}

TEST_F(PackedModelTest, AnotherRecipeThanTheConfigsIsRefused) {
  Replace({{R"(\"renormalizes\":true)", R"(\"renormalizes\":TRUE)"}});
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("convert the source again"));
}

// Config and recipe agree, so only the tensors' shapes can tell.
TEST_F(PackedModelTest, AConfigThatNoLongerFitsTheTensorsIsRefused) {
  Replace({{R"(\"num_local_experts\":5)", R"(\"num_local_experts\":6)"},
           {R"(\"num_experts\":5)", R"(\"num_experts\":6)"}});
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("layers.0.moe.gate_up must be [6,5,48,16]; got "));
}

TEST_F(PackedModelTest, AMissingTensorIsNamed) {
  Replace({{R"("final_norm":)", R"("final_nurm":)"}});
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("final_norm"));
}

TEST_F(PackedModelTest, APlainCheckpointIsNamedAsSuch) {
  std::filesystem::copy_file(
      std::filesystem::path(OPST_SOURCE_DIR) / "tests/data/tiny/mixtral/model.safetensors",
      copy_.output(), std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(ErrorOfOpening(), HasSubstr("opst convert"));
}

TEST_F(PackedModelTest, TensorsAre64ByteAlignedInFileAndMemory) {
  const auto model = PackedModel::Open(copy_.output(), LoadMode::kMap);
  for (const PackedTensor& tensor : PackedTensors(model->config())) {
    const auto bytes = model->file().Bytes(model->file().At(tensor.name()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u) << tensor.name();
  }
}

}  // namespace
}  // namespace opst
