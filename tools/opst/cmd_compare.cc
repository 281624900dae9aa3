// `opst compare`: two folders (or files) of dumped tensors, element by element.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>

#include "base/check.h"
#include "command_line.h"
#include "commands.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "tensor_compare.h"

namespace opst::tool {
namespace {

struct CompareArguments {
  std::string a;
  std::string b;
  Tolerance tolerance;
  bool lists_equal = false;
};

// Opened tensors by name; whatever they lie in stays open with them.
struct Dump {
  std::map<std::string, DumpedTensor> tensors;
  std::vector<NpyFile> npy_files;
  std::vector<SafetensorsFile> safetensors_files;
};

void AddSafetensors(const std::string& path, const std::string& prefix, Dump& dump) {
  dump.safetensors_files.push_back(SafetensorsFile::Open(path));
  const SafetensorsFile& file = dump.safetensors_files.back();
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (IsPaddingName(tensor.name)) continue;
    const auto dtype = DTypeFromSafetensors(tensor.dtype);
    OPST_CHECK_IO(dtype.has_value(), path, "tensors must be floats, integers or booleans",
                  tensor.Describe());
    dump.tensors[prefix + tensor.name] = {*dtype, tensor.shape, file.Bytes(tensor)};
  }
}

void AddFile(const std::string& path, const std::string& name, Dump& dump) {
  if (name.ends_with(".npy")) {
    dump.npy_files.push_back(NpyFile::Open(path));
    const NpyFile& file = dump.npy_files.back();
    dump.tensors[name.substr(0, name.size() - 4)] = {file.dtype(), file.shape(), file.bytes()};
  } else {
    AddSafetensors(path, name + ":", dump);
  }
}

bool IsDump(const std::string& name) {
  return name.ends_with(".npy") || name.ends_with(".safetensors");
}

// A file counts as a folder with one: two files may be compared under any names.
Dump OpenDump(const std::string& path) {
  namespace fs = std::filesystem;
  Dump dump;
  const PathKind kind = KindOf(path);
  OPST_CHECK_IO(kind == PathKind::kFolder || kind == PathKind::kFile, path,
                "must be a folder or a file of tensors",
                kind == PathKind::kMissing ? "nothing of that name" : "neither");
  if (kind == PathKind::kFile) {
    const bool is_npy = path.ends_with(".npy");
    AddFile(path, is_npy ? "tensor.npy" : "file", dump);
    return dump;
  }
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = fs::relative(entry.path(), path).string();
    if (entry.is_regular_file() && IsDump(name)) AddFile(entry.path().string(), name, dump);
  }
  OPST_CHECK_IO(!dump.tensors.empty(), path, "must have .npy or .safetensors files", "none");
  return dump;
}

std::string Describe(const DumpedTensor& tensor) {
  return Concat(ShapeText(tensor.shape), " ", Name(tensor.dtype));
}

// Returns whether the two are equal.
bool PrintComparison(const std::string& name, const DumpedTensor& a, const DumpedTensor& b,
                     const CompareArguments& arguments) {
  if (a.shape != b.shape) {
    std::printf("%-40s shapes differ: %s, %s\n", name.c_str(), Describe(a).c_str(),
                Describe(b).c_str());
    return false;
  }
  const Comparison result = CompareTensors(a, b, arguments.tolerance);
  const bool is_equal = result.num_different == 0;
  if (is_equal && !arguments.lists_equal) return true;
  std::printf("%-40s %-24s max abs %-9.3g max rel %-9.3g ", name.c_str(), Describe(a).c_str(),
              result.max_absolute, result.max_relative);
  if (is_equal) {
    std::printf("equal\n");
    return true;
  }
  std::printf("%llu of %llu differ, the first at %s: %.9g, %.9g\n",
              static_cast<unsigned long long>(result.num_different),
              static_cast<unsigned long long>(result.num_elements), ShapeText(result.first).c_str(),
              result.first_a, result.first_b);
  return false;
}

void RunCompare(const CompareArguments& arguments) {
  const Dump a = OpenDump(arguments.a);
  const Dump b = OpenDump(arguments.b);
  size_t num_equal = 0;
  size_t num_different = 0;
  size_t num_alone = 0;
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) {
      std::printf("%-40s only in %s\n", name.c_str(), arguments.a.c_str());
      ++num_alone;
    } else {
      ++(PrintComparison(name, tensor, other->second, arguments) ? num_equal : num_different);
    }
  }
  for (const auto& [name, tensor] : b.tensors) {
    if (a.tensors.count(name) > 0) continue;
    std::printf("%-40s only in %s\n", name.c_str(), arguments.b.c_str());
    ++num_alone;
  }
  std::printf("%zu equal, %zu different, %zu on one side only (|a - b| <= %g + %g |b|)\n",
              num_equal, num_different, num_alone, arguments.tolerance.absolute,
              arguments.tolerance.relative);
  OPST_CHECK_IO(num_different == 0 && num_alone == 0, "compare", "all tensors must be equal",
                num_different, " different, ", num_alone, " on one side only");
}

}  // namespace

void AddCompare(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Compare two folders or files of dumped tensors (.npy, .safetensors)");
  command->add_option("a", arguments->a, "What was computed")->required();
  command->add_option("b", arguments->b, "What was expected, by the same names")->required();
  command->add_option("--atol", arguments->tolerance.absolute, "Absolute part of the tolerance")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--rtol", arguments->tolerance.relative, "Part of |b|")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--all", arguments->lists_equal, "List equal tensors, too");
  command->callback([arguments] { RunCompare(*arguments); });
}

}  // namespace opst::tool
