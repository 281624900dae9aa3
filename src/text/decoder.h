// The "decoder" of a tokenizer.json: tokens to text, piece by piece; does not know ids.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TEXT_DECODER_H_
#define OPST_TEXT_DECODER_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/json_fields.h"
#include "text/pattern.h"

namespace opst::text {

// Where tokens go: a stage of the decoder or the text at its end.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Push(std::string_view token) = 0;
  virtual void Finish() = 0;  // no token follows; held back bytes go on
};

// The space that a tokenizer may have put in front of a text.
enum class FirstSpace { kKept, kDropped };

// One run through the decoder. Whole and streamed decoding are the same run, so they cannot differ.
class DecodePipeline {
 public:
  void Push(std::string_view token) { first_->Push(token); }
  void Finish() { first_->Finish(); }
  // What came out since the last call: valid UTF-8.
  std::string Take();

 private:
  friend class Decoder;
  struct End;
  std::vector<std::unique_ptr<TokenSink>> sinks_;  // the last one is `end_`
  TokenSink* first_ = nullptr;
  End* end_ = nullptr;
};

class Decoder {
 public:
  // `value` may be nullptr: tokens joined by spaces.
  static Decoder Read(const nlohmann::json* value, std::string_view file);

  // Must not outlive the decoder.
  std::unique_ptr<DecodePipeline> Start() const;

 private:
  struct Join {};  // what the absence of a decoder means
  struct ByteLevel {};
  struct ByteFallback {};
  struct Strip {
    char32_t content;
    size_t start;
    bool fused;  // the tokens before it are one text: only that text's beginning is stripped
  };
  struct Metaspace {
    char32_t replacement;
    FirstSpace first;
  };
  using Step = std::variant<Join, ByteLevel, ByteFallback, Strip, Metaspace, Replacement>;

  void ReadStep(const nlohmann::json& value, const std::string& path, std::string_view file);
  Step ReadStrip(Fields& fields) const;

  std::vector<Step> steps_;  // sequences are flattened
  bool fused_ = false;       // while reading: all tokens have become one text
};

}  // namespace opst::text

#endif  // OPST_TEXT_DECODER_H_
