// Typed access with error texts that name file, field and value.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/json_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "io/quote.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;

// For messages: short values as they stand, containers by kind and size.
std::string Describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return Concat("an object of ", value.size());
    case Json::value_t::array:
      return Concat("an array of ", value.size());
    case Json::value_t::string:
      return Quote(value.get_ref<const std::string&>());
    default:
      return value.dump();
  }
}

}  // namespace

Fields::Fields(const Json& value, std::string path, std::string_view file)
    : value_(value), path_(std::move(path)), file_(file) {
  OPST_CHECK_IO(value.is_object(), file_,
                Concat(path_.empty() ? "the file" : path_, " must be an object"), Describe(value));
}

std::string Fields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : Concat(path_, ".", key);
}

std::string Fields::PathOf(std::string_view key, size_t index) const {
  return Concat(PathOf(key), "[", index, "]");
}

void Fields::Refuse(std::string_view key, std::string_view rule) const {
  const auto found = value_.find(key);
  ThrowIo(file_, Concat(PathOf(key), " ", rule),
          found == value_.end() ? "nothing" : Describe(*found));
}

const Json* Fields::Find(std::string_view key) {
  asked_.push_back(key);
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::Require(std::string_view key) {
  const Json* found = Find(key);
  if (found == nullptr) Refuse(key, "must be given");
  return *found;
}

bool Fields::Bool(std::string_view key) {
  const Json& found = Require(key);
  if (!found.is_boolean()) Refuse(key, "must be true or false");
  return found.get<bool>();
}

bool Fields::Bool(std::string_view key, bool when_missing) {
  return Find(key) == nullptr ? when_missing : Bool(key);
}

const std::string& Fields::String(std::string_view key) {
  const Json& found = Require(key);
  if (!found.is_string()) Refuse(key, "must be a string");
  return found.get_ref<const std::string&>();
}

int64_t Fields::Integer(std::string_view key, int64_t max) {
  const Json& found = Require(key);
  const bool fits =
      found.is_number_unsigned() && found.get<uint64_t>() <= static_cast<uint64_t>(max);
  if (!fits) Refuse(key, Concat("must be an integer from 0 to ", max));
  return found.get<int64_t>();
}

const Json& Fields::Array(std::string_view key) {
  const Json& found = Require(key);
  if (!found.is_array()) Refuse(key, "must be an array");
  return found;
}

Fields Fields::Object(std::string_view key) { return Fields(Require(key), PathOf(key), file_); }

void Fields::RefuseOthers() const {
  for (const auto& [key, value] : value_.items()) {
    const bool known = std::find(asked_.begin(), asked_.end(), key) != asked_.end();
    OPST_CHECK_IO(known, file_,
                  Concat(path_.empty() ? "the file" : path_, " must have no unknown field"),
                  Quote(key));
  }
}

}  // namespace opst::text
