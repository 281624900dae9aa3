// Builds the tree from events, so that nesting and repeated keys are refused where they begin.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/json_tree.h"

#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json_events.h"
#include "io/quote.h"

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

class TreeReader final : public JsonEvents {
 public:
  TreeReader(const std::string& where, const JsonTreeLimits& limits)
      : JsonEvents(where), limits_(limits) {}

  Json Take() { return std::move(root_); }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) {
      Fail("an object must not have a key twice", Quote(name));
    }
    open_.back().key = std::move(name);
    return true;
  }

 private:
  // A container around the next value. Looking a key up in the tree itself would be linear.
  struct Level {
    Json* container;
    std::set<std::string> keys = {};
    std::string key = {};  // of the next value
  };

  std::string Place() const override {
    std::string place;
    for (const Level& level : open_) {
      if (level.container->is_array()) {
        place += Concat("[", level.container->size(), "]");
      } else if (!level.key.empty()) {
        place += (place.empty() ? "" : ".") + level.key;
      }
    }
    return place.empty() ? "the beginning" : Quote(place);
  }
  Json& Put(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back().container;
    if (parent.is_array()) return parent.emplace_back(std::move(value));
    // The key is new, so this looks nothing up.
    Json::object_t::Container& members = parent.get_ref<Json::object_t&>();
    return members.emplace_back(open_.back().key, std::move(value)).second;
  }
  bool Add(Json value) {
    Put(std::move(value));
    return true;
  }
  bool Open(Json container) {
    if (open_.size() == limits_.max_depth) {
      Fail(Concat("values must not be nested deeper than ", limits_.max_depth), "one level more");
    }
    open_.push_back({&Put(std::move(container))});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonTreeLimits limits_;
  Json root_;
  std::vector<Level> open_;
};

}  // namespace

nlohmann::ordered_json ReadJsonTree(std::string_view text, const std::string& where,
                                    const JsonTreeLimits& limits) {
  OPST_CHECK_IO(text.size() <= limits.max_bytes, where,
                Concat("JSON must have at most ", limits.max_bytes, " bytes"), text.size());
  TreeReader reader(where, limits);
  ParseJsonEvents(text, reader, where);
  return reader.Take();
}

}  // namespace opst
