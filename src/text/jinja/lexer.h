// Lexer: template source to tokens, with Jinja's rules about white space around blocks.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_LEXER_H_
#define OPST_TEXT_JINJA_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

namespace opst::text::jinja {

enum class TokenKind {
  kData,           // text outside of blocks
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,  // with escapes resolved
  kInteger,
  kFloat,
  kOperator,  // "==", "|", "(" …
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// As environments of chat templates are set up: trim_blocks (the newline behind a block goes),
// lstrip_blocks (blanks before a block that begins its line go), the source's last newline goes.
// Throws kIo "[chat_template] … line N" for what is no template.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_LEXER_H_
