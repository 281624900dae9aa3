// Small text helpers on ASCII; anything that knows Unicode lives in text/.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace opst {
namespace {

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

constexpr std::array<std::string_view, 5> kByteUnits = {"B", "KB", "MB", "GB", "TB"};

// The exponent of 1024, or nothing for a word that is no unit.
std::optional<size_t> UnitExponent(std::string_view unit) {
  if (unit.empty()) return 0;
  const std::string lower = ToLower(unit);
  for (size_t exponent = 0; exponent < kByteUnits.size(); ++exponent) {
    const std::string name = ToLower(kByteUnits[exponent]);
    if (lower == name) return exponent;
    if (exponent > 0 && (lower == name.substr(0, 1) || lower == name.substr(0, 1) + "ib")) {
      return exponent;
    }
  }
  return std::nullopt;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> cells((a.size() + 1) * width);
  for (size_t i = 0; i <= a.size(); ++i) cells[i * width] = i;
  for (size_t j = 0; j <= b.size(); ++j) cells[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = cells[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      size_t best =
          std::min({replaced, cells[(i - 1) * width + j] + 1, cells[i * width + j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, cells[(i - 2) * width + j - 2] + 1);
      }
      cells[i * width + j] = best;
    }
  }
  return cells.back();
}

}  // namespace

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (Trim(text).empty()) return parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(Trim(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int64_t> ParseInt(std::string_view text) { return ParseNumber<int64_t>(text); }

std::optional<double> ParseFloat(std::string_view text) {
  const std::optional<double> value = ParseNumber<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::optional<size_t> ParseBytes(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits);
  const std::optional<size_t> exponent = UnitExponent(Trim(text.substr(digits)));
  if (!exponent) return std::nullopt;
  const size_t shift = 10 * *exponent;
  if (const std::optional<int64_t> whole = ParseInt(number)) {
    const auto value = static_cast<uint64_t>(*whole);
    if (value > (uint64_t{1} << 63) >> shift) return std::nullopt;
    return static_cast<size_t>(value << shift);
  }
  const std::optional<double> fraction = ParseFloat(number);
  if (!fraction) return std::nullopt;
  const double bytes = std::ldexp(*fraction, static_cast<int>(shift));
  if (bytes >= 0x1p63) return std::nullopt;
  return static_cast<size_t>(bytes);
}

std::string FormatBytes(size_t bytes) {
  size_t exponent = 0;
  while (exponent + 1 < kByteUnits.size() && bytes >> (10 * (exponent + 1)) != 0) ++exponent;
  const double value = std::ldexp(static_cast<double>(bytes), -static_cast<int>(10 * exponent));
  const bool is_whole = bytes == (bytes >> (10 * exponent)) << (10 * exponent);
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                          std::chars_format::fixed, is_whole ? 0 : 2);
  return Concat(std::string_view(digits.data(), static_cast<size_t>(end - digits.data())), " ",
                kByteUnits[exponent]);
}

std::string_view NearestName(std::string_view word, std::span<const std::string_view> names) {
  // Bounds the table for words of hostile length; no name is longer.
  word = word.substr(0, 256);
  std::string_view nearest;
  size_t smallest = 0;
  for (const std::string_view name : names) {
    const size_t distance = EditDistance(word, name);
    if (nearest.empty() || distance < smallest) {
      nearest = name;
      smallest = distance;
    }
  }
  return nearest;
}

std::string_view CloseName(std::string_view word, std::span<const std::string_view> names) {
  const std::string_view nearest = NearestName(word, names);
  const size_t longer = std::max(word.size(), nearest.size());
  return 3 * EditDistance(word.substr(0, 256), nearest) <= longer ? nearest : std::string_view();
}

}  // namespace opst
