// Reads fields of an untrusted config.json by name, and knows afterwards which ones nobody asked
// for.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_MODEL_CONFIG_READER_H_
#define OPST_MODEL_CONFIG_READER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

// Every error is kIo and names file, field and value. A field that is null counts as missing.
class ConfigReader {
 public:
  // Throws kIo when `json` is not one object. At most 1 MB: a real one has a few KB.
  ConfigReader(std::string_view json, std::string file);

  // min ≤ value ≤ max. Without a fallback the field must be there.
  int64_t Integer(std::string_view key, int64_t min, int64_t max);
  int64_t Integer(std::string_view key, int64_t min, int64_t max, int64_t fallback);
  // Finite numbers in [min, max].
  double Number(std::string_view key, double min, double max);
  double Number(std::string_view key, double min, double max, double fallback);
  bool Bool(std::string_view key, bool fallback);
  std::string String(std::string_view key);
  std::string String(std::string_view key, std::string fallback);
  // A list of integers; empty when missing.
  std::vector<int64_t> Integers(std::string_view key, int64_t min, int64_t max);
  // A list of finite numbers, and one of strings; empty when missing.
  std::vector<double> Numbers(std::string_view key, double min, double max);
  std::vector<std::string> Strings(std::string_view key);
  // A list of lists of integers; empty when missing.
  std::vector<std::vector<int64_t>> IntegerTable(std::string_view key, int64_t min, int64_t max);
  // One number or a list of them; empty when missing.
  std::vector<double> NumberOrList(std::string_view key, double min, double max);
  // One integer or a list of them; empty when missing.
  std::vector<int64_t> IntegerOrList(std::string_view key, int64_t min, int64_t max);
  // The object under `key`; none when missing.
  std::optional<ConfigReader> Object(std::string_view key);

  // The field must be missing or one of the values given as JSON ("false", "null", "\"silu\"",
  // "0.0"): how a setting that is not supported is refused.
  void Require(std::string_view key, std::initializer_list<std::string_view> allowed);
  // Fields that do not matter for inference, whatever their value.
  void Ignore(std::initializer_list<std::string_view> keys);

  // Fields that no call above named, in the file's order.
  std::vector<std::string> UnaskedKeys() const;
  // Takes over the unasked keys of an object that Object returned.
  void Adopt(const ConfigReader& object);

  [[noreturn]] void Refuse(std::string_view key, std::string_view rule) const;
  const std::string& file() const { return file_; }

 private:
  ConfigReader(std::shared_ptr<const nlohmann::ordered_json> value, std::string file,
               std::string path);
  const nlohmann::ordered_json* Find(std::string_view key);
  const nlohmann::ordered_json& Get(std::string_view key);
  int64_t CheckedInteger(const nlohmann::ordered_json& value, std::string_view key, int64_t min,
                         int64_t max) const;
  double CheckedNumber(const nlohmann::ordered_json& value, std::string_view key, double min,
                       double max) const;

  // Behind a pointer: every family includes this header, and the JSON library takes seconds to
  // compile.
  std::shared_ptr<const nlohmann::ordered_json> root_;
  std::string file_;
  std::string path_;  // "" or "rope_parameters."
  std::vector<std::string> asked_;
  std::vector<std::string> adopted_;
};

}  // namespace opst

#endif  // OPST_MODEL_CONFIG_READER_H_
