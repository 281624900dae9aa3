// Values as JSON and numbers as text, character for character as Python writes them.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/value.h"

namespace opst::text::jinja {
namespace {

void AppendQuoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (byte >= 0x20) {
          out += c;
        } else {
          std::array<char, 8> escape{};
          std::snprintf(escape.data(), escape.size(), "\\u%04x", byte);
          out += escape.data();
        }
    }
  }
  out += '"';
}

class JsonWriter {
 public:
  JsonWriter(int64_t indent, Budget& budget) : indent_(indent), budget_(budget) {}

  void Write(const Value& value, int64_t depth) {
    budget_.Step();
    const size_t before = out_.size();
    if (const std::string* text = value.text()) {
      AppendQuoted(*text, out_);
    } else if (const List* list = value.list()) {
      WriteItems('[', ']', list->items, depth, [&](const Value& item) { Write(item, depth + 1); });
    } else if (const Dict* dict = value.dict()) {
      WriteItems('{', '}', dict->items, depth, [&](const auto& item) {
        AppendQuoted(item.first, out_);
        out_ += ": ";
        Write(item.second, depth + 1);
      });
    } else {
      WriteScalar(value);
    }
    budget_.Bytes(out_.size() - before);
  }
  std::string Take() { return std::move(out_); }

 private:
  void WriteScalar(const Value& value) {
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.IsTrue() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.ToInt("a number"));
    } else if (value.is_float()) {
      const double number = value.ToDouble("a number");
      out_ += std::isnan(number)   ? "NaN"
              : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                   : FloatText(number);
    } else {
      Fail("tojson needs a value that JSON has", value.Describe());
    }
  }

  void NewLine(int64_t depth) {
    if (indent_ < 0) return;
    budget_.Bytes(static_cast<uint64_t>(depth), static_cast<uint64_t>(indent_));
    out_ += '\n';
    out_.append(static_cast<size_t>(depth * indent_), ' ');
  }

  template <typename Items, typename WriteItem>
  void WriteItems(char open, char close, const Items& items, int64_t depth, WriteItem write) {
    if (depth > 200) Fail("tojson needs a value that is not so deep", "more than 200 levels");
    out_ += open;
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) out_ += indent_ < 0 ? ", " : ",";
      is_first = false;
      NewLine(depth + 1);
      write(item);
    }
    if (!is_first) NewLine(depth);
    out_ += close;
  }

  int64_t indent_;
  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string ToJson(const Value& value, int64_t indent, Budget& budget) {
  JsonWriter writer(indent, budget);
  writer.Write(value, 0);
  return writer.Take();
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer{};
  const double magnitude = std::fabs(value);
  // Python writes exponents outside 1e-4 … 1e16.
  const bool is_plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (is_plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace opst::text::jinja
