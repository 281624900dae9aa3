// Evaluates expressions to values; statements are in run_statement.cc.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"

namespace opst::text::jinja {

Value Evaluator::Lookup(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return found->second;
  }
  return Value::OfUndefined(name);
}

Value Evaluator::Evaluate(const Expression& expression) {
  const Budget::Level level(budget_);
  budget_.Step();
  const auto child = [&](size_t i) { return Evaluate(*expression.children[i]); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return Lookup(expression.name);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return EvaluateList(expression, expression.kind == ExpressionKind::kTuple);
    case ExpressionKind::kDict:
      return EvaluateDict(expression);
    case ExpressionKind::kAttribute:
      return GetAttribute(child(0), expression.name, budget_);
    case ExpressionKind::kItem:
      return GetItem(child(0), child(1), budget_);
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression);
    case ExpressionKind::kFilter:
      return EvaluateFilter(expression, nullptr);
    case ExpressionKind::kTest:
      return ApplyTest(expression.name, child(0), EvaluateArguments(expression), budget_);
    case ExpressionKind::kNot:
      return !child(0).IsTrue();
    case ExpressionKind::kNegative:
      return Negated(child(0));
    case ExpressionKind::kPositive:
      return ApplyOperator("+", Value(int64_t{0}), child(0), budget_);
    case ExpressionKind::kBinary: {
      const Value left = child(0);
      return ApplyOperator(expression.name, left, child(1), budget_);
    }
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression);
    case ExpressionKind::kAnd: {
      Value left = child(0);
      return left.IsTrue() ? child(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = child(0);
      return left.IsTrue() ? left : child(1);
    }
    case ExpressionKind::kCondition:
      if (child(1).IsTrue()) return child(0);
      return expression.children[2] ? child(2) : Value::OfUndefined("a condition without else");
  }
  return Value();
}

Value Evaluator::EvaluateList(const Expression& expression, bool is_tuple) {
  std::vector<Value> items;
  for (const ExpressionPtr& item : expression.children) items.push_back(Evaluate(*item));
  budget_.Bytes(items.size(), sizeof(Value));
  return Value::OfList(std::move(items), is_tuple);
}

Value Evaluator::EvaluateDict(const Expression& expression) {
  Dict dict;
  for (size_t i = 0; i < expression.children.size(); i += 2) {
    const Value key = Evaluate(*expression.children[i]);
    budget_.Step(dict.items.size() / 4 + 1);  // keys are compared one by one
    budget_.Bytes(sizeof(Value) + sizeof(std::string));
    dict.Set(key.ToText("a key of a dictionary"), Evaluate(*expression.children[i + 1]));
  }
  return Value::OfDict(std::move(dict));
}

Value Evaluator::EvaluateSlice(const Expression& expression) {
  std::vector<Value> parts;
  for (const ExpressionPtr& part : expression.children) {
    parts.push_back(part ? Evaluate(*part) : Value(None{}));
  }
  return GetSlice(parts[0], &parts[1], &parts[2], &parts[3], budget_);
}

Arguments Evaluator::EvaluateArguments(const Expression& expression) {
  Arguments arguments;
  for (const ExpressionPtr& argument : expression.arguments) {
    arguments.values.push_back(Evaluate(*argument));
  }
  for (const auto& [name, argument] : expression.named_arguments) {
    arguments.named.emplace_back(name, Evaluate(*argument));
  }
  return arguments;
}

Value Evaluator::EvaluateCall(const Expression& expression) {
  const Value function = Evaluate(*expression.children[0]);
  const Callable* callable = function.callable();
  // A loop variable is called to go on with a recursive loop.
  if (const Dict* dict = function.dict(); dict != nullptr && callable == nullptr) {
    const Value* recursion = dict->Find("__call__");
    if (recursion != nullptr) return recursion->callable()->function(EvaluateArguments(expression));
  }
  if (callable == nullptr) {
    Fail("only a function can be called",
         Concat("line ", expression.line, ": ", function.Describe()));
  }
  return callable->function(EvaluateArguments(expression));
}

Value Evaluator::EvaluateFilter(const Expression& expression, const Value* value) {
  const Expression* inner = expression.children[0].get();
  Value operand;
  if (inner == nullptr) {
    operand = *value;
  } else {
    const bool is_in_chain = value != nullptr && inner->kind == ExpressionKind::kFilter;
    operand = is_in_chain ? EvaluateFilter(*inner, value) : Evaluate(*inner);
  }
  return ApplyFilter(expression.name, operand, EvaluateArguments(expression), budget_);
}

bool Evaluator::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.children[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = Evaluate(*expression.children[i + 1]);
    const std::string& name = expression.operators[i];
    const bool holds = name == "in"       ? Contains(right, left, budget_)
                       : name == "not in" ? !Contains(right, left, budget_)
                                          : ApplyTest(name, left, Arguments{{right}, {}}, budget_);
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace opst::text::jinja
