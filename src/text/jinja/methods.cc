// Methods of texts, lists and dictionaries, as Python names them. None changes its object.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"

namespace opst::text::jinja {
namespace {

using Method = Value (*)(const Value& object, const Arguments& arguments, Budget& budget);

const std::string& TextArgument(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr) Fail(Concat("the argument ", name, " must be given"), "none");
  return value->ToText(name);
}

bool HasText(const Arguments& arguments, std::string_view name) {
  const Value* value = arguments.Find(0, name);
  return value != nullptr && !value->is_none();
}

// Of a text.
enum class Side { kFront, kBack, kBoth };

Value Strip(const Value& object, const Arguments& arguments, Side side) {
  const bool left = side != Side::kBack;
  const bool right = side != Side::kFront;
  std::string_view text = *object.text();
  if (HasText(arguments, "chars")) {
    const std::string& set = TextArgument(arguments, 0, "chars");
    if (left) text = StripLeft(text, set);
    if (right) text = StripRight(text, set);
  } else {
    if (left) text = StripLeft(text);
    if (right) text = StripRight(text);
  }
  return std::string(text);
}

// Parts between blanks; the rest after `limit` cuts keeps its blanks.
std::vector<Value> SplitAtBlanks(std::string_view text, int64_t limit, Side from, Budget& budget) {
  const bool from_right = from == Side::kBack;
  const auto strip = [&](std::string_view part) {
    return from_right ? StripRight(part) : StripLeft(part);
  };
  std::vector<Value> parts;
  for (text = strip(text); !text.empty(); text = strip(text)) {
    budget.Step();
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.emplace_back(std::string(text));
      break;
    }
    size_t length = 0;
    while (length < text.size()) {
      const std::string_view rest =
          from_right ? text.substr(0, text.size() - length) : text.substr(length);
      if (strip(rest).size() != rest.size()) break;
      ++length;  // by bytes: a character's later bytes are never blank
    }
    parts.emplace_back(
        std::string(from_right ? text.substr(text.size() - length) : text.substr(0, length)));
    text = from_right ? text.substr(0, text.size() - length) : text.substr(length);
  }
  return parts;
}

Value SplitText(const Value& object, const Arguments& arguments, Side from, Budget& budget) {
  const bool from_right = from == Side::kBack;
  std::string_view text = *object.text();
  const int64_t limit = IntArgument(arguments, 1, "maxsplit", -1);
  budget.Bytes(text.size());
  std::vector<Value> parts;
  if (!HasText(arguments, "sep")) {
    parts = SplitAtBlanks(text, limit, from, budget);
  } else {
    const std::string& separator = TextArgument(arguments, 0, "sep");
    if (separator.empty()) Fail("a separator must not be empty", "''");
    while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
      budget.Step();
      const size_t at = from_right ? text.rfind(separator) : text.find(separator);
      if (at == std::string_view::npos) break;
      const std::string_view after = text.substr(at + separator.size());
      parts.emplace_back(std::string(from_right ? after : text.substr(0, at)));
      text = from_right ? text.substr(0, at) : after;
    }
    parts.emplace_back(std::string(text));
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  budget.Bytes(parts.size(), sizeof(Value));
  return Value::OfList(std::move(parts));
}

