// A SAX handler: vocabulary and merges go straight into vectors, the small rest into a tree, so
// that memory stays within a small multiple of the file's size.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/json_document.h"

#include <utility>

#include "base/check.h"
#include "text/quote.h"

namespace opst::text {
namespace {

using Json = nlohmann::json;

// Where the reader stands. The large tables are only special directly under the top-level "model".
enum class Place { kTree, kVocab, kMerges, kMergePair };

class Handler final : public nlohmann::json_sax<Json> {
 public:
  Handler(std::string_view file, const JsonLimits& limits) : file_(file), limits_(limits) {}

  JsonDocument Take() { return std::move(document_); }

  bool null() override { return Scalar(nullptr, "null"); }
  bool boolean(bool value) override { return Scalar(value, value ? "true" : "false"); }
  bool number_float(double value, const std::string& text) override { return Scalar(value, text); }
  bool number_integer(int64_t value) override { return Scalar(value, Concat(value)); }
  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::kVocab) return Scalar(value, Concat(value));
    OPST_CHECK_IO(value < limits_.max_entries, file_,
                  Concat("model.vocab ids must be below ", limits_.max_entries), value, " for ",
                  Quoted(key_));
    document_.vocab.emplace_back(std::move(key_), static_cast<int32_t>(value));
    return true;
  }
  bool string(std::string& value) override;
  bool binary(Json::binary_t&) override { return false; }  // not part of the text format

  bool start_object(size_t) override;
  bool key(std::string& name) override;
  bool end_object() override {
    if (place_ == Place::kVocab) {
      place_ = Place::kTree;
    } else {
      open_.pop_back();
    }
    return true;
  }
  bool start_array(size_t) override;
  bool end_array() override;

  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    // The library's text starts with its own name and number in brackets.
    std::string_view reason = error.what();
    const size_t bracket = reason.find("] ");
    if (bracket != std::string_view::npos) reason.remove_prefix(bracket + 2);
    ThrowIo(file_, "must be valid JSON", Concat(Quoted(reason), " at byte ", position));
  }

 private:
  bool IsTable(std::string_view name) const {
    return open_.size() == 2 && in_model_ && key_ == name;
  }

  void CheckToken(std::string_view field, std::string_view token) const {
    OPST_CHECK_IO(token.size() <= limits_.max_token_bytes, file_,
                  Concat(field, " must have tokens of at most ", limits_.max_token_bytes, " bytes"),
                  token.size(), " in ", Quoted(token));
  }

  void CheckRoomForMerge() const {
    OPST_CHECK_IO(document_.merges.size() < limits_.max_entries, file_,
                  Concat("model.merges must have at most ", limits_.max_entries, " entries"),
                  "more");
  }

  Json& Put(Json&& value);
  void Open(Json&& container);
  bool Scalar(Json value, std::string_view text);

  std::string_view file_;
  JsonLimits limits_;
  JsonDocument document_;
  std::vector<Json*> open_;  // containers of the tree around the next value, outermost first
  std::string key_;
  size_t num_values_ = 0;
  bool in_model_ = false;
  Place place_ = Place::kTree;
  size_t pair_size_ = 0;  // parts of the merge being read
};

Json& Handler::Put(Json&& value) {
  ++num_values_;
  OPST_CHECK_IO(num_values_ <= limits_.max_values, file_,
                Concat("must have at most ", limits_.max_values, " values besides the vocabulary"),
                "more");
  if (open_.empty()) return document_.root = std::move(value);
  Json& parent = *open_.back();
  if (parent.is_array()) {
    parent.push_back(std::move(value));
    return parent.back();
  }
  return parent[key_] = std::move(value);
}

void Handler::Open(Json&& container) {
  OPST_CHECK_IO(open_.size() < limits_.max_depth, file_,
                Concat("must not be nested deeper than ", limits_.max_depth), "more");
  if (open_.size() == 1) in_model_ = open_[0]->is_object() && key_ == "model";
  open_.push_back(&Put(std::move(container)));
}

