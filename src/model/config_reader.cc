// Type and range checks of config.json fields.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "model/config_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "io/json_tree.h"

namespace opst {
namespace {

using Json = nlohmann::ordered_json;

std::string Short(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

}  // namespace

ConfigReader::ConfigReader(std::string_view json, std::string file)
    : ConfigReader(std::make_shared<const Json>(ReadJsonTree(json, file)), file, "") {}

ConfigReader::ConfigReader(std::shared_ptr<const Json> value, std::string file, std::string path)
    : root_(std::move(value)), file_(std::move(file)), path_(std::move(path)) {
  OPST_CHECK_IO(root_->is_object(), file_,
                path_.empty() ? "the file must hold a JSON object"
                              : Concat(path_.substr(0, path_.size() - 1), " must be an object"),
                Short(*root_));
}

const Json* ConfigReader::Find(std::string_view key) {
  asked_.emplace_back(key);
  const auto found = root_->find(key);
  return found == root_->end() || found->is_null() ? nullptr : &*found;
}

const Json& ConfigReader::Get(std::string_view key) {
  const Json* value = Find(key);
  OPST_CHECK_IO(value != nullptr, file_, Concat(path_, key, " must be given"), "none");
  return *value;
}

void ConfigReader::Refuse(std::string_view key, std::string_view rule) const {
  const auto found = root_->find(key);
  ThrowIo(file_, Concat(path_, key, " ", rule), found == root_->end() ? "none" : Short(*found));
}

int64_t ConfigReader::CheckedInteger(const Json& value, std::string_view key, int64_t min,
                                     int64_t max) const {
  const bool is_whole = value.is_number_integer() &&
                        (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  if (!is_whole || value.get<int64_t>() < min || value.get<int64_t>() > max) {
    Refuse(key, Concat("must be an integer in ", min, "..", max));
  }
  return value.get<int64_t>();
}

double ConfigReader::CheckedNumber(const Json& value, std::string_view key, double min,
                                   double max) const {
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < min ||
      value.get<double>() > max) {
    Refuse(key, Concat("must be a number in ", min, "..", max));
  }
  return value.get<double>();
}

int64_t ConfigReader::Integer(std::string_view key, int64_t min, int64_t max) {
  return CheckedInteger(Get(key), key, min, max);
}

int64_t ConfigReader::Integer(std::string_view key, int64_t min, int64_t max, int64_t fallback) {
  const Json* value = Find(key);
  return value == nullptr ? fallback : CheckedInteger(*value, key, min, max);
}

double ConfigReader::Number(std::string_view key, double min, double max) {
  return CheckedNumber(Get(key), key, min, max);
}

double ConfigReader::Number(std::string_view key, double min, double max, double fallback) {
  const Json* value = Find(key);
  return value == nullptr ? fallback : CheckedNumber(*value, key, min, max);
}

bool ConfigReader::Bool(std::string_view key, bool fallback) {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) Refuse(key, "must be true or false");
  return value->get<bool>();
}

std::string ConfigReader::String(std::string_view key) {
  const Json& value = Get(key);
  if (!value.is_string()) Refuse(key, "must be a string");
  return value.get<std::string>();
}

std::string ConfigReader::String(std::string_view key, std::string fallback) {
  return Find(key) == nullptr ? std::move(fallback) : String(key);
}

std::vector<int64_t> ConfigReader::Integers(std::string_view key, int64_t min, int64_t max) {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) Refuse(key, "must be a list of integers");
  std::vector<int64_t> list;
  for (const Json& element : *value) list.push_back(CheckedInteger(element, key, min, max));
  return list;
}

std::vector<std::vector<int64_t>> ConfigReader::IntegerTable(std::string_view key, int64_t min,
                                                             int64_t max) {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) Refuse(key, "must be a list of lists");
  std::vector<std::vector<int64_t>> table;
  for (const Json& row : *value) {
    if (!row.is_array()) Refuse(key, "must be a list of lists");
    table.emplace_back();
    for (const Json& element : row) {
      table.back().push_back(CheckedInteger(element, key, min, max));
    }
  }
  return table;
}

std::vector<double> ConfigReader::NumberOrList(std::string_view key, double min, double max) {
  const Json* value = Find(key);
  if (value == nullptr || value->is_array()) return Numbers(key, min, max);
  return {CheckedNumber(*value, key, min, max)};
}

std::vector<double> ConfigReader::Numbers(std::string_view key, double min, double max) {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) Refuse(key, "must be a list of numbers");
  std::vector<double> list;
  for (const Json& element : *value) list.push_back(CheckedNumber(element, key, min, max));
  return list;
}

std::vector<std::string> ConfigReader::Strings(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) Refuse(key, "must be a list of strings");
  std::vector<std::string> list;
  for (const Json& element : *value) {
    if (!element.is_string()) Refuse(key, "must be a list of strings");
    list.push_back(element.get<std::string>());
  }
  return list;
}

std::vector<int64_t> ConfigReader::IntegerOrList(std::string_view key, int64_t min, int64_t max) {
  const Json* value = Find(key);
  if (value == nullptr || value->is_array()) return Integers(key, min, max);
  return {CheckedInteger(*value, key, min, max)};
}

std::optional<ConfigReader> ConfigReader::Object(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  return ConfigReader(std::make_shared<const Json>(*value), file_, Concat(path_, key, "."));
}

void ConfigReader::Require(std::string_view key, std::initializer_list<std::string_view> allowed) {
  const Json* value = Find(key);
  if (value == nullptr) return;
  std::string list;
  for (const std::string_view text : allowed) {
    if (*value == Json::parse(text)) return;
    list += Concat(list.empty() ? "" : " or ", text);
  }
  Refuse(key, Concat("must be ", list, " (other values are not supported)"));
}

void ConfigReader::Ignore(std::initializer_list<std::string_view> keys) {
  asked_.insert(asked_.end(), keys.begin(), keys.end());
}

void ConfigReader::Adopt(const ConfigReader& object) {
  const std::vector<std::string> keys = object.UnaskedKeys();
  adopted_.insert(adopted_.end(), keys.begin(), keys.end());
}

std::vector<std::string> ConfigReader::UnaskedKeys() const {
  std::vector<std::string> unasked = adopted_;
  for (const auto& [key, value] : root_->items()) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
      unasked.push_back(path_ + key);
    }
  }
  return unasked;
}

}  // namespace opst
