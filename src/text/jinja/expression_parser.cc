// Expressions, from the loosest binding operator down to names and literals.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/strings.h"
#include "text/jinja/builtins.h"
#include "text/jinja/parser.h"

namespace opst::text::jinja {

const Token& Parser::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool Parser::Is(TokenKind kind, std::string_view text, size_t ahead) const {
  return Peek(ahead).kind == kind && Peek(ahead).text == text;
}

bool Parser::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  ++at_;
  return true;
}

bool Parser::TakeName(std::string_view text) {
  if (!IsName(text)) return false;
  ++at_;
  return true;
}

void Parser::ExpectOperator(std::string_view text) {
  if (!TakeOperator(text)) Refuse(Concat("'", text, "' must stand here"));
}

std::string Parser::ExpectName() {
  if (Peek().kind != TokenKind::kName) Refuse("a name must stand here");
  return tokens_[at_++].text;
}

void Parser::Refuse(std::string_view rule) const {
  const Token& token = Peek();
  const bool is_end = token.kind == TokenKind::kEnd;
  Fail(rule, Concat("line ", token.line, ": ", is_end ? "the end of the template" : token.text));
}

ExpressionPtr Parser::Make(ExpressionKind kind) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = Peek().line;
  return expression;
}

void Parser::AddChild(Expression& parent, ExpressionPtr child) const {
  if (child) parent.depth = std::max(parent.depth, child->depth + 1);
  // A chain like a+b+c is a tree as deep as it is long.
  if (parent.depth > 2 * limits_.max_nesting) Refuse("an expression must not be so long");
  parent.children.push_back(std::move(child));
}

ExpressionPtr Parser::ParseExpression() {
  const Nesting nesting(*this);
  ExpressionPtr value = ParseOr();
  while (TakeName("if")) {
    ExpressionPtr condition = Make(ExpressionKind::kCondition);
    AddChild(*condition, std::move(value));
    AddChild(*condition, ParseOr());
    AddChild(*condition, TakeName("else") ? ParseExpression() : nullptr);
    value = std::move(condition);
  }
  return value;
}

ExpressionPtr Parser::ParseOr() {
  ExpressionPtr left = ParseAnd();
  while (TakeName("or")) {
    ExpressionPtr both = Make(ExpressionKind::kOr);
    AddChild(*both, std::move(left));
    AddChild(*both, ParseAnd());
    left = std::move(both);
  }
  return left;
}

ExpressionPtr Parser::ParseAnd() {
  ExpressionPtr left = ParseNot();
  while (TakeName("and")) {
    ExpressionPtr both = Make(ExpressionKind::kAnd);
    AddChild(*both, std::move(left));
    AddChild(*both, ParseNot());
    left = std::move(both);
  }
  return left;
}

ExpressionPtr Parser::ParseNot() {
  if (!TakeName("not")) return ParseCompare();
  const Nesting nesting(*this);
  ExpressionPtr negation = Make(ExpressionKind::kNot);
  AddChild(*negation, ParseNot());
  return negation;
}

ExpressionPtr Parser::ParseCompare() {
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  ExpressionPtr first = ParseBinary(0);
  ExpressionPtr compare = Make(ExpressionKind::kCompare);
  while (true) {
    const bool is_operator =
        Peek().kind == TokenKind::kOperator &&
        std::find(kOperators.begin(), kOperators.end(), Peek().text) != kOperators.end();
    if (is_operator) {
      compare->operators.push_back(tokens_[at_++].text);
    } else if (TakeName("in")) {
      compare->operators.emplace_back("in");
    } else if (IsName("not") && Is(TokenKind::kName, "in", 1)) {
      at_ += 2;
      compare->operators.emplace_back("not in");
    } else {
      break;
    }
    if (first) AddChild(*compare, std::move(first));
    AddChild(*compare, ParseBinary(0));
  }
  return compare->operators.empty() ? std::move(first) : std::move(compare);
}

