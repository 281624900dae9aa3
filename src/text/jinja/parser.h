// Parser: tokens to the tree of a template.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_PARSER_H_
#define OPST_TEXT_JINJA_PARSER_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace opst::text::jinja {

class Parser {
 public:
  Parser(std::string_view source, const Limits& limits)
      : tokens_(Tokenize(source)), limits_(limits) {}

  // Throws kIo naming the line.
  Block Parse();

 private:
  class Nesting;

  // statement_parser.cc
  Block ParseBlock(std::initializer_list<std::string_view> ends);
  std::unique_ptr<Statement> ParseStatement();
  std::unique_ptr<Statement> ParseIf(int line);
  std::unique_ptr<Statement> ParseFor(int line);
  std::unique_ptr<Statement> ParseSet(int line);
  std::unique_ptr<Statement> ParseMacro(int line);
  std::unique_ptr<Statement> ParseCallBlock(int line);
  std::unique_ptr<Statement> ParseWithBody(StatementKind kind, std::string_view end, int line);
  void ParseParameters(Statement& macro);
  ExpressionPtr ParseTarget();
  void EndBlock();
  void ExpectEnd(std::string_view name);

  // expression_parser.cc
  ExpressionPtr ParseExpression();  // … if … else …
  ExpressionPtr ParseOr();
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseCompare();
  ExpressionPtr ParseBinary(int level);
  enum class Filters { kWith, kWithout };
  ExpressionPtr ParseUnary(Filters filters);
  ExpressionPtr ParsePrimary();
  ExpressionPtr ParsePostfix(ExpressionPtr value);
  ExpressionPtr ParseFilters(ExpressionPtr value);
  ExpressionPtr ParseFilter(ExpressionPtr value);
  ExpressionPtr ParseTest(ExpressionPtr value);
  ExpressionPtr ParseSubscript(ExpressionPtr value);
  ExpressionPtr ParseParentheses();
  ExpressionPtr ParseListLiteral();
  ExpressionPtr ParseDictLiteral();
  // a, b, …: a tuple when there is a comma.
  ExpressionPtr ParseTuple();
  void ParseArguments(Expression& call);

  const Token& Peek(size_t ahead = 0) const;
  bool Is(TokenKind kind, std::string_view text, size_t ahead = 0) const;
  bool IsOperator(std::string_view text) const { return Is(TokenKind::kOperator, text); }
  bool IsName(std::string_view text) const { return Is(TokenKind::kName, text); }
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  void ExpectOperator(std::string_view text);
  std::string ExpectName();
  [[noreturn]] void Refuse(std::string_view rule) const;

  ExpressionPtr Make(ExpressionKind kind) const;
  void AddChild(Expression& parent, ExpressionPtr child) const;

  std::vector<Token> tokens_;
  Limits limits_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // around the statement being parsed
};

// One level of nesting while a part is parsed.
class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) {
    if (++parser.nesting_ > parser.limits_.max_nesting)
      parser.Refuse("nesting must not be so deep");
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_PARSER_H_
