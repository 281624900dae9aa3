// Shapes of MoE layers named after real models, and the short text files they are written in. Not
// a model configuration: nothing here is needed to run a model.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BENCH_SHAPE_H_
#define OPST_BENCH_SHAPE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opst::bench {

struct LayerShape {
  std::string name;         // of the file, without folder and ".txt"
  std::string comment;      // its first line
  int64_t hidden = 0;       // H
  int64_t ffn = 0;          // F
  int64_t num_experts = 0;  // E
  int64_t top_k = 0;        // k
  int64_t num_layers = 1;   // of the model: says whether its weights fit the cache
  bool renormalizes = true;
  std::vector<int64_t> decode_tokens = {};
  std::vector<int64_t> prefill_tokens = {};

  // Decode and prefill counts, in this order.
  std::vector<int64_t> all_tokens() const;
  // Of the routed experts of one layer.
  int64_t expert_elements() const { return 3 * hidden * ffn; }
  // 6·T·k·H·F: what the experts compute for T tokens.
  double flop(int64_t num_tokens) const;
  // "H 2048, F 1024, E 64, k 8"
  std::string ToString() const;
};

// A shape file: comments behind '#', then `key = value` lines with the field names above.
// `origin` stands in errors. kInvalidArgument for unknown, repeated or missing keys (hidden, ffn,
// num_experts and top_k must be there) and for values that make no layer.
LayerShape ParseShape(std::string_view name, std::string_view text, std::string_view origin);

struct ShapeText {
  std::string_view name;
  std::string_view text;
};
// The files of bench/shapes/, compiled in.
std::span<const ShapeText> BundledShapes();

// A bundled name in any case, or the path of a file. kInvalidArgument naming what exists, kIo for a
// file that cannot be read.
LayerShape FindShape(std::string_view name_or_path);

// "olmoe-1b-7b, …", for help and errors.
std::string ShapeNames();

}  // namespace opst::bench

#endif  // OPST_BENCH_SHAPE_H_
