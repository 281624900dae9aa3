// Reads model.safetensors.index.json, the table of tensors of a sharded checkpoint; opens no shard.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_index.h"

#include <utility>

#include "base/check.h"
#include "base/json_events.h"
#include "io/quote.h"

namespace opst {
namespace {

constexpr size_t kMaxDepth = 32;

bool IsPlainFileName(std::string_view name) {
  if (!name.ends_with(".safetensors") || name.starts_with('.') || name.size() > 255) return false;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '\\' || byte < 0x20 || byte == 0x7F) return false;
  }
  return true;
}

class IndexReader final : public JsonEvents {
 public:
  explicit IndexReader(const std::string& where) : JsonEvents(where) {}

  bool null() override { return Skip("null"); }
  bool boolean(bool) override { return Skip("a boolean"); }
  bool number_integer(number_integer_t) override { return Skip("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Skip("a number"); }
  bool number_float(number_float_t, const string_t&) override { return Skip("a number"); }

  bool string(string_t& text) override {
    if (!IsInMap()) return Skip("a string");
    if (!IsPlainFileName(text)) {
      Fail("shards must be plain *.safetensors names in the folder of the index", Quote(text));
    }
    const bool is_new = shard_of_tensor_.emplace(key_, std::move(text)).second;
    if (!is_new) Fail("tensors must be listed once", "it appears twice");
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (has_map_) Fail("weight_map must be unique", "it appears twice");
      has_map_ = true;
      is_map_open_ = true;
    } else if (depth_ > 0) {
      Skip("an object");
    }
    return Enter();
  }
  bool start_array(size_t) override {
    Skip("an array");
    return Enter();
  }
  bool end_object() override {
    if (--depth_ == 1) is_map_open_ = false;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1 || IsInMap()) key_ = std::move(text);
    return true;
  }

  std::map<std::string, std::string> TakeResult() {
    OPST_CHECK_IO(has_map_, where(), "index must have a weight_map", "none");
    OPST_CHECK_IO(!shard_of_tensor_.empty(), where(), "weight_map must name tensors", "none");
    return std::move(shard_of_tensor_);
  }

 private:
  std::string Place() const override {
    return Concat(is_map_open_ ? "tensor " : "member ", Quote(key_));
  }
  bool IsInMap() const { return is_map_open_ && depth_ == 2; }
  // A value outside the map may be anything; inside and at the top, only what the format has.
  bool Skip(std::string_view found) {
    if (depth_ == 0 || is_map_open_ || (depth_ == 1 && key_ == "weight_map")) Unexpected(found);
    return true;
  }
  bool Enter() {
    if (++depth_ > kMaxDepth) Fail("nesting must be at most 32 deep", "more");
    return true;
  }

  std::map<std::string, std::string> shard_of_tensor_;
  std::string key_;
  size_t depth_ = 0;
  bool has_map_ = false;
  bool is_map_open_ = false;
};

}  // namespace

std::map<std::string, std::string> ParseCheckpointIndex(std::string_view json,
                                                        const std::string& where) {
  IndexReader reader(where);
  ParseJsonEvents(json, reader, where);
  return reader.TakeResult();
}

}  // namespace opst
