// Reads settings files, .json and .ini, into keys and values; config.cc gives them meaning.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "base/config.h"
#include "base/json_events.h"
#include "base/strings.h"

namespace opst {
namespace {

// A settings file is a page of text; more is a wrong file name, e.g. that of the weights.
constexpr size_t kMaxFileBytes = size_t{1} << 20;

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) ThrowIo(path, "the settings file must be readable", "");
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) ThrowIo(path, "the settings file must be readable", "a read error");
  text.resize(static_cast<size_t>(file.gcount()));
  OPST_CHECK_IO(text.size() <= kMaxFileBytes, path, "a settings file has at most 1 MB", "more");
  return text;
}

void Add(Settings& settings, std::string_view key, std::string value, const std::string& path) {
  const std::string_view name = FindConfigRow(key, path).key;
  OPST_CHECK_ARG(name != "config", path, "a settings file must not name another one", '"', key,
                 '"');
  for (const auto& [earlier, unused] : settings) {
    OPST_CHECK_ARG(earlier != name, path, "a key must appear once", '"', key, "\" twice");
  }
  settings.emplace_back(name, std::move(value));
}

// Collects the members of one flat object as they come, so that repeated keys are seen and nesting
// is refused at its first bracket.
class FlatObjectReader final : public JsonEvents {
 public:
  explicit FlatObjectReader(const std::string& path) : JsonEvents(path) {}
  Settings Take() { return std::move(settings_); }

  bool boolean(bool value) override { return AddValue(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return AddValue(Concat(value)); }
  bool number_unsigned(number_unsigned_t value) override { return AddValue(Concat(value)); }
  bool number_float(number_float_t, const string_t& text) override { return AddValue(text); }
  bool string(string_t& value) override { return AddValue(value); }
  bool start_object(size_t) override {
    if (is_inside_) Unexpected("an object");
    is_inside_ = true;
    return true;
  }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return true; }

 private:
  std::string Place() const override {
    return is_inside_ ? Concat("the value of \"", key_, '"') : "the beginning";
  }
  [[noreturn]] bool Unexpected(std::string_view found) const override {
    Fail("a settings file holds one object whose values are text, numbers, true or false", found);
  }
  bool AddValue(std::string value) {
    if (!is_inside_) Unexpected("a bare value");
    Add(settings_, key_, std::move(value), where());
    return true;
  }

  Settings settings_;
  std::string key_;
  bool is_inside_ = false;
};

Settings ReadJson(const std::string& text, const std::string& path) {
  FlatObjectReader reader(path);
  ParseJsonEvents(text, reader, path);
  return reader.Take();
}

Settings ReadIni(std::string_view text, const std::string& path) {
  Settings settings;
  size_t line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    line = Trim(line.substr(0, line.find_first_of("#;")));
    const bool is_section = line.starts_with('[') && line.ends_with(']');
    if (line.empty() || is_section) continue;
    const size_t equals = line.find('=');
    const std::string_view key = Trim(line.substr(0, equals));
    OPST_CHECK_IO(equals != std::string_view::npos && !key.empty(), path,
                  "lines must read `key = value`", '"', line, "\" in line ", line_number);
    Add(settings, key, std::string(Trim(line.substr(equals + 1))), path);
  }
  return settings;
}

}  // namespace

Settings ReadSettingsFile(const std::string& path) {
  const std::string lower = ToLower(path);
  const bool is_json = lower.ends_with(".json");
  OPST_CHECK_ARG(is_json || lower.ends_with(".ini"), path,
                 "the name of a settings file must end with .json or .ini", '"', path, '"');
  const std::string text = ReadText(path);
  return is_json ? ReadJson(text, path) : ReadIni(text, path);
}

}  // namespace opst
