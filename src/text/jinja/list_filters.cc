// Filters that read, choose and order elements.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/strings.h"
#include "text/jinja/builtins.h"
#include "text/jinja/filters.h"
#include "text/jinja/python_text.h"

namespace opst::text::jinja {
namespace {

using V = const Value&;
using A = const Arguments&;
using B = Budget&;

// "a.b" or a position, looked up from left to right; `otherwise` stands for what is missing.
Value Lookup(const Value& object, const Value& path, Budget& budget,
             const Value* otherwise = nullptr) {
  Value value = object;
  const auto step = [&](const Value& key) {
    value = GetItem(value, key, budget);
    if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
  };
  if (!path.is_text()) {
    step(path);
    return value;
  }
  for (const std::string_view part : Split(*path.text(), '.')) {
    const auto position = ParseInt(part);
    step(position ? Value(*position) : Value(std::string(part)));
  }
  return value;
}

bool IsNamed(const Arguments& arguments, std::string_view name) {
  const Value* value = arguments.Find(99, name);
  return value != nullptr && value->IsTrue();
}

Value Length(V value, A, B) {
  if (value.is_undefined()) return int64_t{0};
  if (value.is_text()) return CountCharacters(*value.text());
  if (value.list() != nullptr) return static_cast<int64_t>(value.list()->items.size());
  if (value.dict() != nullptr) return static_cast<int64_t>(value.dict()->items.size());
  Fail("length needs a text, a list or a dictionary", value.Describe());
}

Value Join(V value, A arguments, B budget) {
  const Value* between_value = arguments.Find(0, "d");
  const Value* attribute = arguments.Find(1, "attribute");
  const std::string between = between_value != nullptr ? between_value->ToString(budget) : "";
  std::string result;
  bool is_first = true;
  for (const Value& item : value.Elements(budget)) {
    if (!is_first) result += between;
    is_first = false;
    const Value& shown = attribute != nullptr ? Lookup(item, *attribute, budget) : item;
    const std::string text = shown.ToString(budget);
    budget.Bytes(text.size() + between.size());
    result += text;
  }
  return result;
}

Value First(V value, A, B budget) {
  const std::vector<Value> items = value.Elements(budget);
  return items.empty() ? Value::OfUndefined("the first element of nothing") : items.front();
}
Value Last(V value, A, B budget) {
  const std::vector<Value> items = value.Elements(budget);
  return items.empty() ? Value::OfUndefined("the last element of nothing") : items.back();
}
Value ToList(V value, A, B budget) { return Value::OfList(value.Elements(budget)); }

Value Reverse(V value, A, B budget) {
  std::vector<Value> items = value.Elements(budget);
  std::reverse(items.begin(), items.end());
  if (!value.is_text()) return Value::OfList(std::move(items));
  std::string text;
  for (const Value& item : items) text += *item.text();
  return text;
}

Value Items(V value, A, B budget) {
  if (value.is_undefined()) return Value::OfList({});
  if (value.dict() == nullptr) Fail("items needs a dictionary", value.Describe());
  return FindMethod(value, "items", budget).callable()->function({});
}

// Texts without regard to case unless asked for.
Value SortKey(const Value& value, bool minds_case) {
  return value.is_text() && !minds_case ? Value(LowerCase(*value.text())) : value;
}

void SortBy(std::vector<Value>& items, const Arguments& arguments, bool minds_case,
            const Value* attribute, Budget& budget) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    const Value key = attribute != nullptr ? Lookup(item, *attribute, budget) : item;
    keyed.emplace_back(SortKey(key, minds_case), std::move(item));
  }
  const bool is_reversed = IsNamed(arguments, "reverse");
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return is_reversed ? IsLess(b.first, a.first, budget) : IsLess(a.first, b.first, budget);
  });
  for (size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
}

Value Sort(V value, A arguments, B budget) {
  std::vector<Value> items = value.Elements(budget);
  SortBy(items, arguments, IsNamed(arguments, "case_sensitive"), arguments.Find(99, "attribute"),
         budget);
  return Value::OfList(std::move(items));
}

Value DictSort(V value, A arguments, B budget) {
  std::vector<Value> items = Items(value, {}, budget).list()->items;
  const Value* by = arguments.Find(1, "by");
  const bool by_value = by != nullptr && by->ToText("by") == "value";
  const Value position(by_value ? int64_t{1} : int64_t{0});
  const Value* case_sensitive = arguments.Find(0, "case_sensitive");
  SortBy(items, arguments, case_sensitive != nullptr && case_sensitive->IsTrue(), &position,
         budget);
  return Value::OfList(std::move(items));
}

