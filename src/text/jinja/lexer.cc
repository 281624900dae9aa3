// One pass over the source: data, then what stands between two marks, and so on.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/jinja/python_text.h"
#include "text/jinja/value.h"
#include "text/utf8.h"

namespace opst::text::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// "\r\n" and "\r" become "\n"; one newline at the end goes.
std::string NormalizedSource(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// {{ }}, or {% %} and {# #}.
enum class MarkKind { kVariable, kBlock };

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizedSource(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) LexData();
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Refuse(std::string_view rule) const {
    Fail(rule, Concat("line ", line_, ": ", RepairUtf8(source_.substr(at_, 20))));
  }
  bool Sees(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }
  char Char(size_t offset = 0) const {
    return at_ + offset < source_.size() ? source_[at_ + offset] : '\0';
  }
  void Advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count),
                                         '\n'));
    at_ += count;
  }
  void Add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Data up to the next mark, cut at its end as the mark says.
  void AddData(std::string_view data, MarkKind next, char sign) {
    if (sign == '-') {
      data = StripRight(data);
    } else if (sign != '+' && next == MarkKind::kBlock) {
      const size_t newline = data.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool begins_line = newline != std::string_view::npos || begins_line_;
      if (begins_line && StripLeft(data.substr(line_start)).empty()) {
        data = data.substr(0, line_start);
      }
    }
    if (!data.empty()) Add(TokenKind::kData, std::string(data));
  }

  void LexData() {
    size_t mark = at_;
    while ((mark = source_.find('{', mark)) != std::string::npos) {
      const char next = mark + 1 < source_.size() ? source_[mark + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++mark;
    }
    if (mark == std::string::npos) {
      Add(TokenKind::kData, source_.substr(at_));
      at_ = source_.size();
      return;
    }
    const char kind = source_[mark + 1];
    const char sign = mark + 2 < source_.size() ? source_[mark + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    const std::string data = source_.substr(at_, mark - at_);
    AddData(data, kind == '{' ? MarkKind::kVariable : MarkKind::kBlock, sign);
    Advance(mark - at_);
    if (kind == '%' && LexRaw()) return;
    Advance(has_sign ? 3 : 2);
    if (kind == '#') {
      LexComment();
    } else {
      Add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
      LexCode(kind == '{' ? "}}" : "%}",
              kind == '{' ? TokenKind::kVariableEnd : TokenKind::kBlockEnd);
    }
  }

  // Behind a closing mark whose sign is `sign`. A newline behind a block belongs to it.
  void CloseMark(char sign, MarkKind kind) {
    const size_t before = at_;
    if (sign == '-') {
      const std::string_view rest = std::string_view(source_).substr(at_);
      Advance(rest.size() - StripLeft(rest).size());
    } else if (sign != '+' && kind == MarkKind::kBlock && Char() == '\n') {
      Advance(1);
    }
    begins_line_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void LexComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Refuse("a comment must be closed");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Advance(end + 2 - at_);
    CloseMark(sign, MarkKind::kBlock);
  }

  // {% raw %} … {% endraw %}; at_ is at its first mark. Returns false for any other block.
  bool LexRaw() {
    size_t at = at_ + 2;
    char sign = '\0';
    if (!ReadTag("raw", at, sign)) return false;
    Advance(at - at_);
    CloseMark(sign, MarkKind::kBlock);
    for (size_t mark = at_; (mark = source_.find("{%", mark)) != std::string::npos; mark += 2) {
      size_t end = mark + 2;
      char close_sign = '\0';
      if (!ReadTag("endraw", end, close_sign)) continue;
      AddData(std::string_view(source_).substr(at_, mark - at_), MarkKind::kBlock,
              source_[mark + 2]);
      Advance(end - at_);
      CloseMark(close_sign, MarkKind::kBlock);
      return true;
    }
    Refuse("a raw block must be closed");
  }

  // Reads "[-+] name [-+]%}" at `at`.
  bool ReadTag(std::string_view name, size_t& at, char& sign) const {
    const std::string_view all = source_;
    if (at < all.size() && (all[at] == '-' || all[at] == '+')) ++at;
    at = all.size() - StripLeft(all.substr(at)).size();
    if (!all.substr(at).starts_with(name)) return false;
    at += name.size();
    at = all.size() - StripLeft(all.substr(at)).size();
    if (at < all.size() && (all[at] == '-' || all[at] == '+')) sign = all[at++];
    if (!all.substr(at).starts_with("%}")) return false;
    at += 2;
    return true;
  }

  void LexCode(std::string_view end, TokenKind end_kind) {
    std::string brackets;
    while (true) {
      const std::string_view rest = std::string_view(source_).substr(at_);
      Advance(rest.size() - StripLeft(rest).size());
      if (at_ >= source_.size()) Refuse("a block must be closed");
      const bool has_sign = (Char() == '-' || Char() == '+') &&
                            std::string_view(source_).substr(at_ + 1).starts_with(end);
      if (has_sign || (brackets.empty() && Sees(end))) {
        const char sign = has_sign ? Char() : '\0';
        Advance(end.size() + (has_sign ? 1 : 0));
        Add(end_kind, "");
        return CloseMark(sign,
                         end_kind == TokenKind::kBlockEnd ? MarkKind::kBlock : MarkKind::kVariable);
      }
      LexToken(brackets);
    }
  }

  void LexToken(std::string& brackets) {
    const char c = Char();
    if (IsNameStart(c)) return LexName();
    if (IsDigit(c)) return LexNumber();
    if (c == '"' || c == '\'') return LexString();
    static constexpr std::array<std::string_view, 6> kTwo = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view two : kTwo) {
      if (Sees(two)) {
        Add(TokenKind::kOperator, std::string(two));
        return Advance(2);
      }
    }
    if (std::string_view("+-*/%~<>=.,:|()[]{}").find(c) == std::string_view::npos) {
      Refuse("a block must hold an expression");
    }
    if (c == '(' || c == '[' || c == '{') brackets += c;
    if (!brackets.empty() && (c == ')' || c == ']' || c == '}')) brackets.pop_back();
    Add(TokenKind::kOperator, std::string(1, c));
    Advance(1);
  }

  void LexName() {
    size_t length = 0;
    while (IsNameStart(Char(length)) || IsDigit(Char(length))) ++length;
    Add(TokenKind::kName, source_.substr(at_, length));
    Advance(length);
  }

  // 12, 1_000, 1.5, 2e3. "1.x" is an attribute of 1.
  void LexNumber() {
    std::string digits;
    size_t length = 0;
    const auto take = [&] {
      while (IsDigit(Char(length)) || (Char(length) == '_' && IsDigit(Char(length + 1)))) {
        if (Char(length) != '_') digits += Char(length);
        ++length;
      }
    };
    take();
    TokenKind kind = TokenKind::kInteger;
    if (Char(length) == '.' && IsDigit(Char(length + 1))) {
      kind = TokenKind::kFloat;
      digits += Char(length++);
      take();
    }
    const char e = Char(length);
    const size_t sign = Char(length + 1) == '-' || Char(length + 1) == '+' ? 1 : 0;
    if ((e == 'e' || e == 'E') && IsDigit(Char(length + 1 + sign))) {
      kind = TokenKind::kFloat;
      digits += source_.substr(at_ + length, 1 + sign);
      length += 1 + sign;
      take();
    }
    Add(kind, digits);
    Advance(length);
  }

  void LexString() {
    const char quote = Char();
    size_t length = 1;
    std::string text;
    while (Char(length) != quote) {
      if (at_ + length >= source_.size()) Refuse("a text must be closed");
      if (Char(length) == '\\') {
        length += LexEscape(length, text);
      } else {
        text += Char(length++);
      }
    }
    Add(TokenKind::kString, text);
    Advance(length + 1);
  }

  // Appends what the escape at `offset` means; returns its length.
  size_t LexEscape(size_t offset, std::string& text) const {
    const char c = Char(offset + 1);
    static constexpr std::string_view kFrom = "\\'\"abfnrtv0";
    static constexpr std::string_view kTo("\\'\"\a\b\f\n\r\t\v\0", 11);
    if (const size_t at = kFrom.find(c); c != '\0' && at != std::string_view::npos) {
      text += kTo[at];
      return 2;
    }
    if (c == '\n') return 2;  // a line that goes on
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char digit = Char(offset + 2 + i);
      const size_t value =
          std::string_view("0123456789abcdef")
              .find(static_cast<char>(digit | (digit >= 'A' && digit <= 'F' ? 0x20 : 0)));
      if (digit == '\0' || value == std::string_view::npos)
        Refuse("an escape must have hex digits");
      code = code * 16 + static_cast<uint32_t>(value);
    }
    if (digits == 0) {  // Python keeps the backslash of what is no escape
      text += '\\';
      return 1;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      Refuse("an escape must be a character");
    }
    AppendCharacter(static_cast<char32_t>(code), text);
    return 2 + digits;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;  // whether the data at at_ begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) { return Lexer(RepairUtf8(source)).Run(); }

}  // namespace opst::text::jinja
