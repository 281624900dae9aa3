// `opst convert`: a Hugging Face folder or a GGUF file into one packed file, and back.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/check.h"
#include "base/strings.h"
#include "command_line.h"
#include "commands.h"
#include "opst/convert.h"
#include "progress.h"

namespace opst::tool {
namespace {

// Of --weights.
constexpr const char* kKeptWeights = "keep";

struct ConvertArguments {
  std::string source;
  std::string output;
  std::string weights = kKeptWeights;
  int64_t group = kDefaultGroup;
  std::vector<int64_t> upcycle;  // E, k
  std::vector<int64_t> split;
  bool verifies = false;
  bool lists_rounding = false;
  ConvertOptions options;
  std::string flags;  // those that were given, for a way back that has no use for them
};

DType TypeNamed(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    if (Name(dtype) == name) return dtype;
  }
  return DType::kBf16;
}

ConvertOptions OptionsOf(const ConvertArguments& arguments) {
  using Kind = MoeOfDenseOptions::Kind;
  ConvertOptions options = arguments.options;
  options.expanded = TypeNamed(arguments.weights);
  options.expands_mxfp4 = arguments.weights != kKeptWeights;
  for (const WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kMxfp4}) {
    if (Name(format) != arguments.weights) continue;
    options.quantized = WeightType(format, arguments.group);
    options.expanded = DType::kF32;  // so that quantised sources are not rounded twice
  }
  if (!arguments.upcycle.empty()) {
    options.moe_of_dense = {Kind::kUpcycle, arguments.upcycle[0], arguments.upcycle[1]};
  } else if (!arguments.split.empty()) {
    options.moe_of_dense = {Kind::kSplit, arguments.split[0], arguments.split[1]};
  }
  return options;
}

void RunVerify(const Context& context, const ConvertArguments& arguments,
               const ConvertOptions& options) {
  const VerifyReport report = Verify(context, arguments.source, arguments.output, options);
  for (size_t layer = 0; layer < report.layer_errors.size(); ++layer) {
    std::printf("layer %zu: largest error %.2e\n", layer, report.layer_errors[layer]);
  }
  std::printf("logits: largest error %.2e, at position %lld, token %lld\n", report.max_error,
              static_cast<long long>(report.worst_position),
              static_cast<long long>(report.worst_token));
  if (report.is_equal) {
    std::printf("verified: the file computes what its source says\n");
    return;
  }
  const std::string where = report.first_diverging_layer < 0
                                ? "the logits"
                                : Concat("layer ", report.first_diverging_layer);
  ThrowIo(arguments.output, Concat("errors must be at most ", kVerifyTolerance),
          Concat(report.max_error, " in the logits; the first to differ: ", where));
}

// The mean and the largest of relative errors, or all of them.
void PrintRounding(const std::vector<RoundedTensor>& rounded, bool lists_all) {
  if (rounded.empty()) return;
  double sum = 0;
  const RoundedTensor* worst = &rounded.front();
  for (const RoundedTensor& tensor : rounded) {
    sum += tensor.relative_error;
    if (tensor.relative_error > worst->relative_error) worst = &tensor;
    if (lists_all) std::printf("%7.3f %%  %s\n", 100 * tensor.relative_error, tensor.name.c_str());
  }
  std::printf("relative error of rounding: %.3f %% on average, %.3f %% in %s\n",
              100 * sum / static_cast<double>(rounded.size()), 100 * worst->relative_error,
              worst->name.c_str());
}

void RunConvert(const Settings& settings, const ConvertArguments& arguments) {
  if (arguments.source.ends_with(".opst")) {
    OPST_CHECK_ARG(arguments.flags.empty(), "convert",
                   "a packed file goes back to a folder as it is, without flags", arguments.flags);
    ExportToHuggingFace(arguments.source, arguments.output);
    std::printf("%s: a Hugging Face folder\n", arguments.output.c_str());
    return;
  }
  const Context context = settings.MakeContext();
  Progress progress("convert");
  ConvertOptions options = OptionsOf(arguments);
  OPST_CHECK_ARG(!arguments.verifies || !options.quantized, "convert",
                 "--verify compares float weights; for integers compare `opst perplexity`",
                 "--weights ", arguments.weights);
  options.on_progress = [&](uint64_t done, uint64_t total) { progress.Show(done, total); };
  const ConvertReport report = Convert(context, arguments.source, arguments.output, options);
  progress.Clear();
  for (const std::string& name : report.unused_tensors) {
    std::printf("not needed for inference: %s\n", name.c_str());
  }
  std::printf("%s: %s model, %lld tensors, %s -> %s\n", arguments.output.c_str(),
              report.family.c_str(), static_cast<long long>(report.num_source_tensors),
              FormatBytes(report.source_bytes).c_str(), FormatBytes(report.output_bytes).c_str());
  PrintRounding(report.rounded, arguments.lists_rounding);
  if (arguments.verifies) RunVerify(context, arguments, options);
}

}  // namespace

void AddConvert(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand(
      "convert", "Convert a Hugging Face folder or a GGUF file into one packed file");
  command
      ->add_option(
          "source", arguments->source,
          "Folder with config.json and *.safetensors, or a .gguf file; a .opst file goes back")
      ->required();
  command
      ->add_option("output", arguments->output,
                   "File to write, usually NAME.opst; of a .opst file: the folder to write")
      ->required();
  command->add_flag("--force", arguments->options.overwrites, "Replace the output if it exists");
  command->add_flag("--strict", arguments->options.is_strict,
                    "Fail on config.json fields that no rule names");
  command
      ->add_option(
          "--weights", arguments->weights,
          "keep: float types and the experts of MXFP4 checkpoints stay, other quantised tensors "
          "become bf16; bf16, f16 or f32: what all quantised tensors become; int8 or int4: what "
          "experts, dense blocks and attention are rounded to; mxfp4: what experts are rounded to")
      ->transform(CLI::IsMember({kKeptWeights, "bf16", "f16", "f32", "int8", "int4", "mxfp4"},
                                CLI::ignore_case))
      ->capture_default_str();
  command->add_option("--group", arguments->group, "Inputs that share a scale of int8 or int4")
      ->transform(CLI::IsMember({"32", "64", "128"}))
      ->capture_default_str();
  command->add_flag("--rounding-errors,--rounding_errors", arguments->lists_rounding,
                    "Print what each tensor lost to integers, not only the mean and the largest");
  command->add_flag("--verify", arguments->verifies,
                    "Compare with a plain evaluation of the source on a fixed text (slow)");
  CLI::Option* upcycle =
      command
          ->add_option("--upcycle", arguments->upcycle,
                       "E,k: make a MoE of a dense model whose experts are copies of its FFN")
          ->delimiter(',')
          ->transform(IntegerFrom(1))
          ->expected(2);
  command
      ->add_option("--split", arguments->split,
                   "E,k: make a MoE of a dense Llama model by dealing out its FFN's neurons")
      ->delimiter(',')
      ->transform(IntegerFrom(1))
      ->expected(2)
      ->excludes(upcycle);
  AddSettings(*command, settings);
  command->callback([settings, arguments, command] {
    for (const char* flag : {"--force", "--strict", "--weights", "--group", "--rounding-errors",
                             "--verify", "--upcycle", "--split"}) {
      if (command->count(flag) == 0) continue;
      arguments->flags += Concat(arguments->flags.empty() ? "" : ", ", flag);
    }
    RunConvert(*settings, *arguments);
  });
}

}  // namespace opst::tool
