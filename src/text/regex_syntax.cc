// Reads an Oniguruma pattern and writes the PCRE2 pattern with the same meaning, or refuses it.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/regex_syntax.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/regex_scanner.h"

namespace opst::text {
namespace {

constexpr size_t kMaxDepth = 100;
constexpr unsigned kMaxRepeat = 1000;

class Translator {
 public:
  Translator(const RegexSource& source, YoungCodePoints young) : in_(source, young) {}

  std::string Run() {
    // In the middle of a pattern an option reaches to the end of the group in Oniguruma, to the
    // next | in PCRE2. At the start that is the same.
    if (in_.Accept("(?i)")) {
      caseless_ = true;
      out_ += "(?i)";
    }
    while (!in_.AtEnd()) Item();
    if (!groups_.empty()) in_.Refuse("a group without its end");
    return std::move(out_);
  }

 private:
  struct Group {
    bool caseless_outside;
    bool repeatable;  // look-arounds are not
  };
  enum class Before { kNothing, kItem, kQuantifier };  // what a quantifier would refer to

  void Emit(std::string_view text, Before before = Before::kItem) {
    out_ += text;
    before_ = before;
    literal_ = 0;
  }

  void Item() {
    const char32_t character = in_.Next();
    switch (character) {
      case '*':
      case '+':
      case '?':
        return Quantifier(static_cast<char>(character));
      case '{':
        return Interval();
      case '(':
        return OpenGroup();
      case ')':
        return CloseGroup();
      case '[':
        return Class();
      case '\\':
        return Escape();
      case '|':
        return Emit("|", Before::kNothing);
      case '^':
        return Emit("^", Before::kNothing);
      case '$':
        return Emit("$", Before::kNothing);
      case '.':
        return Emit(".");
      default:
        return Literal(character);
    }
  }

  void RequireItem() const {
    if (before_ != Before::kItem) in_.Refuse("a quantifier without anything to repeat");
  }

  void Quantifier(char quantifier) {
    RequireItem();
    out_ += quantifier;
    const char* suffix = in_.Accept("?") ? "?" : in_.Accept("+") ? "+" : "";
    Emit(suffix, Before::kQuantifier);
  }

  // Behind "{". What does not read as {n}, {n,}, {,m} or {n,m} is a literal brace in both syntaxes.
  void Interval() {
    const std::string_view start = in_.rest();
    const std::optional<unsigned> low = in_.Number();
    const bool comma = in_.Accept(",");
    const std::optional<unsigned> high = comma ? in_.Number() : low;
    if (!in_.Accept("}") || (!low && !high)) {
      in_.Reset(start);
      return Literal('{');
    }
    RequireItem();
    const unsigned least = low.value_or(0);
    if (least > kMaxRepeat || high.value_or(0) > kMaxRepeat) in_.Refuse("a count above 1000");
    if (high && least > *high) in_.Refuse("an interval {n,m} with n > m");
    out_ += Concat("{", least, comma ? "," : "");
    if (comma && high) out_ += Concat(*high);
    Emit("}", Before::kQuantifier);
    if (in_.Accept("+")) in_.Refuse("{n,m}+, which repeats here and is possessive elsewhere");
    if (in_.Accept("?")) {
      if (!comma) in_.Refuse("{n}?, which is optional here and lazy elsewhere");
      Emit("?", Before::kQuantifier);
    }
  }

  void OpenGroup() {
    if (groups_.size() == kMaxDepth) in_.Refuse("groups nested deeper than 100");
    groups_.push_back({caseless_, true});
    if (!in_.Accept("?")) {
      if (in_.NextIs("*")) in_.Refuse("(*VERB)");
      Emit("(?:", Before::kNothing);  // nobody asks what a group captured
    } else if (in_.Accept(":")) {
      Emit("(?:", Before::kNothing);
    } else if (in_.Accept(">")) {
      Emit("(?>", Before::kNothing);
    } else if (in_.Accept("i:")) {
      caseless_ = true;
      Emit("(?i:", Before::kNothing);
    } else if (in_.Accept("-i:")) {
      caseless_ = false;
      Emit("(?-i:", Before::kNothing);
    } else {
      LookAround();
    }
  }

