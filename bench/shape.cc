// Parses shape files and finds them by name.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/shape.h"

#include <algorithm>
#include <set>

#include "base/small_file.h"
#include "base/strings.h"

namespace opst::bench {
namespace {

// Larger than any layer.
constexpr int64_t kMaxExtent = 1 << 20;

constexpr std::string_view kKeys[] = {"hidden",        "ffn",           "num_experts",
                                      "top_k",         "num_layers",    "renormalizes",
                                      "decode_tokens", "prefill_tokens"};

int64_t ParseExtent(std::string_view origin, std::string_view key, std::string_view text) {
  const auto value = ParseInt(text);
  OPST_CHECK_ARG(value && *value >= 1 && *value <= kMaxExtent, origin,
                 Concat(key, " must be a number from 1 to ", kMaxExtent), text);
  return *value;
}

std::vector<int64_t> ParseExtents(std::string_view origin, std::string_view key,
                                  std::string_view text) {
  std::vector<int64_t> values;
  for (const std::string_view part : Split(text, ',')) {
    values.push_back(ParseExtent(origin, key, part));
  }
  return values;
}

void SetField(std::string_view origin, std::string_view key, std::string_view value,
              LayerShape& shape) {
  if (key == "hidden") {
    shape.hidden = ParseExtent(origin, key, value);
  } else if (key == "ffn") {
    shape.ffn = ParseExtent(origin, key, value);
  } else if (key == "num_experts") {
    shape.num_experts = ParseExtent(origin, key, value);
  } else if (key == "top_k") {
    shape.top_k = ParseExtent(origin, key, value);
  } else if (key == "num_layers") {
    shape.num_layers = ParseExtent(origin, key, value);
  } else if (key == "renormalizes") {
    OPST_CHECK_ARG(value == "yes" || value == "no", origin, "renormalizes must be yes or no",
                   value);
    shape.renormalizes = value == "yes";
  } else if (key == "decode_tokens") {
    shape.decode_tokens = ParseExtents(origin, key, value);
  } else if (key == "prefill_tokens") {
    shape.prefill_tokens = ParseExtents(origin, key, value);
  } else {
    ThrowInvalid(origin, Concat("unknown key; did you mean ", NearestName(key, kKeys), "?"), key);
  }
}

std::string_view StemOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (path.ends_with(".txt")) path.remove_suffix(4);
  return path;
}

}  // namespace

std::vector<int64_t> LayerShape::all_tokens() const {
  std::vector<int64_t> tokens = decode_tokens;
  tokens.insert(tokens.end(), prefill_tokens.begin(), prefill_tokens.end());
  return tokens;
}

double LayerShape::flop(int64_t num_tokens) const {
  return 2.0 * static_cast<double>(num_tokens * top_k) * static_cast<double>(expert_elements());
}

std::string LayerShape::ToString() const {
  return Concat("H ", hidden, ", F ", ffn, ", E ", num_experts, ", k ", top_k);
}

LayerShape ParseShape(std::string_view name, std::string_view text, std::string_view origin) {
  LayerShape shape;
  shape.name = name;
  std::set<std::string_view> seen;
  for (std::string_view line : Split(text, '\n')) {
    const size_t comment = line.find('#');
    if (shape.comment.empty() && comment == 0) shape.comment = Trim(line.substr(1));
    line = Trim(line.substr(0, comment));
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    OPST_CHECK_ARG(equals != std::string_view::npos, origin, "a line must be `key = value`", line);
    const std::string_view key = Trim(line.substr(0, equals));
    OPST_CHECK_ARG(seen.insert(key).second, origin, "a key must stand only once", key);
    SetField(origin, key, Trim(line.substr(equals + 1)), shape);
  }
  for (const std::string_view key : {"hidden", "ffn", "num_experts", "top_k"}) {
    OPST_CHECK_ARG(seen.contains(key), origin, Concat("a shape must say ", key), "none");
  }
  OPST_CHECK_ARG(shape.top_k <= shape.num_experts, origin, "top_k must be at most num_experts",
                 shape.ToString());
  // Byte counts of all layers in f32, and of k·F a token, stay far from 2^63.
  const double elements = static_cast<double>(shape.expert_elements()) *
                          static_cast<double>(shape.num_experts * shape.num_layers);
  OPST_CHECK_ARG(elements < 0x1p58, origin, "a model must have less than 2^58 weights",
                 shape.ToString());
  return shape;
}

LayerShape FindShape(std::string_view name_or_path) {
  std::vector<std::string_view> names;
  for (const ShapeText& shape : BundledShapes()) {
    if (ToLower(name_or_path) == ToLower(shape.name)) {
      return ParseShape(shape.name, shape.text, shape.name);
    }
    names.push_back(shape.name);
  }
  const std::string path(name_or_path);
  if (const auto text = ReadSmallFile(path)) return ParseShape(StemOf(path), *text, path);
  const bool is_path = path.find('/') != std::string::npos || path.ends_with(".txt");
  if (is_path) ThrowIo(path, "the shape file must be readable", "no such file");
  ThrowInvalid("shape",
               Concat("the shape must be a file or one of ", ShapeNames(), "; did you mean ",
                      NearestName(ToLower(name_or_path), names), "?"),
               name_or_path);
}

std::string ShapeNames() {
  std::string names;
  for (const ShapeText& shape : BundledShapes()) {
    names += Concat(names.empty() ? "" : ", ", shape.name);
  }
  return names;
}

}  // namespace opst::bench
