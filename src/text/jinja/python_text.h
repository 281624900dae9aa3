// Python's view of texts: characters, blanks, repr, slices. UTF-8 inside; broken bytes are
// repaired.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_JINJA_PYTHON_TEXT_H_
#define OPST_TEXT_JINJA_PYTHON_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opst::text::jinja {

// Texts must be valid UTF-8.
std::vector<std::string> Characters(std::string_view text);
int64_t CountCharacters(std::string_view text);

// str.isspace of one character.
bool IsBlank(char32_t character);
// Without blanks, or characters of `set`, on the sides asked for.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
std::string_view StripLeft(std::string_view text, std::string_view set);
std::string_view StripRight(std::string_view text, std::string_view set);

// repr(): quotes and escapes. Every character from U+00A1 on counts as printable but U+00AD.
std::string PythonRepr(std::string_view text);

// Upper and lower case of every character.
std::string UpperCase(std::string_view text);
std::string LowerCase(std::string_view text);
// First character of the text, or of every word, in upper case, the others in lower case.
std::string Capitalized(std::string_view text);
std::string TitleCase(std::string_view text);

}  // namespace opst::text::jinja

#endif  // OPST_TEXT_JINJA_PYTHON_TEXT_H_
