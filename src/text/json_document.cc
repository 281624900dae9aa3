// An event reader: vocabulary and merges go straight into vectors, the small rest into a tree, so
// that memory stays within a small multiple of the file's size.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/json_document.h"

#include "base/check.h"
#include "base/json_events.h"
#include "io/quote.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;

// Where the reader stands. The large tables are only special directly under the top-level "model".
enum class Table { kNone, kVocab, kMerges, kMergePair };

class Reader final : public JsonEvents {
 public:
  Reader(std::string_view file, const JsonLimits& limits)
      : JsonEvents(std::string(file)), limits_(limits) {}

  JsonDocument Take() { return std::move(document_); }

  bool null() override { return Scalar(nullptr, "null"); }
  bool boolean(bool value) override { return Scalar(value, value ? "true" : "false"); }
  bool number_float(number_float_t value, const string_t& text) override {
    return Scalar(value, text);
  }
  bool number_integer(number_integer_t value) override { return Scalar(value, Concat(value)); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool start_object(size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;

 private:
  std::string Place() const override;

  bool Opens(std::string_view table) const {
    return table_ == Table::kNone && open_.size() == 2 && in_model_ && key_ == table;
  }
  void CheckToken(std::string_view token) const {
    if (token.size() > limits_.max_token_bytes) {
      Fail(Concat("a token must have at most ", limits_.max_token_bytes, " bytes"), Quote(token));
    }
  }
  void AddMerge(std::string left, std::string right);
  Json& Put(Json&& value);
  bool Open(Json&& container);
  bool Scalar(Json value, std::string_view text);

  JsonLimits limits_;
  JsonDocument document_;
  std::vector<Json*> open_;        // containers of the tree around the next value, outermost first
  std::vector<std::string> path_;  // their keys
  std::string key_;                // of the next value; the last one seen inside an array
  size_t num_values_ = 0;
  bool in_model_ = false;
  Table table_ = Table::kNone;
  size_t pair_size_ = 0;  // parts of the merge being read
};

std::string Reader::Place() const {
  if (table_ == Table::kVocab) return Concat("model.vocab, token ", Quote(key_));
  if (table_ != Table::kNone) return Concat("model.merges, entry ", document_.merges.size());
  std::string place;
  for (const std::string& part : path_) place += part + ".";
  return place.empty() && key_.empty() ? "the beginning" : Quote(place + key_);
}

void Reader::AddMerge(std::string left, std::string right) {
  if (document_.merges.size() == limits_.max_entries) {
    Fail(Concat("there must be at most ", limits_.max_entries, " merges"), "one more");
  }
  document_.merges.emplace_back(std::move(left), std::move(right));
}

Json& Reader::Put(Json&& value) {
  if (++num_values_ > limits_.max_values) {
    Fail(Concat("there must be at most ", limits_.max_values, " values besides the vocabulary"),
         "one more");
  }
  if (open_.empty()) return document_.root = std::move(value);
  Json& parent = *open_.back();
  if (parent.is_array()) return parent.emplace_back(std::move(value));
  return parent[key_] = std::move(value);
}

bool Reader::Open(Json&& container) {
  if (open_.size() == limits_.max_depth) {
    Fail(Concat("values must not be nested deeper than ", limits_.max_depth), "one level more");
  }
  if (open_.size() == 1) in_model_ = open_[0]->is_object() && key_ == "model";
  Json* const opened = &Put(std::move(container));
  if (!open_.empty()) path_.push_back(key_);
  open_.push_back(opened);
  return true;
}

bool Reader::Scalar(Json value, std::string_view text) {
  if (table_ == Table::kVocab) {
    Fail(Concat("ids must be integers from 0 to ", limits_.max_entries - 1), text);
  }
  if (table_ != Table::kNone) {
    Fail("merges must be strings with one space in them or pairs of strings", text);
  }
  Put(std::move(value));
  return true;
}

bool Reader::number_unsigned(number_unsigned_t value) {
  if (table_ != Table::kVocab || value >= limits_.max_entries) return Scalar(value, Concat(value));
  document_.vocab.emplace_back(std::move(key_), static_cast<int32_t>(value));
  return true;
}

bool Reader::string(string_t& value) {
  if (table_ == Table::kNone) return Scalar(std::move(value), "");
  if (table_ == Table::kVocab) return Scalar(nullptr, Quote(value));
  CheckToken(value);
  if (table_ == Table::kMergePair) {
    if (pair_size_ == 2) Scalar(nullptr, "more than a pair");
    auto& [left, right] = document_.merges.back();
    (pair_size_++ == 0 ? left : right) = std::move(value);
    return true;
  }
  // Files made from merges.txt may begin with its version line.
  if (value.rfind("#version", 0) == 0) return true;
  const size_t space = value.find(' ');
  const bool one = space != std::string::npos && value.find(' ', space + 1) == std::string::npos;
  if (!one) Scalar(nullptr, Quote(value));
  AddMerge(value.substr(0, space), value.substr(space + 1));
  return true;
}

bool Reader::start_object(size_t) {
  if (table_ != Table::kNone) return Scalar(nullptr, "an object");
  if (!Opens("vocab")) return Open(Json::object());
  Put(nullptr);
  table_ = Table::kVocab;
  return true;
}

bool Reader::key(string_t& name) {
  if (table_ == Table::kVocab) {
    CheckToken(name);
    if (document_.vocab.size() == limits_.max_entries) {
      Fail(Concat("there must be at most ", limits_.max_entries, " tokens"), "one more");
    }
  } else if (open_.back()->contains(name)) {
    Fail("an object must not have a key twice", Quote(name));
  }
  key_ = std::move(name);
  return true;
}

bool Reader::end_object() {
  if (table_ == Table::kVocab) {
    table_ = Table::kNone;
  } else {
    open_.pop_back();
    if (!path_.empty()) path_.pop_back();
  }
  return true;
}

bool Reader::start_array(size_t) {
  if (table_ == Table::kMerges) {
    AddMerge("", "");
    table_ = Table::kMergePair;
    pair_size_ = 0;
    return true;
  }
  if (table_ != Table::kNone) return Scalar(nullptr, "an array");
  if (!Opens("merges")) return Open(Json::array());
  Put(nullptr);
  table_ = Table::kMerges;
  return true;
}

bool Reader::end_array() {
  if (table_ == Table::kMergePair) {
    if (pair_size_ != 2) Scalar(nullptr, Concat("an array of ", pair_size_));
    table_ = Table::kMerges;
  } else if (table_ == Table::kMerges) {
    table_ = Table::kNone;
  } else {
    open_.pop_back();
    if (!path_.empty()) path_.pop_back();
  }
  return true;
}

}  // namespace

JsonDocument ReadJsonDocument(std::string_view json, std::string_view file,
                              const JsonLimits& limits) {
  OPST_CHECK_IO(json.size() <= limits.max_bytes, file,
                Concat("must have at most ", limits.max_bytes, " bytes"), json.size());
  Reader reader(file, limits);
  ParseJsonEvents(json, reader, std::string(file));
  return reader.Take();
}

}  // namespace opst::text
