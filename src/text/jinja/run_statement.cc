// Statements: what they write, which names they set, how loops go.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/evaluator.h"

namespace opst::text::jinja {

// A scope inside the present one, while it lives.
class Evaluator::InnerScope {
 public:
  explicit InnerScope(Evaluator& evaluator, std::shared_ptr<Scope> outer = nullptr)
      : evaluator_(evaluator), before_(evaluator.scope_) {
    evaluator.budget_.Bytes(sizeof(Scope) + 64);
    evaluator.scope_ = std::make_shared<Scope>();
    evaluator.scope_->outer = outer ? std::move(outer) : before_;
  }
  ~InnerScope() { evaluator_.scope_ = before_; }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

 private:
  Evaluator& evaluator_;
  std::shared_ptr<Scope> before_;
};

Evaluator::Evaluator(const Limits& limits, const std::tm& now)
    : budget_(limits), scope_(std::make_shared<Scope>()) {
  for (auto& [name, value] : GlobalFunctions(now, budget_, namespaces_)) Define(name, value);
}

Evaluator::~Evaluator() {
  for (const Value& value : namespaces_) value.dict()->items.clear();
  for (const std::shared_ptr<Scope>& scope : scopes_) scope->names.clear();
}

std::string Evaluator::Run(const Block& block) {
  RunBlock(block);
  return std::move(out_);
}

void Evaluator::Write(std::string_view text) {
  budget_.Bytes(text.size());
  out_ += text;
}

Evaluator::Flow Evaluator::RunBlock(const Block& block) {
  const Budget::Level level(budget_);
  for (const auto& statement : block) {
    budget_.Step();
    const Flow flow = RunStatement(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::RunStatement(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kData:
      Write(statement.text);
      break;
    case StatementKind::kOutput:
      Write(Evaluate(*statement.expression).ToString(budget_));
      break;
    case StatementKind::kIf:
      return RunIf(statement);
    case StatementKind::kFor:
      RunFor(statement, Evaluate(*statement.expression), 1);
      break;
    case StatementKind::kSet:
      Assign(*statement.target, Evaluate(*statement.expression));
      break;
    case StatementKind::kSetBlock: {
      Value text(Captured(statement.body));
      Assign(*statement.target,
             statement.expression ? EvaluateFilter(*statement.expression, &text) : text);
      break;
    }
    case StatementKind::kMacro:
      scope_->names[statement.text] = MakeMacro(statement);
      break;
    case StatementKind::kCallBlock: {
      const InnerScope inner(*this);
      Arguments arguments = EvaluateArguments(*statement.expression);
      arguments.named.emplace_back("caller", MakeMacro(statement));
      const Value function = Evaluate(*statement.expression->children[0]);
      if (function.callable() == nullptr) Fail("only a macro can be called", function.Describe());
      Write(function.callable()->function(arguments).ToString(budget_));
      break;
    }
    case StatementKind::kFilter: {
      const Value text(Captured(statement.body));
      Write(EvaluateFilter(*statement.expression, &text).ToString(budget_));
      break;
    }
    case StatementKind::kBody: {
      const InnerScope inner(*this);
      return RunBlock(statement.body);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::RunIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (!branch.condition || Evaluate(*branch.condition).IsTrue()) return RunBlock(branch.body);
  }
  return Flow::kNext;
}

std::vector<Value> Evaluator::Filtered(const Statement& statement, const Value& iterated) {
  std::vector<Value> items = iterated.Elements(budget_);
  budget_.Bytes(items.size(), sizeof(Value));
  if (!statement.filter) return items;
  std::vector<Value> kept;
  for (const Value& item : items) {
    const InnerScope inner(*this);
    Assign(*statement.target, item);
    if (Evaluate(*statement.filter).IsTrue()) kept.push_back(item);
  }
  return kept;
}

void Evaluator::RunFor(const Statement& statement, const Value& iterated, int64_t depth) {
  const std::vector<Value> items = Filtered(statement, iterated);
  for (size_t i = 0; i < items.size(); ++i) {
    const InnerScope inner(*this);
    scope_->names["loop"] = LoopVariable(items, i, depth, statement);
    Assign(*statement.target, items[i]);
    if (RunBlock(statement.body) == Flow::kBreak) break;
  }
  if (!items.empty()) return;
  const InnerScope inner(*this);
  RunBlock(statement.other);
}

Value Evaluator::LoopVariable(const std::vector<Value>& items, size_t index, int64_t depth,
                              const Statement& statement) {
  const auto at = static_cast<int64_t>(index);
  const auto size = static_cast<int64_t>(items.size());
  budget_.Bytes(1024);
  Dict loop;
  loop.is_namespace = true;  // it has fields, no methods of a dictionary
  loop.items = {
      {"index", at + 1},
      {"index0", at},
      {"revindex", size - at},
      {"revindex0", size - at - 1},
      {"first", at == 0},
      {"last", at == size - 1},
      {"length", size},
      {"depth", depth},
      {"depth0", depth - 1},
      {"previtem", at > 0 ? items[index - 1] : Value::OfUndefined("loop.previtem")},
      {"nextitem", at + 1 < size ? items[index + 1] : Value::OfUndefined("loop.nextitem")}};
  loop.Set("cycle", Value::OfFunction("cycle", [at](const Arguments& arguments) {
             if (arguments.values.empty()) Fail("cycle needs values", "none");
             return arguments.values[static_cast<size_t>(at) % arguments.values.size()];
           }));
  if (statement.is_recursive) {
    loop.Set("__call__", Value::OfFunction("loop", [this, &statement, depth](const Arguments& a) {
               if (a.values.empty()) Fail("a recursive loop needs what it goes over", "nothing");
               const Budget::Level level(budget_);
               std::string before = std::exchange(out_, {});
               RunFor(statement, a.values[0], depth + 1);
               return Value(std::exchange(out_, std::move(before)));
             }));
  }
  return Value::OfDict(std::move(loop));
}

void Evaluator::Assign(const Expression& target, const Value& value) {
  if (target.kind == ExpressionKind::kName) {
    scope_->names[target.name] = value;
    return;
  }
  if (target.kind == ExpressionKind::kAttribute) {
    const Value object = Evaluate(*target.children[0]);
    if (object.dict() == nullptr || !object.dict()->is_namespace) {
      Fail("only fields of a namespace can be set",
           Concat("line ", target.line, ": ", target.name, " of ", object.Describe()));
    }
    budget_.Step(object.dict()->items.size() / 4 + 1);
    object.dict()->Set(target.name, value);
    return;
  }
  const std::vector<Value> parts = value.Elements(budget_);
  if (parts.size() != target.children.size()) {
    Fail("as many values as names must be given",
         Concat("line ", target.line, ": ", parts.size(), " for ", target.children.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) Assign(*target.children[i], parts[i]);
}

std::string Evaluator::Captured(const Block& block) {
  const InnerScope inner(*this);
  std::string before = std::exchange(out_, {});
  RunBlock(block);
  return std::exchange(out_, std::move(before));
}

Value Evaluator::MakeMacro(const Statement& statement) {
  budget_.Bytes(sizeof(Statement));
  scopes_.push_back(scope_);
  return Value::OfFunction(statement.text,
                           [this, &statement, outer = scope_](const Arguments& arguments) {
                             return Value(CallMacro(statement, outer, arguments));
                           });
}

std::string Evaluator::CallMacro(const Statement& macro, const std::shared_ptr<Scope>& outer,
                                 const Arguments& arguments) {
  const Budget::Level level(budget_);
  const InnerScope inner(*this, outer);
  if (arguments.values.size() > macro.parameters.size()) {
    Fail(Concat("the macro ", macro.text, " takes ", macro.parameters.size(), " arguments"),
         std::to_string(arguments.values.size()));
  }
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, preset] = macro.parameters[i];
    const Value* given = arguments.Find(i, name);
    scope_->names[name] = given != nullptr ? *given
                          : preset         ? Evaluate(*preset)
                                           : Value::OfUndefined(name);
  }
  if (const Value* caller = arguments.Find(SIZE_MAX, "caller")) scope_->names["caller"] = *caller;
  std::string before = std::exchange(out_, {});
  RunBlock(macro.body);
  return std::exchange(out_, std::move(before));
}

}  // namespace opst::text::jinja
