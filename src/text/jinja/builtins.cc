// The tables of filters and tests, and the global functions.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins.h"

#include <array>
#include <map>

#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"

namespace opst::text::jinja {
namespace {

using Test = bool (*)(const Value& value, const Arguments& arguments, Budget& budget);
using V = const Value&;
using A = const Arguments&;
using B = Budget&;

const Value& Other(const Arguments& arguments) {
  if (arguments.values.empty()) Fail("a test must have what it compares with", "nothing");
  return arguments.values[0];
}

// Remainder of an integer, never negative.
int64_t Remainder(const Value& value, int64_t divisor) {
  if (divisor == 0) Fail("a divisor must not be 0", "0");
  const int64_t rest = divisor == -1 ? 0 : value.ToInt("what is divided") % divisor;
  return rest < 0 ? -rest : rest;
}

bool IsSame(V value, A arguments, B budget) {
  const Value& other = Other(arguments);
  if (value.is_bool() != other.is_bool() || value.is_float() != other.is_float()) return false;
  return IsEqual(value, other, budget);
}

bool IsIterable(V value) {
  return value.is_undefined() || value.is_text() || value.list() != nullptr ||
         value.dict() != nullptr;
}

const std::map<std::string_view, Test, std::less<>>& Tests() {
  static const std::map<std::string_view, Test, std::less<>> table = {
      {"defined", [](V v, A, B) { return !v.is_undefined(); }},
      {"undefined", [](V v, A, B) { return v.is_undefined(); }},
      {"none", [](V v, A, B) { return v.is_none(); }},
      {"boolean", [](V v, A, B) { return v.is_bool(); }},
      {"true", [](V v, A, B) { return v.is_bool() && v.IsTrue(); }},
      {"false", [](V v, A, B) { return v.is_bool() && !v.IsTrue(); }},
      {"integer", [](V v, A, B) { return v.is_int(); }},
      {"float", [](V v, A, B) { return v.is_float(); }},
      {"number", [](V v, A, B) { return v.is_number(); }},
      {"string", [](V v, A, B) { return v.is_text(); }},
      {"mapping", [](V v, A, B) { return v.dict() != nullptr && !v.dict()->is_namespace; }},
      {"iterable", [](V v, A, B) { return IsIterable(v); }},
      {"sequence", [](V v, A, B) { return IsIterable(v); }},
      {"callable", [](V v, A, B) { return v.callable() != nullptr; }},
      {"even", [](V v, A, B) { return Remainder(v, 2) == 0; }},
      {"odd", [](V v, A, B) { return Remainder(v, 2) == 1; }},
      {"divisibleby", [](V v, A a, B) { return Remainder(v, Other(a).ToInt("a divisor")) == 0; }},
      {"eq", [](V v, A a, B b) { return IsEqual(v, Other(a), b); }},
      {"equalto", [](V v, A a, B b) { return IsEqual(v, Other(a), b); }},
      {"==", [](V v, A a, B b) { return IsEqual(v, Other(a), b); }},
      {"ne", [](V v, A a, B b) { return !IsEqual(v, Other(a), b); }},
      {"!=", [](V v, A a, B b) { return !IsEqual(v, Other(a), b); }},
      {"lt", [](V v, A a, B b) { return IsLess(v, Other(a), b); }},
      {"lessthan", [](V v, A a, B b) { return IsLess(v, Other(a), b); }},
      {"<", [](V v, A a, B b) { return IsLess(v, Other(a), b); }},
      {"gt", [](V v, A a, B b) { return IsLess(Other(a), v, b); }},
      {"greaterthan", [](V v, A a, B b) { return IsLess(Other(a), v, b); }},
      {">", [](V v, A a, B b) { return IsLess(Other(a), v, b); }},
      {"le", [](V v, A a, B b) { return !IsLess(Other(a), v, b); }},
      {"<=", [](V v, A a, B b) { return !IsLess(Other(a), v, b); }},
      {"ge", [](V v, A a, B b) { return !IsLess(v, Other(a), b); }},
      {">=", [](V v, A a, B b) { return !IsLess(v, Other(a), b); }},
      {"in", [](V v, A a, B b) { return Contains(Other(a), v, b); }},
      {"sameas", IsSame},
      {"lower",
       [](V v, A, B b) {
         const std::string text = v.ToString(b);
         return LowerCase(text) == text && UpperCase(text) != text;
       }},
      {"upper",
       [](V v, A, B b) {
         const std::string text = v.ToString(b);
         return UpperCase(text) == text && LowerCase(text) != text;
       }},
  };
  return table;
}

Value Range(const Arguments& arguments, Budget& budget) {
  const size_t count = arguments.values.size();
  if (count < 1 || count > 3) Fail("range needs one to three integers", std::to_string(count));
  const auto number = [&](size_t i) { return arguments.values[i].ToInt("a border of range"); };
  const int64_t begin = count == 1 ? 0 : number(0);
  const int64_t end = number(count == 1 ? 0 : 1);
  const int64_t step = count == 3 ? number(2) : 1;
  if (step == 0) Fail("the step of range must not be 0", "0");
  std::vector<Value> numbers;
  for (int64_t at = begin; step > 0 ? at < end : at > end; at = CheckedAdd(at, step)) {
    budget.Step();
    budget.Bytes(sizeof(Value));
    numbers.emplace_back(at);
  }
  return Value::OfList(std::move(numbers));
}

Value MakeDict(const Arguments& arguments, bool is_namespace) {
  Dict dict;
  if (!arguments.values.empty()) {
    const Dict* base = arguments.values[0].dict();
    if (base == nullptr) Fail("a dictionary must be made of one", arguments.values[0].Describe());
    dict.items = base->items;
  }
  for (const auto& [name, value] : arguments.named) dict.Set(name, value);
  dict.is_namespace = is_namespace;
  return Value::OfDict(std::move(dict));
}

Value FormatTime(const Arguments& arguments, const std::tm& now) {
  const Value* format = arguments.Find(0, "format");
  if (format == nullptr) Fail("strftime_now needs a format", "nothing");
  const std::string& pattern = format->ToText("a format");
  if (pattern.size() > 256) Fail("a format of time must be short", std::to_string(pattern.size()));
  std::array<char, 4096> buffer{};
  const size_t size = std::strftime(buffer.data(), buffer.size(), pattern.c_str(), &now);
  return std::string(buffer.data(), size);
}

}  // namespace

bool IsFilter(std::string_view name) {
  return TextFilters().contains(name) || ListFilters().contains(name);
}

Value ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments,
                  Budget& budget) {
  budget.Step();
  for (const FilterTable* table : {&TextFilters(), &ListFilters()}) {
    if (const auto found = table->find(name); found != table->end()) {
      return found->second(value, arguments, budget);
    }
  }
  Fail("a filter must be a known one", name);
}

