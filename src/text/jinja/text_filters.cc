// Filters that make texts and numbers.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "text/jinja/builtins.h"
#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"

namespace opst::text::jinja {
namespace {

using V = const Value&;
using A = const Arguments&;
using B = Budget&;

Value TrimFilter(V value, A arguments, B budget) {
  const std::string text = value.ToString(budget);
  const Value* set = arguments.Find(0, "chars");
  if (set == nullptr || set->is_none()) return std::string(StripLeft(StripRight(text)));
  const std::string& characters = set->ToText("chars");
  return std::string(StripLeft(StripRight(text, characters), characters));
}

Value ToJsonFilter(V value, A arguments, B budget) {
  // transformers' own filter: (x, ensure_ascii, indent, separators, sort_keys)
  const Value* indent = arguments.Find(1, "indent");
  for (const char* name : {"separators", "sort_keys", "ensure_ascii"}) {
    const Value* option = arguments.Find(99, name);
    if (option != nullptr && option->IsTrue()) Fail("tojson has the option indent only", name);
  }
  const bool is_indented = indent != nullptr && !indent->is_none();
  const int64_t width = is_indented ? indent->ToInt("indent") : -1;
  if (is_indented && (width < 0 || width > 64)) Fail("indent must be 0..64", std::to_string(width));
  return jinja::ToJson(value, width, budget);
}

Value Replace(V value, A arguments, B budget) {
  const std::string text = value.ToString(budget);
  const Value* from_value = arguments.Find(0, "old");
  const Value* to_value = arguments.Find(1, "new");
  if (from_value == nullptr || to_value == nullptr) Fail("replace needs two texts", "fewer");
  const std::string from = from_value->ToString(budget);
  const std::string to = to_value->ToString(budget);
  int64_t left = IntArgument(arguments, 2, "count", -1);
  if (left < 0) left = INT64_MAX;
  std::string result;
  size_t at = 0;
  const auto append = [&](std::string_view part) {
    budget.Bytes(part.size());
    result += part;
  };
  if (from.empty()) {  // between all characters
    for (const std::string& character : Characters(text)) {
      if (left-- > 0) append(to);
      append(character);
    }
    if (left > 0) append(to);
    return result;
  }
  for (size_t next = 0; left > 0 && (next = text.find(from, at)) != std::string::npos; --left) {
    budget.Step();
    append(std::string_view(text).substr(at, next - at));
    append(to);
    at = next + from.size();
  }
  append(std::string_view(text).substr(at));
  return result;
}

Value Indent(V value, A arguments, B budget) {
  const std::string text = value.ToString(budget);
  const Value* width = arguments.Find(0, "width");
  const Value* first = arguments.Find(1, "first");
  const Value* blank = arguments.Find(2, "blank");
  std::string space;
  if (width != nullptr && width->is_text()) {
    space = *width->text();
  } else {
    const int64_t count = width == nullptr ? 4 : width->ToInt("width");
    if (count < 0 || count > 1000) Fail("width must be 0..1000", std::to_string(count));
    space.assign(static_cast<size_t>(count), ' ');
  }
  std::string result = first != nullptr && first->IsTrue() ? space : "";
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) {
      result += '\n';
      if (end > at || (blank != nullptr && blank->IsTrue())) result += space;
    }
    result += text.substr(at, end - at);
    budget.Bytes(end - at + space.size() + 1);
    at = end + 1;
  }
  return result;
}

