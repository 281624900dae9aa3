// 64-bit checksums (XXH3) that notice damaged or swapped data; no protection against an attacker.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_IO_CHECKSUM_H_
#define OPST_IO_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace opst {

// XXH3 with 64 bits and seed 0, fed in pieces; how the bytes are cut does not matter.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  // Of everything so far; Update may go on afterwards.
  uint64_t Value() const;
  // 16 lower-case hexadecimal digits, most significant first.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t ChecksumOf(std::span<const std::byte> bytes);
std::string ChecksumHex(uint64_t value);

}  // namespace opst

#endif  // OPST_IO_CHECKSUM_H_
