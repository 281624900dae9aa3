// The tree of a parsed template. Data only.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_AST_H_
#define OPST_TEXT_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace opst::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kConstant,
  kName,
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value …
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,      // children[0][children[1]:children[2]:children[3]], nullptr = left out
  kCall,       // children[0](arguments)
  kFilter,     // children[0] | name(arguments); no children[0] in a filter block
  kTest,       // children[0] is name(arguments)
  kNot,
  kNegative,
  kPositive,
  kBinary,   // name is the operator
  kCompare,  // children[0] operators[0] children[1] operators[1] …
  kAnd,
  kOr,
  kCondition,  // children[0] if children[1] else children[2]; nullptr = undefined
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  int depth = 1;  // levels below, this one included
  std::string name = {};
  Value constant = {};
  std::vector<ExpressionPtr> children = {};
  std::vector<std::string> operators = {};
  // Of calls, filters and tests.
  std::vector<ExpressionPtr> arguments = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named_arguments = {};
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

enum class StatementKind {
  kData,       // text
  kOutput,     // expression
  kIf,         // branches: condition (nullptr = else) and body
  kFor,        // target in expression if filter: body, else
  kSet,        // target = expression
  kSetBlock,   // target = body | filter
  kMacro,      // name(parameters): body
  kCallBlock,  // expression is a call; body is its caller()
  kFilter,     // filter of the body
  kBody,       // the body as it is: {% generation %}
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr condition;
  Block body;
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text = {};          // data, or a macro's name
  ExpressionPtr target = {};      // names, tuples, or attributes to set
  ExpressionPtr expression = {};  // also the filter of a block
  ExpressionPtr filter = {};      // condition of a for
  std::vector<std::pair<std::string, ExpressionPtr>> parameters = {};  // and their defaults
  std::vector<Branch> branches = {};
  Block body = {};
  Block other = {};  // else of a for
  bool is_recursive = false;
};

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_AST_H_