Value Escape(V value, A, B budget) {
  std::string result;
  for (const char c : value.ToString(budget)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&#34;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  budget.Bytes(result.size());
  return result;
}

Value ToInteger(V value, A arguments, B) {
  const int64_t otherwise = IntArgument(arguments, 0, "default", 0);
  if (value.is_text()) {
    if (const auto number = ParseInt(Trim(*value.text()))) return *number;
    const auto number = ParseFloat(Trim(*value.text()));
    if (!number || std::fabs(*number) > 9e18) return otherwise;
    return static_cast<int64_t>(*number);
  }
  if (!value.is_number()) return otherwise;
  if (!value.is_float()) return value.ToInt("a number");
  const double number = value.ToDouble("a number");
  return std::fabs(number) < 9e18 ? static_cast<int64_t>(number) : otherwise;
}

Value ToFloat(V value, A arguments, B) {
  const Value* otherwise = arguments.Find(0, "default");
  const Value fallback = otherwise != nullptr ? *otherwise : Value(0.0);
  if (value.is_number()) return value.ToDouble("a number");
  const auto number = value.is_text() ? ParseFloat(Trim(*value.text())) : std::nullopt;
  return number ? Value(*number) : fallback;
}

Value Round(V value, A arguments, B) {
  const int64_t precision = IntArgument(arguments, 0, "precision", 0);
  const Value* method = arguments.Find(1, "method");
  const std::string how = method != nullptr ? method->ToText("method") : "common";
  if (precision < -15 || precision > 15)
    Fail("precision must be -15..15", std::to_string(precision));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.ToDouble("what is rounded") * scale;
  if (how == "ceil") return std::ceil(scaled) / scale;
  if (how == "floor") return std::floor(scaled) / scale;
  return std::nearbyint(scaled) / scale;  // half to even, as Python
}

// One value by one of Python's formats, e.g. flags "%05.1" and kind 'f'.
std::string FormatOne(const std::string& flags, char kind, const Value& value, Budget& budget) {
  std::array<char, 512> buffer{};  // the longest double has 309 digits
  if (kind == 's' && flags == "%") return value.ToString(budget);
  if (kind == 'd' || kind == 'i' || kind == 'x') {
    const auto number = static_cast<long long>(ToInteger(value, {}, budget).ToInt("a number"));
    std::snprintf(buffer.data(), buffer.size(), (flags + "ll" + kind).c_str(), number);
  } else if (kind == 'f' || kind == 'e' || kind == 'g') {
    const double number = value.ToDouble("a number");
    std::snprintf(buffer.data(), buffer.size(), (flags + kind).c_str(), number);
  } else {
    Fail("a format may have %s, %d, %x, %f, %e and %g", flags + kind);
  }
  return buffer.data();
}

// Texts with %s, %d, %f and the like; %% is a percent sign.
Value Format(V value, A arguments, B budget) {
  const std::string& pattern = value.ToText("a format");
  std::string result;
  size_t next = 0;
  for (size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%') {
      result += pattern[at];
      continue;
    }
    const size_t end = pattern.find_first_not_of("-+ 0123456789.", at + 1);
    if (end == std::string::npos) Fail("a format must be complete", pattern);
    std::string part;
    if (pattern[end] == '%') {
      part = "%";
    } else {
      const std::string flags = pattern.substr(at, end - at);
      size_t digits = 0;
      for (const char c : flags) {
        digits = c >= '0' && c <= '9' ? digits + 1 : 0;
        if (digits > 2) Fail("a format must not be so wide", flags);
      }
      if (next >= arguments.values.size()) Fail("a format must have its values", pattern);
      part = FormatOne(flags, pattern[end], arguments.values[next++], budget);
    }
    budget.Bytes(part.size());
    result += part;
    at = end;
  }
  return result;
}

Value Default(V value, A arguments, B) {
  const Value* otherwise = arguments.Find(0, "default_value");
  const Value* of_false = arguments.Find(1, "boolean");
  const bool replaces =
      value.is_undefined() || (of_false != nullptr && of_false->IsTrue() && !value.IsTrue());
  if (!replaces) return value;
  return otherwise != nullptr ? *otherwise : Value(std::string());
}

Value Absolute(V value, A, B) {
  if (value.is_float()) return std::fabs(value.ToDouble("a number"));
  const int64_t number = value.ToInt("a number");
  return number < 0 ? Negated(Value(number)) : Value(number);
}

template <std::string (*function)(std::string_view)>
Value OfText(V value, A, B budget) {
  const std::string text = value.ToString(budget);
  budget.Bytes(text.size());
  return function(text);
}

}  // namespace

const FilterTable& TextFilters() {
  static const FilterTable table = {
      {"trim", TrimFilter},
      {"upper", OfText<UpperCase>},
      {"lower", OfText<LowerCase>},
      {"capitalize", OfText<Capitalized>},
      {"title", OfText<TitleCase>},
      {"tojson", ToJsonFilter},
      {"replace", Replace},
      {"indent", Indent},
      {"escape", Escape},
      {"e", Escape},
      {"safe", [](V value, A, B) -> Value { return value; }},
      {"string", [](V value, A, B budget) -> Value { return value.ToString(budget); }},
      {"int", ToInteger},
      {"float", ToFloat},
      {"round", Round},
      {"abs", Absolute},
      {"format", Format},
      {"default", Default},
      {"d", Default},
  };
  return table;
}

}  // namespace opst::text::jinja
