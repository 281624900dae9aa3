// Evaluator: runs the tree of a template. One per rendering.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_EVALUATOR_H_
#define OPST_TEXT_JINJA_EVALUATOR_H_

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/ast.h"

namespace opst::text::jinja {

// Names of a block and, through `outer`, of the blocks around it.
struct Scope {
  std::map<std::string, Value, std::less<>> names;
  std::shared_ptr<Scope> outer;
};

class Evaluator {
 public:
  Evaluator(const Limits& limits, const std::tm& now);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  void Define(std::string name, Value value) { scope_->names[std::move(name)] = std::move(value); }
  // Returns the text. `block` must outlive the call.
  std::string Run(const Block& block);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class InnerScope;

  // run_statement.cc
  Flow RunBlock(const Block& block);
  Flow RunStatement(const Statement& statement);
  Flow RunIf(const Statement& statement);
  void RunFor(const Statement& statement, const Value& iterated, int64_t depth);
  Value LoopVariable(const std::vector<Value>& items, size_t index, int64_t depth,
                     const Statement& statement);
  std::vector<Value> Filtered(const Statement& statement, const Value& iterated);
  void Assign(const Expression& target, const Value& value);
  std::string Captured(const Block& block);
  Value MakeMacro(const Statement& statement);
  std::string CallMacro(const Statement& macro, const std::shared_ptr<Scope>& outer,
                        const Arguments& arguments);
  void Write(std::string_view text);

  // evaluate_expression.cc
  Value Evaluate(const Expression& expression);
  Value EvaluateDict(const Expression& expression);
  Value EvaluateList(const Expression& expression, bool is_tuple);
  Value EvaluateSlice(const Expression& expression);
  Value EvaluateCall(const Expression& expression);
  bool EvaluateCompare(const Expression& expression);
  // The filter with `value` in the place of a missing operand.
  Value EvaluateFilter(const Expression& expression, const Value* value);
  Arguments EvaluateArguments(const Expression& expression);
  Value Lookup(const std::string& name) const;

  Budget budget_;
  std::vector<Value> namespaces_;               // emptied at the end: they may hold themselves
  std::vector<std::shared_ptr<Scope>> scopes_;  // emptied at the end: macros may hold them
  std::shared_ptr<Scope> scope_;
  std::string out_;
};

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_EVALUATOR_H_
