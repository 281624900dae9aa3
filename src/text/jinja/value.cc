// Construction, conversion and comparison of values as Python does it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/value.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/python_text.h"

namespace opst::text::jinja {

void Fail(std::string_view rule, std::string_view facts) { ThrowIo("chat_template", rule, facts); }

const Value* Arguments::Find(size_t index, std::string_view name) const {
  if (index < values.size()) return &values[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Dict::Set(std::string_view key, Value value) {
  for (auto& [name, old] : items) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(std::string(key), std::move(value));
}

Value Value::OfList(std::vector<Value> items, bool is_tuple) {
  return Value(Variant(std::make_shared<List>(List{std::move(items), is_tuple})));
}
Value Value::OfDict(Dict dict) { return Value(Variant(std::make_shared<Dict>(std::move(dict)))); }
Value Value::OfFunction(std::string name, Function function) {
  return Value(
      Variant(std::make_shared<const Callable>(Callable{std::move(name), std::move(function)})));
}

Value Value::FromJson(const nlohmann::ordered_json& json) {
  using Kind = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Kind::boolean:
      return json.get<bool>();
    case Kind::number_integer:
      return json.get<int64_t>();
    case Kind::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        Fail("an integer must fit 64 bits", json.dump());
      }
      return json.get<int64_t>();
    case Kind::number_float:
      return json.get<double>();
    case Kind::string:
      return json.get<std::string>();
    case Kind::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(FromJson(item));
      return OfList(std::move(items));
    }
    case Kind::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) dict.items.emplace_back(key, FromJson(item));
      return OfDict(std::move(dict));
    }
    default:
      return None{};
  }
}

const std::string* Value::text() const {
  const auto* found = std::get_if<std::shared_ptr<const std::string>>(&data_);
  return found != nullptr ? found->get() : nullptr;
}
List* Value::list() const {
  const auto* found = std::get_if<std::shared_ptr<List>>(&data_);
  return found != nullptr ? found->get() : nullptr;
}
Dict* Value::dict() const {
  const auto* found = std::get_if<std::shared_ptr<Dict>>(&data_);
  return found != nullptr ? found->get() : nullptr;
}
const Callable* Value::callable() const {
  const auto* found = std::get_if<std::shared_ptr<const Callable>>(&data_);
  return found != nullptr ? found->get() : nullptr;
}

int64_t Value::ToInt(std::string_view what) const {
  if (const auto* value = std::get_if<int64_t>(&data_)) return *value;
  if (const auto* value = std::get_if<bool>(&data_)) return *value ? 1 : 0;
  Fail(Concat(what, " must be an integer"), Describe());
}

double Value::ToDouble(std::string_view what) const {
  if (const auto* value = std::get_if<double>(&data_)) return *value;
  if (is_bool() || is_int()) return static_cast<double>(ToInt(what));
  Fail(Concat(what, " must be a number"), Describe());
}

const std::string& Value::ToText(std::string_view what) const {
  if (text() == nullptr) Fail(Concat(what, " must be a text"), Describe());
  return *text();
}

bool Value::IsTrue() const {
  if (is_undefined() || is_none()) return false;
  if (is_bool() || is_int()) return ToInt("a condition") != 0;
  if (is_float()) return ToDouble("a condition") != 0;
  if (text() != nullptr) return !text()->empty();
  if (list() != nullptr) return !list()->items.empty();
  if (dict() != nullptr) return dict()->is_namespace || !dict()->items.empty();
  return true;
}

std::string Value::Describe() const {
  if (const auto* undefined = std::get_if<Undefined>(&data_)) {
    return undefined->name.empty() ? "an undefined value"
                                   : Concat("'", undefined->name, "', which is undefined");
  }
  if (is_none()) return "none";
  if (is_bool()) return "a boolean";
  if (is_int()) return "an integer";
  if (is_float()) return "a float";
  if (text() != nullptr) return "a text";
  if (list() != nullptr) return "a list";
  if (dict() != nullptr) return dict()->is_namespace ? "a namespace" : "a dictionary";
  return "a function";
}

std::string Value::ToString(Budget& budget) const {
  if (is_undefined()) return {};
  if (text() != nullptr) return *text();
  return Repr(budget);
}

std::string Value::Repr(Budget& budget) const {
  const Budget::Level level(budget);
  budget.Step();
  if (is_undefined()) return "Undefined";
  if (is_none()) return "None";
  if (is_bool()) return IsTrue() ? "True" : "False";
  if (is_int()) return std::to_string(ToInt("a number"));
  if (is_float()) return FloatText(ToDouble("a number"));
  if (text() != nullptr) return PythonRepr(*text());
  std::string result;
  if (const List* values = list()) {
    for (const Value& item : values->items) {
      result += Concat(result.empty() ? "" : ", ", item.Repr(budget));
      budget.Bytes(result.size() / 8 + 16);
    }
    if (values->is_tuple) return Concat("(", result, values->items.size() == 1 ? ",)" : ")");
    return Concat("[", result, "]");
  }
  if (const Dict* values = dict()) {
    for (const auto& [key, item] : values->items) {
      result += Concat(result.empty() ? "" : ", ", PythonRepr(key), ": ", item.Repr(budget));
      budget.Bytes(result.size() / 8 + 16);
    }
    return Concat("{", result, "}");
  }
  return Concat("<", callable()->name, ">");
}

std::vector<Value> Value::Elements(Budget& budget) const {
  if (is_undefined()) return {};
  std::vector<Value> elements;
  if (const List* values = list()) elements = values->items;
  if (const Dict* values = dict()) {
    for (const auto& [key, item] : values->items) elements.emplace_back(key);
  }
  if (text() != nullptr) {
    budget.Bytes(text()->size(), sizeof(Value));
    for (std::string& character : Characters(*text())) elements.emplace_back(std::move(character));
  }
  if (text() == nullptr && list() == nullptr && dict() == nullptr) {
    Fail("a loop must go over a list, a dictionary or a text", Describe());
  }
  budget.Step(elements.size());
  return elements;
}

}  // namespace opst::text::jinja
