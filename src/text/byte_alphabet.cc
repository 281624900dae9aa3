// Tables between bytes and the byte-level alphabet, computed at compile time.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <array>
#include <cstddef>

#include "text/utf8.h"

namespace opst::text {
namespace {

constexpr size_t kNumBytes = 256;
constexpr size_t kMaxCharacter = 0x144;  // 256 + the 68 bytes that are not printable

constexpr bool IsPrintable(size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::array<uint16_t, kNumBytes> MakeByteToCharacter() {
  std::array<uint16_t, kNumBytes> table{};
  size_t next = 0x100;
  for (size_t byte = 0; byte < kNumBytes; ++byte) {
    table[byte] = static_cast<uint16_t>(IsPrintable(byte) ? byte : next++);
  }
  return table;
}

constexpr std::array<uint16_t, kNumBytes> kByteToCharacter = MakeByteToCharacter();

constexpr std::array<int16_t, kMaxCharacter> MakeCharacterToByte() {
  std::array<int16_t, kMaxCharacter> table{};
  for (int16_t& entry : table) entry = -1;
  for (size_t byte = 0; byte < kNumBytes; ++byte) {
    table[kByteToCharacter[byte]] = static_cast<int16_t>(byte);
  }
  return table;
}

constexpr std::array<int16_t, kMaxCharacter> kCharacterToByte = MakeCharacterToByte();

}  // namespace

char32_t ByteToCharacter(uint8_t byte) { return kByteToCharacter[byte]; }

std::optional<uint8_t> CharacterToByte(char32_t character) {
  if (character >= kMaxCharacter || kCharacterToByte[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kCharacterToByte[character]);
}

void AppendBytesAsCharacters(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) AppendCharacter(ByteToCharacter(static_cast<uint8_t>(byte)), text);
}

void AppendCharactersAsBytes(std::string_view token, std::string& bytes) {
  const size_t start = bytes.size();
  for (size_t position = 0; position < token.size();) {
    const std::optional<uint8_t> byte = CharacterToByte(ReadCharacter(token, position));
    if (!byte) {
      bytes.resize(start);
      bytes += token;
      return;
    }
    bytes.push_back(static_cast<char>(*byte));
  }
}

}  // namespace opst::text
