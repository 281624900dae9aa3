// `opst convert`: a Hugging Face folder or a GGUF file into one packed file.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/strings.h"
#include "commands.h"
#include "opst/convert.h"
#include "progress.h"

namespace opst::tool {
namespace {

struct ConvertArguments {
  std::string source;
  std::string output;
  std::string weights = "bf16";
  ConvertOptions options;
};

DType TypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    if (Name(dtype) == name) return dtype;
  }
  return DType::kBf16;
}

void RunConvert(const Settings& settings, const ConvertArguments& arguments) {
  const Context context = settings.MakeContext();
  Progress progress("convert");
  ConvertOptions options = arguments.options;
  options.expanded = TypeNamed(arguments.weights);
  options.on_progress = [&](uint64_t done, uint64_t total) { progress.Show(done, total); };
  const ConvertReport report = Convert(context, arguments.source, arguments.output, options);
  progress.Clear();
  for (const std::string& name : report.unused_tensors) {
    std::printf("not needed for inference: %s\n", name.c_str());
  }
  std::printf("%s: %s model, %lld tensors, %s -> %s\n", arguments.output.c_str(),
              report.family.c_str(), static_cast<long long>(report.num_source_tensors),
              FormatBytes(report.source_bytes).c_str(), FormatBytes(report.output_bytes).c_str());
}

}  // namespace

void AddConvert(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand(
      "convert", "Convert a Hugging Face folder or a GGUF file into one packed file");
  command
      ->add_option("source", arguments->source,
                   "Folder with config.json and *.safetensors, or a .gguf file")
      ->required();
  command->add_option("output", arguments->output, "File to write, usually NAME.opst")->required();
  command->add_flag("--force", arguments->options.overwrites, "Replace the output if it exists");
  command->add_flag("--strict", arguments->options.is_strict,
                    "Fail on config.json fields that no rule names");
  command
      ->add_option("--weights", arguments->weights,
                   "What quantised tensors become: bf16, f16 or f32; others keep their type")
      ->transform(CLI::IsMember({"bf16", "f16", "f32"}, CLI::ignore_case))
      ->capture_default_str();
  AddSettings(*command, settings);
  command->callback([settings, arguments] { RunConvert(*settings, *arguments); });
}

}  // namespace opst::tool
