// Base of the event-driven JSON readers: every event that a reader does not expect is an error.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_BASE_JSON_EVENTS_H_
#define OPST_BASE_JSON_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace opst {

// Events instead of a document: duplicate keys are seen, nesting is refused where it begins, and
// memory is what the reader keeps. A reader overrides the events it knows and throws by Fail.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  // `where` is the file, for errors.
  explicit JsonEvents(std::string where) : where_(std::move(where)) {}

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_unsigned(number_unsigned_t) override { return Unexpected("a number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a fraction or a number above 64 bits");
  }
  bool string(string_t&) override { return Unexpected("a string"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }
  bool start_object(size_t) override { return Unexpected("an object"); }
  bool key(string_t&) override { return Unexpected("a key"); }
  bool end_object() override { return Unexpected("the end of an object"); }
  bool start_array(size_t) override { return Unexpected("an array"); }
  bool end_array() override { return Unexpected("the end of an array"); }
  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) final;

 protected:
  // Where the reader stands, e.g. "tensor \"a\", field \"shape\"".
  virtual std::string Place() const = 0;
  // Throws kIo: "[file] <rule>; got <place>: <found>".
  [[noreturn]] void Fail(std::string_view rule, std::string_view found) const;
  // Fails with the rule of the format, here only that it has one.
  [[noreturn]] virtual bool Unexpected(std::string_view found) const;
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

// Sends the events of `text` to `events`; throws kIo for anything that is not one JSON value.
void ParseJsonEvents(std::string_view text, JsonEvents& events, const std::string& where);

}  // namespace opst

#endif  // OPST_BASE_JSON_EVENTS_H_
