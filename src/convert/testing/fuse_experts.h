// Rewrites a checkpoint with one tensor per expert into one with all experts of a layer in one, as
// transformers 5 holds them in memory; for tests only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_CONVERT_TESTING_FUSE_EXPERTS_H_
#define OPST_CONVERT_TESTING_FUSE_EXPERTS_H_

#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "convert/testing/checkpoint_copy.h"

namespace opst::testing {

// Number of layers that were fused.
inline int64_t FuseExperts(CheckpointCopy& copy) {
  // Published names of gate, up and down in two dialects.
  static const std::regex pattern(R"((model\.layers\.\d+)\..*\.experts\.(\d+)\.(\w+)\.weight)");
  static const std::map<std::string, int> kParts = {
      {"gate_proj", 0}, {"w1", 0}, {"up_proj", 1}, {"w3", 1}, {"down_proj", 2}, {"w2", 2}};
  std::map<std::string, std::map<int, std::map<int, TensorCopy>>> layers;
  std::vector<TensorCopy> others;
  for (TensorCopy& tensor : copy.tensors()) {
    std::smatch match;
    const std::string name = tensor.declaration.name;
    if (!std::regex_match(name, match, pattern)) {
      others.push_back(std::move(tensor));
      continue;
    }
    layers[match[1]][std::stoi(match[2])][kParts.at(match[3])] = std::move(tensor);
  }
  for (auto& [layer, experts] : layers) {
    TensorCopy gate_up;
    TensorCopy down;
    const auto append = [](TensorCopy& to, const TensorCopy& from) {
      to.bytes.insert(to.bytes.end(), from.bytes.begin(), from.bytes.end());
    };
    for (auto& [number, parts] : experts) {
      append(gate_up, parts[0]);
      append(gate_up, parts[1]);
      append(down, parts[2]);
    }
    const auto count = static_cast<int64_t>(experts.size());
    const auto& gate = experts[0][0].declaration;
    const auto& out = experts[0][2].declaration;
    gate_up.declaration = {
        layer + ".mlp.experts.gate_up_proj", gate.dtype, {count, 2 * gate.shape[0], gate.shape[1]}};
    down.declaration = {
        layer + ".mlp.experts.down_proj", out.dtype, {count, out.shape[0], out.shape[1]}};
    others.push_back(std::move(gate_up));
    others.push_back(std::move(down));
  }
  copy.tensors() = std::move(others);
  return static_cast<int64_t>(layers.size());
}

}  // namespace opst::testing

#endif  // OPST_CONVERT_TESTING_FUSE_EXPERTS_H_
