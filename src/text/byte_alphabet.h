// The 256 printable characters that stand for bytes in byte-level vocabularies; not an encoding of
// text. Bytes that are printable in Latin-1 stand for themselves, the others for U+0100 and up in
// ascending order, so that no token contains a space or a control character.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_BYTE_ALPHABET_H_
#define OPST_TEXT_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace opst::text {

char32_t ByteToCharacter(uint8_t byte);
std::optional<uint8_t> CharacterToByte(char32_t character);

// Appends one character per byte.
void AppendBytesAsCharacters(std::string_view bytes, std::string& text);

// The reverse. A token with any character from outside the alphabet stands for its own UTF-8.
void AppendCharactersAsBytes(std::string_view token, std::string& bytes);

}  // namespace opst::text

#endif  // OPST_TEXT_BYTE_ALPHABET_H_