Value Unique(V value, A arguments, B budget) {
  const bool minds_case = IsNamed(arguments, "case_sensitive");
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (const Value& item : value.Elements(budget)) {
    const Value key = SortKey(item, minds_case);
    const bool is_new = std::none_of(seen.begin(), seen.end(),
                                     [&](const Value& old) { return IsEqual(old, key, budget); });
    if (!is_new) continue;
    seen.push_back(key);
    kept.push_back(item);
  }
  return Value::OfList(std::move(kept));
}

Value Map(V value, A arguments, B budget) {
  std::vector<Value> mapped;
  const Value* attribute = arguments.Find(99, "attribute");
  const Value* otherwise = arguments.Find(99, "default");
  Arguments rest = arguments;
  std::string filter;
  if (attribute == nullptr) {
    if (arguments.values.empty()) Fail("map needs a filter or an attribute", "neither");
    filter = arguments.values[0].ToText("the filter of map");
    rest.values.erase(rest.values.begin());
  }
  for (const Value& item : value.Elements(budget)) {
    mapped.push_back(attribute != nullptr ? Lookup(item, *attribute, budget, otherwise)
                                          : ApplyFilter(filter, item, rest, budget));
  }
  return Value::OfList(std::move(mapped));
}

// select, reject: a test of the element; selectattr, rejectattr: of one of its fields.
template <bool keeps, bool of_attribute>
Value Select(V value, A arguments, B budget) {
  const size_t first = of_attribute ? 1 : 0;
  if (of_attribute && arguments.values.empty()) Fail("selectattr needs an attribute", "none");
  const bool has_test = arguments.values.size() > first;
  const std::string test = has_test ? arguments.values[first].ToText("a test") : "";
  Arguments rest = arguments;
  rest.values.erase(rest.values.begin(),
                    rest.values.begin() + static_cast<std::ptrdiff_t>(first + (has_test ? 1 : 0)));
  std::vector<Value> kept;
  for (const Value& item : value.Elements(budget)) {
    const Value tested = of_attribute ? Lookup(item, arguments.values[0], budget) : item;
    const bool passes = has_test ? ApplyTest(test, tested, rest, budget) : tested.IsTrue();
    if (passes == keeps) kept.push_back(item);
  }
  return Value::OfList(std::move(kept));
}

Value Sum(V value, A arguments, B budget) {
  const Value* attribute = arguments.Find(0, "attribute");
  const Value* start = arguments.Find(1, "start");
  Value sum = start != nullptr ? *start : Value(int64_t{0});
  for (const Value& item : value.Elements(budget)) {
    const Value part = attribute != nullptr ? Lookup(item, *attribute, budget) : item;
    sum = ApplyOperator("+", sum, part, budget);
  }
  return sum;
}

template <bool is_max>
Value Extreme(V value, A arguments, B budget) {
  const Value* attribute = arguments.Find(99, "attribute");
  std::vector<Value> items = value.Elements(budget);
  if (items.empty()) return Value::OfUndefined("the extreme of nothing");
  size_t best = 0;
  const auto key = [&](const Value& item) {
    return SortKey(attribute != nullptr ? Lookup(item, *attribute, budget) : item,
                   IsNamed(arguments, "case_sensitive"));
  };
  for (size_t i = 1; i < items.size(); ++i) {
    const Value a = key(items[is_max ? best : i]);
    const Value b = key(items[is_max ? i : best]);
    if (IsLess(a, b, budget)) best = i;
  }
  return items[best];
}

Value Batch(V value, A arguments, B budget) {
  const int64_t size = IntArgument(arguments, 0, "linecount", 0);
  if (size < 1) Fail("batch needs a size above 0", std::to_string(size));
  const Value* filler = arguments.Find(1, "fill_with");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : value.Elements(budget)) {
    row.push_back(item);
    if (static_cast<int64_t>(row.size()) == size)
      rows.push_back(Value::OfList(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (filler != nullptr) budget.Bytes(static_cast<uint64_t>(size), sizeof(Value));
    while (filler != nullptr && static_cast<int64_t>(row.size()) < size) row.push_back(*filler);
    rows.push_back(Value::OfList(std::move(row)));
  }
  return Value::OfList(std::move(rows));
}

}  // namespace

const FilterTable& ListFilters() {
  static const FilterTable table = {
      {"length", Length},
      {"count", Length},
      {"join", Join},
      {"first", First},
      {"last", Last},
      {"list", ToList},
      {"reverse", Reverse},
      {"items", Items},
      {"sort", Sort},
      {"dictsort", DictSort},
      {"unique", Unique},
      {"map", Map},
      {"select", Select<true, false>},
      {"reject", Select<false, false>},
      {"selectattr", Select<true, true>},
      {"rejectattr", Select<false, true>},
      {"sum", Sum},
      {"max", Extreme<true>},
      {"min", Extreme<false>},
      {"batch", Batch},
  };
  return table;
}

}  // namespace opst::text::jinja