// From + and -, the loosest, over ~ and * / // % to **; all bind to the left, as in Jinja.
ExpressionPtr Parser::ParseBinary(int level) {
  static const std::array<std::vector<std::string_view>, 4> kLevels = {
      std::vector<std::string_view>{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  if (level == static_cast<int>(kLevels.size())) return ParseUnary(Filters::kWith);
  const auto& operators = kLevels[static_cast<size_t>(level)];
  ExpressionPtr left = ParseBinary(level + 1);
  while (Peek().kind == TokenKind::kOperator &&
         std::find(operators.begin(), operators.end(), Peek().text) != operators.end()) {
    ExpressionPtr both = Make(ExpressionKind::kBinary);
    both->name = tokens_[at_++].text;
    AddChild(*both, std::move(left));
    AddChild(*both, ParseBinary(level + 1));
    left = std::move(both);
  }
  return left;
}

ExpressionPtr Parser::ParseUnary(Filters filters) {
  const Nesting nesting(*this);
  ExpressionPtr value;
  if (IsOperator("-") || IsOperator("+")) {
    value = Make(IsOperator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    ++at_;
    AddChild(*value, ParseUnary(Filters::kWithout));
  } else {
    value = ParsePrimary();
  }
  value = ParsePostfix(std::move(value));
  return filters == Filters::kWith ? ParseFilters(std::move(value)) : std::move(value);
}

ExpressionPtr Parser::ParsePrimary() {
  ExpressionPtr value = Make(ExpressionKind::kConstant);
  const Token& token = Peek();
  if (token.kind == TokenKind::kName) {
    const std::string name = tokens_[at_++].text;
    const std::string lower = ToLower(name);
    if (name != lower && name != "True" && name != "False" && name != "None") {
      value->kind = ExpressionKind::kName;
    } else if (lower == "true" || lower == "false") {
      value->constant = Value(lower == "true");
    } else if (lower == "none") {
      value->constant = Value(None{});
    } else {
      value->kind = ExpressionKind::kName;
    }
    value->name = name;
  } else if (token.kind == TokenKind::kString) {
    std::string text;
    while (Peek().kind == TokenKind::kString) text += tokens_[at_++].text;
    value->constant = Value(std::move(text));
  } else if (token.kind == TokenKind::kInteger) {
    const auto number = ParseInt(token.text);
    if (!number) Refuse("an integer must fit 64 bits");
    value->constant = Value(*number);
    ++at_;
  } else if (token.kind == TokenKind::kFloat) {
    const auto number = ParseFloat(token.text);
    if (!number) Refuse("a number must be finite");
    value->constant = Value(*number);
    ++at_;
  } else if (IsOperator("(")) {
    return ParseParentheses();
  } else if (IsOperator("[")) {
    return ParseListLiteral();
  } else if (IsOperator("{")) {
    return ParseDictLiteral();
  } else {
    Refuse("an expression must stand here");
  }
  return value;
}

ExpressionPtr Parser::ParseTuple() {
  ExpressionPtr first = ParseExpression();
  if (!IsOperator(",")) return first;
  ExpressionPtr tuple = Make(ExpressionKind::kTuple);
  AddChild(*tuple, std::move(first));
  while (TakeOperator(",")) {
    const bool ends = IsOperator(")") || Peek().kind == TokenKind::kBlockEnd ||
                      Peek().kind == TokenKind::kVariableEnd || IsOperator("=");
    if (ends) break;
    AddChild(*tuple, ParseExpression());
  }
  return tuple;
}

ExpressionPtr Parser::ParseParentheses() {
  ExpectOperator("(");
  if (TakeOperator(")")) return Make(ExpressionKind::kTuple);
  ExpressionPtr value = ParseTuple();
  ExpectOperator(")");
  return value;
}

ExpressionPtr Parser::ParseListLiteral() {
  ExpressionPtr list = Make(ExpressionKind::kList);
  ExpectOperator("[");
  while (!IsOperator("]")) {
    AddChild(*list, ParseExpression());
    if (!TakeOperator(",")) break;
  }
  ExpectOperator("]");
  return list;
}

ExpressionPtr Parser::ParseDictLiteral() {
  ExpressionPtr dict = Make(ExpressionKind::kDict);
  ExpectOperator("{");
  while (!IsOperator("}")) {
    AddChild(*dict, ParseExpression());
    ExpectOperator(":");
    AddChild(*dict, ParseExpression());
    if (!TakeOperator(",")) break;
  }
  ExpectOperator("}");
  return dict;
}

ExpressionPtr Parser::ParsePostfix(ExpressionPtr value) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      value = ParseSubscript(std::move(value));
    } else if (IsOperator("(")) {
      ExpressionPtr call = Make(ExpressionKind::kCall);
      AddChild(*call, std::move(value));
      ParseArguments(*call);
      value = std::move(call);
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::ParseSubscript(ExpressionPtr value) {
  ExpressionPtr result = Make(ExpressionKind::kItem);
  AddChild(*result, std::move(value));
  if (TakeOperator(".")) {
    if (Peek().kind == TokenKind::kInteger) {
      AddChild(*result, ParsePrimary());
      return result;
    }
    result->kind = ExpressionKind::kAttribute;
    result->name = ExpectName();
    return result;
  }
  ExpectOperator("[");
  ExpressionPtr first = IsOperator(":") ? nullptr : ParseExpression();
  if (IsOperator(":")) {
    result->kind = ExpressionKind::kSlice;
    AddChild(*result, std::move(first));
    for (int part = 0; part < 2; ++part) {
      const bool is_there = TakeOperator(":") && !IsOperator(":") && !IsOperator("]");
      AddChild(*result, is_there ? ParseExpression() : nullptr);
    }
  } else {
    AddChild(*result, std::move(first));
  }
  ExpectOperator("]");
  return result;
}

void Parser::ParseArguments(Expression& call) {
  const Nesting nesting(*this);
  ExpectOperator("(");
  while (!IsOperator(")")) {
    if (Peek().kind == TokenKind::kName && Is(TokenKind::kOperator, "=", 1)) {
      std::string name = ExpectName();
      ExpectOperator("=");
      call.named_arguments.emplace_back(std::move(name), ParseExpression());
      call.depth = std::max(call.depth, call.named_arguments.back().second->depth + 1);
    } else {
      if (!call.named_arguments.empty()) Refuse("arguments without a name must come first");
      call.arguments.push_back(ParseExpression());
      call.depth = std::max(call.depth, call.arguments.back()->depth + 1);
    }
    if (!TakeOperator(",")) break;
  }
  ExpectOperator(")");
}

ExpressionPtr Parser::ParseFilters(ExpressionPtr value) {
  while (true) {
    if (IsOperator("|")) {
      value = ParseFilter(std::move(value));
    } else if (IsName("is")) {
      value = ParseTest(std::move(value));
    } else if (IsOperator("(")) {
      value = ParsePostfix(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::ParseFilter(ExpressionPtr value) {
  ExpectOperator("|");
  ExpressionPtr filter = Make(ExpressionKind::kFilter);
  AddChild(*filter, std::move(value));
  if (!IsFilter(Peek().text)) Refuse("a filter must be a known one");
  filter->name = ExpectName();
  if (IsOperator("(")) ParseArguments(*filter);
  return filter;
}

ExpressionPtr Parser::ParseTest(ExpressionPtr value) {
  ++at_;
  const bool is_negated = TakeName("not");
  ExpressionPtr test = Make(ExpressionKind::kTest);
  AddChild(*test, std::move(value));
  if (!IsTest(Peek().text)) Refuse("a test must be a known one");
  test->name = Peek().text;
  ++at_;
  const Token& next = Peek();
  const bool has_argument = next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
                            next.kind == TokenKind::kFloat || IsOperator("[") || IsOperator("{") ||
                            (next.kind == TokenKind::kName && next.text != "else" &&
                             next.text != "or" && next.text != "and" && next.text != "is" &&
                             next.text != "if" && next.text != "not" && next.text != "in");
  if (IsOperator("(")) {
    ParseArguments(*test);
  } else if (has_argument) {
    test->arguments.push_back(ParsePostfix(ParsePrimary()));
  }
  if (!is_negated) return test;
  ExpressionPtr negation = Make(ExpressionKind::kNot);
  AddChild(*negation, std::move(test));
  return negation;
}

}  // namespace opst::text::jinja
