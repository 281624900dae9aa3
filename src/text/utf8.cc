// UTF-8 reading, writing and repairing by the table of well-formed byte sequences; no tables of
// character properties.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <cstdint>

namespace opst::text {
namespace {

uint8_t ByteAt(std::string_view bytes, size_t position) {
  return static_cast<uint8_t>(bytes[position]);
}

struct LeadByte {
  size_t length;      // bytes of the character; 0 = cannot begin one
  uint8_t low, high;  // what the second byte may be: excludes overlong forms and surrogates
};

LeadByte ClassifyLead(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Piece NextUtf8Piece(std::string_view bytes, size_t position) {
  const LeadByte lead = ClassifyLead(ByteAt(bytes, position));
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (position + i == bytes.size()) return {Utf8Kind::kTruncated, i};
    const uint8_t byte = ByteAt(bytes, position + i);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kCharacter, lead.length};
}

bool IsValidUtf8(std::string_view bytes) {
  for (size_t position = 0; position < bytes.size();) {
    const Utf8Piece piece = NextUtf8Piece(bytes, position);
    if (piece.kind != Utf8Kind::kCharacter) return false;
    position += piece.length;
  }
  return true;
}

std::string RepairUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t position = 0; position < bytes.size();) {
    const Utf8Piece piece = NextUtf8Piece(bytes, position);
    text += piece.kind == Utf8Kind::kCharacter ? bytes.substr(position, piece.length)
                                               : kReplacementCharacter;
    position += piece.length;
  }
  return text;
}

char32_t ReadCharacter(std::string_view text, size_t& position) {
  const uint8_t lead = ByteAt(text, position++);
  if (lead < 0x80) return lead;
  const int continuation = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t character = lead & (0x3Fu >> continuation);
  for (int i = 0; i < continuation; ++i) {
    character = character << 6 | (ByteAt(text, position++) & 0x3Fu);
  }
  return character;
}

char32_t ReadCharacterBackward(std::string_view text, size_t& position) {
  do {
    --position;
  } while ((ByteAt(text, position) & 0xC0u) == 0x80u);
  size_t forward = position;
  return ReadCharacter(text, forward);
}

void AppendCharacter(char32_t character, std::string& text) {
  const auto put = [&text](char32_t bits) { text.push_back(static_cast<char>(bits)); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6);
    put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  }
}

}  // namespace opst::text
