// What templates can call: filters, tests, methods, global functions; and the operators.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_BUILTINS_H_
#define OPST_TEXT_JINJA_BUILTINS_H_

#include <ctime>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace opst::text::jinja {

bool IsFilter(std::string_view name);
// value | name(arguments)
Value ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments,
                  Budget& budget);

bool IsTest(std::string_view name);
// value is name(arguments)
bool ApplyTest(std::string_view name, const Value& value, const Arguments& arguments,
               Budget& budget);

// object.name: a method, else an element of that name; undefined when there is none.
Value GetAttribute(const Value& object, const std::string& name, Budget& budget);
// object[key]: an element, else a method.
Value GetItem(const Value& object, const Value& key, Budget& budget);
// object[begin:end:step]; nullptr or none = left out.
Value GetSlice(const Value& object, const Value* begin, const Value* end, const Value* step,
               Budget& budget);

// "+" "-" "*" "/" "//" "%" "**" "~"
Value ApplyOperator(std::string_view name, const Value& a, const Value& b, Budget& budget);
Value Negated(const Value& value);

// The method of a text, list or dictionary; undefined when there is none.
Value FindMethod(const Value& object, const std::string& name, Budget& budget);

// range, dict, namespace, raise_exception, strftime_now, as name and value. `now`: local time.
std::vector<std::pair<std::string, Value>> GlobalFunctions(const std::tm& now, Budget& budget,
                                                           std::vector<Value>& namespaces);

// An integer that fits 64 bits, or an error.
int64_t CheckedAdd(int64_t a, int64_t b);
int64_t CheckedMultiply(int64_t a, int64_t b);

// An argument, or `otherwise` when it is missing.
int64_t IntArgument(const Arguments& arguments, size_t index, std::string_view name,
                    int64_t otherwise);

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_BUILTINS_H_
