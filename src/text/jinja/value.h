// Value: what an expression of a template evaluates to; Python's types as far as templates see
// them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_VALUE_H_
#define OPST_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/budget.h"

namespace opst::text::jinja {

class Value;

// An error of a template, kIo: "[chat_template] rule; got facts".
[[noreturn]] void Fail(std::string_view rule, std::string_view facts);

// Arguments of a call, by position and by name.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index`, or the one called `name`; nullptr when there is none.
  const Value* Find(size_t index, std::string_view name) const;
};

using Function = std::function<Value(const Arguments&)>;

struct Undefined {
  std::string name;  // for error texts
};
struct None {};
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
};
// In order of insertion, as Python's. Keys are texts.
struct Dict {
  std::vector<std::pair<std::string, Value>> items;
  bool is_namespace = false;  // whose fields a template may set

  const Value* Find(std::string_view key) const;
  void Set(std::string_view key, Value value);
};
struct Callable {
  std::string name;
  Function function;
};

class Value {
 public:
  using Variant =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<List>, std::shared_ptr<Dict>, std::shared_ptr<const Callable>>;

  Value() : data_(Undefined{}) {}
  Value(None) : data_(None{}) {}          // NOLINT: values are made of many things
  Value(bool value) : data_(value) {}     // NOLINT
  Value(int64_t value) : data_(value) {}  // NOLINT
  Value(double value) : data_(value) {}   // NOLINT
  Value(std::string value)                // NOLINT
      : data_(std::make_shared<const std::string>(std::move(value))) {}
  Value(const char*) = delete;  // would become a bool
  static Value OfUndefined(std::string name) { return Value(Variant(Undefined{std::move(name)})); }
  static Value OfList(std::vector<Value> items, bool is_tuple = false);
  static Value OfDict(Dict dict);
  static Value OfFunction(std::string name, Function function);
  static Value FromJson(const nlohmann::ordered_json& json);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  // As in Python a bool is a number, too.
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_text() const { return text() != nullptr; }

  // nullptr when it is something else.
  const std::string* text() const;
  List* list() const;
  Dict* dict() const;
  const Callable* callable() const;

  // Throws unless it is an integer (or bool), a number, a text.
  int64_t ToInt(std::string_view what) const;
  double ToDouble(std::string_view what) const;
  const std::string& ToText(std::string_view what) const;

  bool IsTrue() const;
  // str() and repr() of Python; Undefined is "".
  std::string ToString(Budget& budget) const;
  std::string Repr(Budget& budget) const;
  // "an undefined value", "a list", for error texts.
  std::string Describe() const;

  // What a for loop visits: elements, keys, characters; throws for what is not iterable.
  std::vector<Value> Elements(Budget& budget) const;

 private:
  explicit Value(Variant data) : data_(std::move(data)) {}
  Variant data_;
};

bool IsEqual(const Value& a, const Value& b, Budget& budget);
// Python's order of numbers, texts and lists; throws for a mixture.
bool IsLess(const Value& a, const Value& b, Budget& budget);
bool Contains(const Value& container, const Value& element, Budget& budget);

// json.dumps(value, ensure_ascii=False, indent=indent); indent < 0 = one line.
std::string ToJson(const Value& value, int64_t indent, Budget& budget);
// Python's repr of a number: the shortest text that reads back the same.
std::string FloatText(double value);

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_VALUE_H_