Value SplitLines(const Value& object, const Arguments& arguments, Budget& budget) {
  const std::string& text = *object.text();
  const Value* keeps = arguments.Find(0, "keepends");
  std::vector<Value> lines;
  for (size_t at = 0; at < text.size();) {
    budget.Step();
    const size_t end = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e", at), text.size());
    size_t next = std::min(end + 1, text.size());
    if (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n') ++next;
    lines.emplace_back(text.substr(at, (keeps != nullptr && keeps->IsTrue() ? next : end) - at));
    at = next;
  }
  return Value::OfList(std::move(lines));
}

Value ReplaceText(const Value& object, const Arguments& arguments, Budget& budget) {
  return ApplyFilter("replace", object, arguments, budget);
}

// startswith and endswith take one text or a tuple of them.
bool Matches(const Value& object, const Arguments& arguments, Side side) {
  const Value* wanted = arguments.Find(0, "prefix");
  if (wanted == nullptr) Fail("what a text begins or ends with must be given", "nothing");
  const auto matches = [&](const Value& part) {
    const std::string& text = part.ToText("what a text begins or ends with");
    return side == Side::kFront ? object.text()->starts_with(text) : object.text()->ends_with(text);
  };
  if (wanted->list() == nullptr) return matches(*wanted);
  return std::any_of(wanted->list()->items.begin(), wanted->list()->items.end(), matches);
}

Value FindText(const Value& object, const Arguments& arguments, Side from) {
  const std::string& text = *object.text();
  const std::string& wanted = TextArgument(arguments, 0, "sub");
  const size_t at = from == Side::kBack ? text.rfind(wanted) : text.find(wanted);
  return at == std::string::npos ? int64_t{-1} : CountCharacters(text.substr(0, at));
}

Value CountText(const Value& object, const Arguments& arguments, Budget& budget) {
  const std::string& wanted = TextArgument(arguments, 0, "sub");
  if (wanted.empty()) return CountCharacters(*object.text()) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = object.text()->find(wanted, at)) != std::string::npos;
       at += wanted.size()) {
    budget.Step();
    ++count;
  }
  return count;
}

Value RemoveAffix(const Value& object, const Arguments& arguments, Side side) {
  std::string text = *object.text();
  const std::string& affix = TextArgument(arguments, 0, "affix");
  if (side == Side::kFront && text.starts_with(affix)) return text.substr(affix.size());
  if (side == Side::kBack && text.ends_with(affix)) text.resize(text.size() - affix.size());
  return text;
}

template <typename Is>
bool All(const Value& object, Is is) {
  const std::string& text = *object.text();
  return !text.empty() && std::all_of(text.begin(), text.end(), is);
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

Value Pairs(const Value& object) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : object.dict()->items) {
    pairs.push_back(Value::OfList({Value(key), value}, true));
  }
  return Value::OfList(std::move(pairs));
}

Value GetOr(const Value& object, const Arguments& arguments) {
  const Value* key = arguments.Find(0, "key");
  if (key == nullptr) Fail("a key must be given to get", "nothing");
  const Value* found = key->is_text() ? object.dict()->Find(*key->text()) : nullptr;
  if (found != nullptr) return *found;
  const Value* otherwise = arguments.Find(1, "default");
  return otherwise != nullptr ? *otherwise : Value(None{});
}

Value Values(const Value& object) {
  std::vector<Value> values;
  for (const auto& [key, value] : object.dict()->items) values.push_back(value);
  return Value::OfList(std::move(values));
}

Value IndexOf(const Value& object, const Arguments& arguments, Budget& budget) {
  const std::vector<Value>& items = object.list()->items;
  for (size_t i = 0; i < items.size() && !arguments.values.empty(); ++i) {
    if (IsEqual(items[i], arguments.values[0], budget)) return static_cast<int64_t>(i);
  }
  Fail("index needs an element of the list", "none that is equal");
}

Value CountItems(const Value& object, const Arguments& arguments, Budget& budget) {
  int64_t count = 0;
  for (const Value& item : object.list()->items) {
    if (!arguments.values.empty() && IsEqual(item, arguments.values[0], budget)) ++count;
  }
  return count;
}

// Short names for the tables below.
using V = const Value&;
using A = const Arguments&;
using B = Budget&;