  void LookAround() {
    for (const std::string_view kind : {"=", "!", "<=", "<!"}) {
      if (!in_.Accept(kind)) continue;
      groups_.back().repeatable = false;
      return Emit(Concat("(?", kind), Before::kNothing);
    }
    in_.Refuse("a group other than (?: (?> (?= (?! (?<= (?<! (?i: (?-i:");
  }

  void CloseGroup() {
    if (groups_.empty()) in_.Refuse("a ) without its (");
    Emit(")", groups_.back().repeatable ? Before::kItem : Before::kNothing);
    caseless_ = groups_.back().caseless_outside;
    groups_.pop_back();
  }

  void Escape() {
    const char32_t kind = in_.Next();
    const std::optional<RegexSet> set = in_.Set(kind);
    if (!set) return Literal(in_.EscapedCharacter(kind));
    CheckCaselessSet(kind);
    Emit(set->alone);
  }

  void Literal(char32_t character) {
    const char32_t previous = literal_;
    Emit(RegexCharacter(character));
    literal_ = character;
    if (!caseless_) return;
    CheckCaseless(character);
    // Oniguruma lets "ss" match one U+00DF and "fi" one ligature; PCRE2 folds character by
    // character.
    const auto is = [](char32_t c, char letter) {
      return (c | 0x20) == static_cast<char32_t>(letter);
    };
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (is(previous, pair[0]) && is(character, pair[1])) {
        in_.Refuse(Concat("\"", pair, "\" without regard to case"));
      }
    }
  }

  // Foldings of other letters and of properties differ between the two.
  void CheckCaseless(char32_t character) const {
    if (caseless_ && character >= 0x80) in_.Refuse("letters beyond ASCII without regard to case");
  }
  void CheckCaselessSet(char32_t kind) const {
    if (caseless_ && kind != 's' && kind != 'S' && kind != 'd') {
      in_.Refuse("\\w, \\p and opposites without regard to case");
    }
  }

  // Behind "[".
  void Class() {
    std::string items;
    const bool negated = in_.Accept("^");
    if (negated && caseless_) in_.Refuse("[^...] without regard to case");
    if (in_.NextIs("]")) in_.Refuse("a ] directly behind [ or [^");
    while (!in_.Accept("]")) ClassItem(items);
    Emit(Concat(negated ? "[^" : "[", items, "]"));
  }

  void ClassItem(std::string& items) {
    if (in_.Accept("&&")) in_.Refuse("&& inside a class");
    const bool first = items.empty();
    const bool dash = in_.NextIs("-");
    const std::optional<char32_t> low = ClassCharacter(&items);
    if (!low) return;
    if (dash && !first && !in_.NextIs("]")) in_.Refuse("a - inside a class that joins nothing");
    items += RegexCharacter(*low);
    if (!in_.NextIs("-") || in_.NextIs("-]")) return;
    in_.Accept("-");
    const std::optional<char32_t> high = ClassCharacter(nullptr);
    if (*high < *low) in_.Refuse("a range that runs backwards");
    items += "-" + RegexCharacter(*high);
  }

  // One character of a class. A set (\s ...) goes to `sets`, where it is allowed, and gives
  // nothing.
  std::optional<char32_t> ClassCharacter(std::string* sets) {
    char32_t character = in_.Next();
    if (character == '[') in_.Refuse("a class or [:name:] inside a class");
    if (character == '\\') {
      const char32_t kind = in_.Next();
      if (const std::optional<RegexSet> set = in_.Set(kind)) {
        CheckCaselessSet(kind);
        if (sets == nullptr) in_.Refuse("a range that ends with a set");
        if (set->in_class.empty()) in_.Refuse("\\D, \\W or \\P inside a class");
        *sets += set->in_class;
        return std::nullopt;
      }
      character = in_.EscapedCharacter(kind);
    }
    CheckCaseless(character);
    return character;
  }

  RegexScanner in_;
  std::string out_;
  std::vector<Group> groups_;
  bool caseless_ = false;
  Before before_ = Before::kNothing;
  char32_t literal_ = 0;  // the character directly before; 0 = something else
};

}  // namespace

std::string TranslateRegex(const RegexSource& source, YoungCodePoints young) {
  return Translator(source, young).Run();
}

}  // namespace opst::text
