// Arithmetic, attributes, elements and slices, with Python's rules and errors instead of overflow.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"

namespace opst::text::jinja {
namespace {

[[noreturn]] void RefuseOperands(std::string_view name, const Value& a, const Value& b) {
  Fail(Concat("the operands of ", name, " must fit each other"),
       Concat(a.Describe(), " and ", b.Describe()));
}

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) Fail("a divisor must not be 0", std::to_string(b));
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value Power(const Value& a, const Value& b) {
  if (!a.is_float() && !b.is_float() && b.ToInt("an exponent") >= 0) {
    int64_t result = 1;
    const int64_t base = a.ToInt("a base");
    const int64_t exponent = b.ToInt("an exponent");
    if (base >= -1 && base <= 1)
      return base == -1 && exponent % 2 == 0 ? int64_t{1} : exponent == 0 ? int64_t{1} : base;
    for (int64_t i = 0; i < exponent; ++i) result = CheckedMultiply(result, base);
    return result;
  }
  return std::pow(a.ToDouble("a base"), b.ToDouble("an exponent"));
}

Value FloatOperator(std::string_view name, double a, double b) {
  if (name == "+") return a + b;
  if (name == "-") return a - b;
  if (name == "*") return a * b;
  if (b == 0) Fail("a divisor must not be 0", "0.0");
  if (name == "/") return a / b;
  if (name == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value NumberOperator(std::string_view name, const Value& a, const Value& b) {
  if (name == "**") return Power(a, b);
  if (a.is_float() || b.is_float() || name == "/") {
    return FloatOperator(name, a.ToDouble("a number"), b.ToDouble("a number"));
  }
  const int64_t x = a.ToInt("a number");
  const int64_t y = b.ToInt("a number");
  if (name == "+") return CheckedAdd(x, y);
  if (name == "-") {
    if (y == INT64_MIN) Fail("an integer must fit 64 bits", "a difference");
    return CheckedAdd(x, -y);
  }
  if (name == "*") return CheckedMultiply(x, y);
  const int64_t quotient = FloorDivide(x, y);
  return name == "//" ? quotient : x - quotient * y;
}

Value Repeated(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  if (const std::string* text = value.text()) {
    budget.Bytes(times, text->size());
    std::string result;
    for (uint64_t i = 0; i < times && !text->empty(); ++i) result += *text;
    return result;
  }
  const std::vector<Value>& items = value.list()->items;
  budget.Bytes(times, items.size() * sizeof(Value));
  std::vector<Value> result;
  for (uint64_t i = 0; i < times && !items.empty(); ++i) {
    result.insert(result.end(), items.begin(), items.end());
  }
  return Value::OfList(std::move(result), value.list()->is_tuple);
}

Value Sum(const Value& a, const Value& b, Budget& budget) {
  if (a.is_text() && b.is_text()) {
    budget.Bytes(a.text()->size() + b.text()->size());
    return *a.text() + *b.text();
  }
  if (a.list() == nullptr || b.list() == nullptr) RefuseOperands("+", a, b);
  budget.Bytes(a.list()->items.size() + b.list()->items.size(), sizeof(Value));
  std::vector<Value> items = a.list()->items;
  items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
  return Value::OfList(std::move(items), a.list()->is_tuple);
}

// Positions that [begin:end:step] picks out of `size` elements.
std::vector<size_t> SlicePositions(int64_t size, const Value* begin, const Value* end,
                                   const Value* step, Budget& budget) {
  const auto read = [](const Value* value) -> const Value* {
    return value == nullptr || value->is_none() ? nullptr : value;
  };
  const int64_t stride = read(step) != nullptr ? step->ToInt("a step") : 1;
  if (stride == 0) Fail("the step of a slice must not be 0", "0");
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? size : size - 1;
  const auto clip = [&](const Value* value, int64_t otherwise) {
    if (read(value) == nullptr) return otherwise;
    int64_t at = value->ToInt("the border of a slice");
    if (at < 0) at = at < -size ? low : at + size;
    return std::clamp(at, low, high);
  };
  int64_t at = clip(begin, stride > 0 ? low : high);
  const int64_t stop = clip(end, stride > 0 ? high : low);
  std::vector<size_t> positions;
  while (stride > 0 ? at < stop : at > stop) {
    budget.Step();
    positions.push_back(static_cast<size_t>(at));
    if (std::abs(stride) > size) break;
    at += stride;
  }
  return positions;
}

}  // namespace

int64_t CheckedAdd(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) Fail("an integer must fit 64 bits", "a sum");
  return result;
}

int64_t CheckedMultiply(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) Fail("an integer must fit 64 bits", "a product");
  return result;
}

