// `opst inspect`: recipe, tensors, sizes and memory of a packed file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "commands.h"
#include "io/safetensors_dtype.h"
#include "model/packed_model.h"
#include "nn/kv_cache.h"

namespace opst::tool {
namespace {

struct InspectArguments {
  std::string path;
  bool checks = false;
  bool lists_tensors = false;
};

// Numbers of a recipe are of f32: six digits tell them apart.
std::string ValueText(const nlohmann::ordered_json& value) {
  if (!value.is_number_float()) return value.dump();
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%g", value.get<double>());
  return digits.data();
}

void PrintRecipe(const ModelConfig& config) {
  const auto recipe = nlohmann::ordered_json::parse(config.ToJson());
  for (const auto& [key, value] : recipe.items()) {
    if (!value.is_object()) {
      std::printf("  %-16s %s\n", key.c_str(), ValueText(value).c_str());
      continue;
    }
    std::printf("  %s\n", key.c_str());
    for (const auto& [inner, inner_value] : value.items()) {
      std::printf("    %-18s %s\n", inner.c_str(), ValueText(inner_value).c_str());
    }
  }
}

void PrintTensors(const SafetensorsFile& file) {
  std::printf("\nTensors\n");
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (IsPaddingName(tensor.name)) continue;
    std::printf("  %-32s %-5s %-26s %10s\n", tensor.name.c_str(), tensor.dtype.c_str(),
                ShapeText(tensor.shape).c_str(), FormatBytes(tensor.num_bytes).c_str());
  }
}

// Types of the matrices, with their share of the file.
void PrintWeights(const PackedModel& model) {
  std::map<std::string, uint64_t> bytes;
  for (const PackedTensor& tensor : PackedTensors(model.config())) {
    if (tensor.storage == Storage::kVector) continue;
    bytes[model.TypeOf(tensor).ToString()] += model.file().At(tensor.name()).num_bytes;
  }
  std::printf("\nWeights\n");
  for (const auto& [type, count] : bytes) {
    std::printf("  %-26s %10s\n", type.c_str(), FormatBytes(count).c_str());
  }
}

// What a run needs: the file's pages, and keys and values of a text as long as was trained.
void PrintMemory(const PackedModel& model) {
  const ModelConfig& config = model.config();
  uint64_t experts = 0;
  for (const PackedTensor& tensor : PackedTensors(config)) {
    if (tensor.role == Role::kGateUp || tensor.role == Role::kDown) {
      experts += model.file().At(tensor.name()).num_bytes;
    }
  }
  const int64_t context = std::min<int64_t>(config.max_positions, 4096);
  const size_t cache = KvCache::NumBytes(config.attention, config.num_layers, context);
  const uint64_t file_bytes = model.file().file().size();
  const double active = config.routing.num_experts == 0
                            ? 0
                            : static_cast<double>(experts) *
                                  static_cast<double>(config.routing.top_k) /
                                  static_cast<double>(config.routing.num_experts);
  std::printf("\nMemory\n");
  std::printf("  file, mapped               %10s\n", FormatBytes(file_bytes).c_str());
  std::printf("  of that experts            %10s (%s read per token)\n",
              FormatBytes(experts).c_str(), FormatBytes(static_cast<uint64_t>(active)).c_str());
  std::printf("  keys and values            %10s for %lld tokens\n", FormatBytes(cache).c_str(),
              static_cast<long long>(context));
}

void RunInspect(const Settings& settings, const InspectArguments& arguments) {
  const Context context = settings.MakeContext();
  const auto model = PackedModel::Open(arguments.path, LoadOptionsOf(context.config()));
  std::printf("%s\n\nRecipe\n", arguments.path.c_str());
  PrintRecipe(model->config());
  PrintWeights(*model);
  PrintMemory(*model);
  if (arguments.lists_tensors) PrintTensors(model->file());
  if (!arguments.checks) return;
  model->CheckChecksums();
  std::printf("\nChecksums: all tensors are as they were written\n");
}

}  // namespace

void AddInspect(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show recipe, tensors, sizes and memory of a packed file");
  command->add_option("model", arguments->path, "Packed file")->required();
  command->add_flag("--tensors", arguments->lists_tensors, "List every tensor");
  command->add_flag("--check", arguments->checks, "Compare every checksum (reads the whole file)");
  AddSettings(*command, settings);
  command->callback([settings, arguments] { RunInspect(*settings, *arguments); });
}

}  // namespace opst::tool
