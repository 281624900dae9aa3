// Typed access to one object of a tokenizer.json that remembers what was asked for; no parser.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JSON_FIELDS_H_
#define OPST_TEXT_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opst::text {

// Every error is kIo and names file, field and value. Used like this:
//   Fields fields(json, "pre_tokenizer", file);
//   const bool invert = fields.Bool("invert");
//   fields.RefuseOthers();
class Fields {
 public:
  // `value` must be an object and outlive this, as must `file`.
  Fields(const nlohmann::json& value, std::string path, std::string_view file);

  bool Bool(std::string_view key);
  bool Bool(std::string_view key, bool when_missing);
  const std::string& String(std::string_view key);
  // 0 <= value <= max.
  int64_t Integer(std::string_view key, int64_t max);

  // nullptr when the key is missing or its value is null.
  const nlohmann::json* Find(std::string_view key);
  // Elements are named PathOf("decoders", 2) = "decoder.decoders[2]".
  const nlohmann::json& Array(std::string_view key);
  Fields Object(std::string_view key);

  // The string "type".
  const std::string& Type() { return String("type"); }

  // An error for a key that nobody asked for: skipping it could change the ids silently.
  void RefuseOthers() const;

  std::string PathOf(std::string_view key) const;
  std::string PathOf(std::string_view key, size_t index) const;
  std::string_view path() const { return path_; }
  std::string_view file() const { return file_; }

  // "FIELD rule; got VALUE".
  [[noreturn]] void Refuse(std::string_view key, std::string_view rule) const;

 private:
  const nlohmann::json& Require(std::string_view key);

  const nlohmann::json& value_;
  std::string path_;
  std::string_view file_;
  std::vector<std::string_view> asked_;
};

}  // namespace opst::text

#endif  // OPST_TEXT_JSON_FIELDS_H_
