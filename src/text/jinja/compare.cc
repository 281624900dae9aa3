// Equality, order and membership of values.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/value.h"

namespace opst::text::jinja {
namespace {

bool AreEqualLists(const List& a, const List& b, Budget& budget) {
  if (a.items.size() != b.items.size() || a.is_tuple != b.is_tuple) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!IsEqual(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool AreEqualDicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.is_namespace || b.is_namespace) return &a == &b;
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    budget.Step(a.items.size());
    const Value* other = b.Find(key);
    if (other == nullptr || !IsEqual(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

bool IsEqual(const Value& a, const Value& b, Budget& budget) {
  const Budget::Level level(budget);
  budget.Step();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.ToDouble("a number") == b.ToDouble("a number");
    return a.ToInt("a number") == b.ToInt("a number");
  }
  if (a.is_text() && b.is_text()) return *a.text() == *b.text();
  if (a.list() != nullptr && b.list() != nullptr)
    return AreEqualLists(*a.list(), *b.list(), budget);
  if (a.dict() != nullptr && b.dict() != nullptr)
    return AreEqualDicts(*a.dict(), *b.dict(), budget);
  return a.callable() != nullptr && a.callable() == b.callable();
}

bool IsLess(const Value& a, const Value& b, Budget& budget) {
  const Budget::Level level(budget);
  budget.Step();
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.ToDouble("a number") < b.ToDouble("a number");
    return a.ToInt("a number") < b.ToInt("a number");
  }
  // Bytes of UTF-8 are ordered as the characters are.
  if (a.is_text() && b.is_text()) return *a.text() < *b.text();
  if (a.list() == nullptr || b.list() == nullptr) {
    Fail("only numbers, texts and lists have an order",
         Concat(a.Describe(), " and ", b.Describe()));
  }
  const std::vector<Value>& x = a.list()->items;
  const std::vector<Value>& y = b.list()->items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!IsEqual(x[i], y[i], budget)) return IsLess(x[i], y[i], budget);
  }
  return x.size() < y.size();
}

bool Contains(const Value& container, const Value& element, Budget& budget) {
  if (const std::string* text = container.text()) {
    budget.Step(text->size() / 64 + 1);
    return text->find(element.ToText("what is looked for in a text")) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    budget.Step(dict->items.size());
    return element.is_text() && dict->Find(*element.text()) != nullptr;
  }
  const std::vector<Value> items = container.Elements(budget);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return IsEqual(item, element, budget); });
}

}  // namespace opst::text::jinja