bool Handler::Scalar(Json value, std::string_view text) {
  OPST_CHECK_IO(place_ != Place::kVocab, file_,
                Concat("model.vocab ids must be integers from 0 to ", limits_.max_entries - 1),
                text, " for ", Quoted(key_));
  OPST_CHECK_IO(place_ == Place::kTree, file_,
                "model.merges must hold strings \"a b\" or pairs of strings", text, " as entry ",
                document_.merges.size());
  Put(std::move(value));
  return true;
}

bool Handler::string(std::string& value) {
  if (place_ == Place::kTree || place_ == Place::kVocab) {
    return place_ == Place::kTree ? Scalar(std::move(value), "") : Scalar(nullptr, Quoted(value));
  }
  CheckToken("model.merges", value);
  if (place_ == Place::kMergePair) {
    OPST_CHECK_IO(pair_size_ < 2, file_, "model.merges must hold pairs of two strings",
                  "more in entry ", document_.merges.size() - 1);
    auto& [left, right] = document_.merges.back();
    (pair_size_++ == 0 ? left : right) = std::move(value);
    return true;
  }
  // Files made from merges.txt may begin with its version line.
  if (value.rfind("#version", 0) == 0) return true;
  const size_t space = value.find(' ');
  OPST_CHECK_IO(space != std::string::npos && value.find(' ', space + 1) == std::string::npos,
                file_, "model.merges must hold strings with one space, or pairs", Quoted(value),
                " as entry ", document_.merges.size());
  CheckRoomForMerge();
  document_.merges.emplace_back(value.substr(0, space), value.substr(space + 1));
  return true;
}

bool Handler::start_object(size_t) {
  if (place_ == Place::kVocab || place_ == Place::kMerges || place_ == Place::kMergePair) {
    return Scalar(nullptr, "an object");
  }
  if (IsTable("vocab")) {
    Put(nullptr);
    place_ = Place::kVocab;
  } else {
    Open(Json::object());
  }
  return true;
}

bool Handler::key(std::string& name) {
  if (place_ == Place::kVocab) {
    CheckToken("model.vocab", name);
    OPST_CHECK_IO(document_.vocab.size() < limits_.max_entries, file_,
                  Concat("model.vocab must have at most ", limits_.max_entries, " tokens"), "more");
  } else {
    OPST_CHECK_IO(!open_.back()->contains(name), file_, "must not name a key of an object twice",
                  Quoted(name));
  }
  key_ = std::move(name);
  return true;
}

bool Handler::start_array(size_t) {
  if (place_ == Place::kMerges) {
    place_ = Place::kMergePair;
    pair_size_ = 0;
    CheckRoomForMerge();
    document_.merges.emplace_back();
  } else if (place_ != Place::kTree) {
    Scalar(nullptr, "an array");
  } else if (IsTable("merges")) {
    Put(nullptr);
    place_ = Place::kMerges;
  } else {
    Open(Json::array());
  }
  return true;
}

bool Handler::end_array() {
  switch (place_) {
    case Place::kMergePair:
      OPST_CHECK_IO(pair_size_ == 2, file_, "model.merges must hold pairs of two strings",
                    pair_size_, " in entry ", document_.merges.size() - 1);
      place_ = Place::kMerges;
      break;
    case Place::kMerges:
      place_ = Place::kTree;
      break;
    default:
      open_.pop_back();
  }
  return true;
}

}  // namespace

JsonDocument ReadJsonDocument(std::string_view json, std::string_view file,
                              const JsonLimits& limits) {
  OPST_CHECK_IO(json.size() <= limits.max_bytes, file,
                Concat("must have at most ", limits.max_bytes, " bytes"), json.size());
  Handler handler(file, limits);
  Json::sax_parse(json.begin(), json.end(), &handler);
  return handler.Take();
}

}  // namespace opst::text