bool IsTest(std::string_view name) { return Tests().contains(name); }

bool ApplyTest(std::string_view name, const Value& value, const Arguments& arguments,
               Budget& budget) {
  budget.Step();
  const auto found = Tests().find(name);
  if (found == Tests().end()) Fail("a test must be a known one", name);
  return found->second(value, arguments, budget);
}

int64_t IntArgument(const Arguments& arguments, size_t index, std::string_view name,
                    int64_t otherwise) {
  const Value* value = arguments.Find(index, name);
  return value == nullptr ? otherwise : value->ToInt(name);
}

std::vector<std::pair<std::string, Value>> GlobalFunctions(const std::tm& now, Budget& budget,
                                                           std::vector<Value>& namespaces) {
  std::vector<std::pair<std::string, Value>> globals;
  const auto add = [&](const char* name, Function function) {
    globals.emplace_back(name, Value::OfFunction(name, std::move(function)));
  };
  add("range", [&budget](const Arguments& arguments) { return Range(arguments, budget); });
  add("dict", [](const Arguments& arguments) { return MakeDict(arguments, false); });
  add("namespace", [&namespaces, &budget](const Arguments& arguments) {
    budget.Bytes(256);
    namespaces.push_back(MakeDict(arguments, true));
    return namespaces.back();
  });
  add("raise_exception", [&budget](const Arguments& arguments) -> Value {
    Fail("the template refuses these messages",
         arguments.values.empty() ? "no reason" : arguments.values[0].ToString(budget));
  });
  add("strftime_now", [now](const Arguments& arguments) { return FormatTime(arguments, now); });
  return globals;
}

}  // namespace opst::text::jinja
