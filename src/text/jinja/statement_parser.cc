// Statements: what stands in {% … %}, and the text around it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/parser.h"

namespace opst::text::jinja {

Block Parser::Parse() { return ParseBlock({}); }

// Up to a block that begins with one of the names, which is left in place, or to the end.
Block Parser::ParseBlock(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Block block;
  while (Peek().kind != TokenKind::kEnd) {
    const Token token = Peek();
    auto statement = std::make_unique<Statement>();
    statement->line = token.line;
    if (token.kind == TokenKind::kData) {
      statement->kind = StatementKind::kData;
      statement->text = token.text;
      ++at_;
    } else if (token.kind == TokenKind::kVariableBegin) {
      ++at_;
      statement->kind = StatementKind::kOutput;
      statement->expression = ParseTuple();
      if (Peek().kind != TokenKind::kVariableEnd) Refuse("'}}' must stand here");
      ++at_;
    } else {
      const std::string& name = Peek(1).text;
      if (std::find(ends.begin(), ends.end(), name) != ends.end()) return block;
      statement = ParseStatement();
    }
    block.push_back(std::move(statement));
  }
  if (ends.size() != 0) Refuse(Concat("a block must be closed by ", *(ends.end() - 1)));
  return block;
}

void Parser::EndBlock() {
  if (Peek().kind != TokenKind::kBlockEnd) Refuse("'%}' must stand here");
  ++at_;
}

void Parser::ExpectEnd(std::string_view name) {
  ++at_;  // {%
  if (!TakeName(name)) Refuse(Concat(name, " must stand here"));
  if (name == "endmacro" && Peek().kind == TokenKind::kName) ++at_;
  EndBlock();
}

std::unique_ptr<Statement> Parser::ParseStatement() {
  ++at_;  // {%
  const int line = Peek().line;
  if (TakeName("if")) return ParseIf(line);
  if (TakeName("for")) return ParseFor(line);
  if (TakeName("set")) return ParseSet(line);
  if (TakeName("macro")) return ParseMacro(line);
  if (TakeName("call")) return ParseCallBlock(line);
  if (TakeName("filter")) return ParseWithBody(StatementKind::kFilter, "endfilter", line);
  // Marks the assistant's part for training; text is not changed.
  if (TakeName("generation")) return ParseWithBody(StatementKind::kBody, "endgeneration", line);
  auto statement = std::make_unique<Statement>();
  statement->line = line;
  if (IsName("break") || IsName("continue")) {
    statement->kind = IsName("break") ? StatementKind::kBreak : StatementKind::kContinue;
    if (loops_ == 0) Refuse("break and continue must stand in a loop");
    ++at_;
    EndBlock();
    return statement;
  }
  Refuse("a block must be if, for, set, macro, call, filter, generation, break or continue");
}

std::unique_ptr<Statement> Parser::ParseIf(int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kIf;
  statement->line = line;
  ExpressionPtr condition = ParseTuple();
  while (true) {
    EndBlock();
    statement->branches.push_back({std::move(condition), ParseBlock({"elif", "else", "endif"})});
    if (Is(TokenKind::kName, "elif", 1)) {
      at_ += 2;
      condition = ParseTuple();
    } else if (Is(TokenKind::kName, "else", 1)) {
      at_ += 2;
      EndBlock();
      statement->branches.push_back({nullptr, ParseBlock({"endif"})});
      ExpectEnd("endif");
      return statement;
    } else {
      ExpectEnd("endif");
      return statement;
    }
  }
}

// Names to assign to: a, (a, b), a.b
ExpressionPtr Parser::ParseTarget() {
  const auto parse_one = [&]() -> ExpressionPtr {
    if (TakeOperator("(")) {
      ExpressionPtr inner = ParseTarget();
      ExpectOperator(")");
      return inner;
    }
    ExpressionPtr name = Make(ExpressionKind::kName);
    name->name = ExpectName();
    if (!TakeOperator(".")) return name;
    ExpressionPtr attribute = Make(ExpressionKind::kAttribute);
    AddChild(*attribute, std::move(name));
    attribute->name = ExpectName();
    return attribute;
  };
  const Nesting nesting(*this);
  ExpressionPtr first = parse_one();
  if (!IsOperator(",")) return first;
  ExpressionPtr tuple = Make(ExpressionKind::kTuple);
  AddChild(*tuple, std::move(first));
  while (TakeOperator(",")) {
    if (Peek().kind == TokenKind::kName || IsOperator("(")) AddChild(*tuple, parse_one());
  }
  return tuple;
}

std::unique_ptr<Statement> Parser::ParseFor(int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kFor;
  statement->line = line;
  statement->target = ParseTarget();
  if (!TakeName("in")) Refuse("'in' must stand here");
  // Not a whole expression: "if" begins the loop's filter.
  statement->expression = ParseOr();
  if (IsOperator(",")) {
    ExpressionPtr tuple = Make(ExpressionKind::kTuple);
    AddChild(*tuple, std::move(statement->expression));
    while (TakeOperator(",")) AddChild(*tuple, ParseOr());
    statement->expression = std::move(tuple);
  }
  if (TakeName("if")) statement->filter = ParseExpression();
  statement->is_recursive = TakeName("recursive");
  EndBlock();
  ++loops_;
  statement->body = ParseBlock({"else", "endfor"});
  --loops_;
  if (Is(TokenKind::kName, "else", 1)) {
    at_ += 2;
    EndBlock();
    statement->other = ParseBlock({"endfor"});
  }
  ExpectEnd("endfor");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseSet(int line) {
  auto statement = std::make_unique<Statement>();
  statement->line = line;
  statement->kind = StatementKind::kSet;
  statement->target = ParseTarget();
  if (TakeOperator("=")) {
    statement->expression = ParseTuple();
    EndBlock();
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  if (IsOperator("|")) statement->expression = ParseFilters(nullptr);
  EndBlock();
  statement->body = ParseBlock({"endset"});
  ExpectEnd("endset");
  return statement;
}

void Parser::ParseParameters(Statement& macro) {
  ExpectOperator("(");
  while (!IsOperator(")")) {
    std::string name = ExpectName();
    ExpressionPtr preset = TakeOperator("=") ? ParseExpression() : nullptr;
    macro.parameters.emplace_back(std::move(name), std::move(preset));
    if (!TakeOperator(",")) break;
  }
  ExpectOperator(")");
}

std::unique_ptr<Statement> Parser::ParseMacro(int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kMacro;
  statement->line = line;
  statement->text = ExpectName();
  ParseParameters(*statement);
  EndBlock();
  const int loops = std::exchange(loops_, 0);
  statement->body = ParseBlock({"endmacro"});
  loops_ = loops;
  ExpectEnd("endmacro");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseCallBlock(int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = StatementKind::kCallBlock;
  statement->line = line;
  statement->text = "caller";
  if (IsOperator("(")) ParseParameters(*statement);
  statement->expression = ParseExpression();
  if (statement->expression->kind != ExpressionKind::kCall) Refuse("a call must stand here");
  EndBlock();
  const int loops = std::exchange(loops_, 0);
  statement->body = ParseBlock({"endcall"});
  loops_ = loops;
  ExpectEnd("endcall");
  return statement;
}

std::unique_ptr<Statement> Parser::ParseWithBody(StatementKind kind, std::string_view end,
                                                 int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line;
  if (kind == StatementKind::kFilter) {
    ExpressionPtr filter = Make(ExpressionKind::kFilter);
    AddChild(*filter, nullptr);
    if (!IsFilter(Peek().text)) Refuse("a filter must be a known one");
    filter->name = ExpectName();
    if (IsOperator("(")) ParseArguments(*filter);
    statement->expression = ParseFilters(std::move(filter));
  }
  EndBlock();
  statement->body = ParseBlock({end});
  ExpectEnd(end);
  return statement;
}

}  // namespace opst::text::jinja