const std::map<std::string_view, Method, std::less<>> kTextMethods = {
    {"strip", [](V o, A a, B) -> Value { return Strip(o, a, Side::kBoth); }},
    {"lstrip", [](V o, A a, B) -> Value { return Strip(o, a, Side::kFront); }},
    {"rstrip", [](V o, A a, B) -> Value { return Strip(o, a, Side::kBack); }},
    {"split", [](V o, A a, B b) -> Value { return SplitText(o, a, Side::kFront, b); }},
    {"rsplit", [](V o, A a, B b) -> Value { return SplitText(o, a, Side::kBack, b); }},
    {"splitlines", [](V o, A a, B b) -> Value { return SplitLines(o, a, b); }},
    {"replace", [](V o, A a, B b) -> Value { return ReplaceText(o, a, b); }},
    {"startswith", [](V o, A a, B) -> Value { return Matches(o, a, Side::kFront); }},
    {"endswith", [](V o, A a, B) -> Value { return Matches(o, a, Side::kBack); }},
    {"upper", [](V o, A, B) -> Value { return UpperCase(*o.text()); }},
    {"lower", [](V o, A, B) -> Value { return LowerCase(*o.text()); }},
    {"title", [](V o, A, B) -> Value { return TitleCase(*o.text()); }},
    {"capitalize", [](V o, A, B) -> Value { return Capitalized(*o.text()); }},
    {"find", [](V o, A a, B) -> Value { return FindText(o, a, Side::kFront); }},
    {"rfind", [](V o, A a, B) -> Value { return FindText(o, a, Side::kBack); }},
    {"count", [](V o, A a, B b) -> Value { return CountText(o, a, b); }},
    {"join",
     [](V o, A a, B b) -> Value {
       return ApplyFilter("join", a.values.at(0), Arguments{{o}, {}}, b);
     }},
    {"removeprefix", [](V o, A a, B) -> Value { return RemoveAffix(o, a, Side::kFront); }},
    {"removesuffix", [](V o, A a, B) -> Value { return RemoveAffix(o, a, Side::kBack); }},
    {"isdigit", [](V o, A, B) -> Value { return All(o, IsDigit); }},
    {"isalpha", [](V o, A, B) -> Value { return All(o, IsLetter); }},
    {"isalnum",
     [](V o, A, B) -> Value { return All(o, [](char c) { return IsDigit(c) || IsLetter(c); }); }},
    {"isspace",
     [](V o, A, B) -> Value { return !o.text()->empty() && StripLeft(*o.text()).empty(); }},
};

const std::map<std::string_view, Method, std::less<>> kListMethods = {
    {"index", [](V o, A a, B b) -> Value { return IndexOf(o, a, b); }},
    {"count", [](V o, A a, B b) -> Value { return CountItems(o, a, b); }},
};

const std::map<std::string_view, Method, std::less<>> kDictMethods = {
    {"items", [](V o, A, B) -> Value { return Pairs(o); }},
    {"keys", [](V o, A, B b) -> Value { return Value::OfList(o.Elements(b)); }},
    {"values", [](V o, A, B) -> Value { return Values(o); }},
    {"get", [](V o, A a, B) -> Value { return GetOr(o, a); }},
    {"copy", [](V o, A, B) -> Value { return Value::OfDict(*o.dict()); }},
};

}  // namespace

Value FindMethod(const Value& object, const std::string& name, Budget& budget) {
  if (!object.is_text() && object.list() == nullptr && object.dict() == nullptr) return Value();
  const auto& methods = object.is_text()           ? kTextMethods
                        : object.list() != nullptr ? kListMethods
                                                   : kDictMethods;
  const auto found = methods.find(name);
  if (found == methods.end()) return Value();
  return Value::OfFunction(
      name, [object, method = found->second, name, &budget](const Arguments& arguments) {
        budget.Step(1 + (object.is_text() ? object.text()->size() / 64 : 0));
        if (object.is_text()) budget.Bytes(object.text()->size());
        if (name == "join" && arguments.values.empty()) Fail("join needs a list", "nothing");
        return method(object, arguments, budget);
      });
}

}  // namespace opst::text::jinja
