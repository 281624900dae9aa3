// Feeds every committed corpus file, and random mutations of them, to the fuzz targets: what the
// fuzzer once found stays found, with the sanitizers of the ordinary tests.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/testing/allocations.h"
#include "tests/fuzz/testing/targets.h"

namespace opst::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Corpus(std::string_view target) {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(OPST_SOURCE_DIR) / "tests/fuzz/corpus" / target)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const fs::path& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Replay : public ::testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Targets, Replay, ::testing::ValuesIn(Targets().begin(), Targets().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(Replay, TheCorpusEndsInAResultOrAnError) {
  const std::vector<std::string> inputs = Corpus(GetParam().name);
  EXPECT_FALSE(inputs.empty());
  for (const std::string& input : inputs) GetParam().run(input);
}

// Bytes that a reader may ask for at once: twice the file, and what does not depend on it.
constexpr size_t kConstantBytes = size_t{1} << 20;

TEST_P(Replay, MutationsEndInAResultOrAnError) {
  const std::vector<std::string> inputs = Corpus(GetParam().name);
  std::mt19937 random(1);
  const int num_rounds = GetParam().name == "packed" ? 10000 : 2000;
  for (int round = 0; round < num_rounds; ++round) {
    std::string bytes = inputs[random() % inputs.size()];
    for (unsigned i = 0; i <= random() % 4 && !bytes.empty(); ++i) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
          break;
        default:  // an extreme number where one may stand
          for (size_t j = at; j < std::min(at + 8, bytes.size()); ++j) bytes[j] = '\xFF';
      }
    }
    LargestAllocation() = 0;
    GetParam().run(bytes);
    EXPECT_LE(LargestAllocation(), 2 * bytes.size() + kConstantBytes) << "round " << round;
  }
}

}  // namespace
}  // namespace opst::fuzz
