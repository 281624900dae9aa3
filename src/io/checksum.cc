// 64-bit checksums (XXH3) that notice damaged or swapped data; no protection against an attacker.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checksum.h"

// The header alone is enough: no library to link, and none that an installed copy would need.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace opst {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::Update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

uint64_t Checksum::Value() const { return XXH3_64bits_digest(&state_->xxh3); }

std::string Checksum::Hex() const { return ChecksumHex(Value()); }

uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string ChecksumHex(uint64_t value) {
  std::string hex(16, '0');
  for (size_t i = hex.size(); i-- > 0; value >>= 4) hex[i] = "0123456789abcdef"[value & 15];
  return hex;
}

}  // namespace opst