Value ApplyOperator(std::string_view name, const Value& a, const Value& b, Budget& budget) {
  if (name == "~") {
    std::string left = a.ToString(budget);
    const std::string right = b.ToString(budget);
    budget.Bytes(left.size() + right.size());
    return left + right;
  }
  if (a.is_number() && b.is_number()) return NumberOperator(name, a, b);
  if (name == "+") return Sum(a, b, budget);
  const auto repeats = [](const Value& value) {
    return value.is_text() || value.list() != nullptr;
  };
  if (name == "*" && repeats(a) && b.is_number()) return Repeated(a, b.ToInt("a count"), budget);
  if (name == "*" && repeats(b) && a.is_number()) return Repeated(b, a.ToInt("a count"), budget);
  if (name == "%" && a.is_text()) {
    Arguments arguments;
    if (b.list() != nullptr && b.list()->is_tuple) {
      arguments.values = b.list()->items;
    } else {
      arguments.values.push_back(b);
    }
    return ApplyFilter("format", a, arguments, budget);
  }
  RefuseOperands(name, a, b);
}

Value Negated(const Value& value) {
  if (value.is_float()) return -value.ToDouble("a number");
  const int64_t number = value.ToInt("what is negated");
  if (number == INT64_MIN) Fail("an integer must fit 64 bits", "a negative");
  return -number;
}

Value GetAttribute(const Value& object, const std::string& name, Budget& budget) {
  budget.Step();
  if (object.is_undefined()) {
    Fail(Concat("only something defined can have the field '", name, "'"), object.Describe());
  }
  const Dict* dict = object.dict();
  const bool has_methods = dict == nullptr || !dict->is_namespace;
  Value method = has_methods ? FindMethod(object, name, budget) : Value();
  if (!method.is_undefined()) return method;
  const Value* field = dict != nullptr ? dict->Find(name) : nullptr;
  return field != nullptr ? *field : Value::OfUndefined(name);
}

Value GetItem(const Value& object, const Value& key, Budget& budget) {
  budget.Step();
  if (object.is_undefined()) {
    Fail("only something defined can have elements", object.Describe());
  }
  if (const Dict* dict = object.dict()) {
    if (!key.is_text()) return Value::OfUndefined(key.Describe());
    const Value* found = dict->Find(*key.text());
    return found != nullptr ? *found : GetAttribute(object, *key.text(), budget);
  }
  if (key.is_text()) return GetAttribute(object, *key.text(), budget);
  if (key.is_float() || key.is_none() || key.is_undefined())
    return Value::OfUndefined("an element");
  int64_t at = key.ToInt("a position");
  const std::string* text = object.text();
  if (text == nullptr && object.list() == nullptr) return Value::OfUndefined("an element");
  const int64_t size =
      text != nullptr ? CountCharacters(*text) : static_cast<int64_t>(object.list()->items.size());
  if (at < 0) at += size;
  if (at < 0 || at >= size) return Value::OfUndefined(Concat("element ", at));
  if (text != nullptr) return object.Elements(budget)[static_cast<size_t>(at)];
  return object.list()->items[static_cast<size_t>(at)];
}

Value GetSlice(const Value& object, const Value* begin, const Value* end, const Value* step,
               Budget& budget) {
  if (object.list() == nullptr && !object.is_text()) {
    Fail("only texts and lists can be sliced", object.Describe());
  }
  const std::vector<Value> items = object.Elements(budget);
  std::vector<Value> picked;
  std::string text;
  for (const size_t at :
       SlicePositions(static_cast<int64_t>(items.size()), begin, end, step, budget)) {
    if (object.is_text()) {
      text += *items[at].text();
    } else {
      picked.push_back(items[at]);
    }
  }
  if (object.is_text()) return text;
  return Value::OfList(std::move(picked), object.list()->is_tuple);
}

}  // namespace opst::text::jinja
