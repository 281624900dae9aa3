// The stages of decoders, one small class each.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "text/decoder_stages.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

constexpr size_t kMaxReplacedToken = 1 << 20;

class Stage : public TokenSink {
 public:
  explicit Stage(TokenSink& next) : next_(next) {}
  void Finish() override { next_.Finish(); }

 protected:
  TokenSink& next_;
};

class JoinStage final : public Stage {
 public:
  using Stage::Stage;
  void Push(std::string_view token) override {
    if (!first_) next_.Push(" ");
    first_ = false;
    next_.Push(token);
  }

 private:
  bool first_ = true;
};

class ByteLevelStage final : public Stage {
 public:
  using Stage::Stage;
  void Push(std::string_view token) override {
    AppendCharactersAsBytes(token, bytes_);
    size_t certain = 0;
    while (certain < bytes_.size()) {
      const Utf8Piece piece = NextUtf8Piece(bytes_, certain);
      if (piece.kind == Utf8Kind::kTruncated) break;
      certain += piece.length;
    }
    Emit(certain);
  }
  void Finish() override {
    Emit(bytes_.size());
    next_.Finish();
  }

 private:
  void Emit(size_t length) {
    if (length == 0) return;
    next_.Push(RepairUtf8(std::string_view(bytes_).substr(0, length)));
    bytes_.erase(0, length);
  }

  std::string bytes_;  // between pushes at most three
};

class ByteFallbackStage final : public Stage {
 public:
  using Stage::Stage;
  void Push(std::string_view token) override {
    if (const std::optional<uint8_t> byte = ByteOf(token)) {
      run_.push_back(static_cast<char>(*byte));
      return;
    }
    EndRun();
    next_.Push(token);
  }
  void Finish() override {
    EndRun();
    next_.Finish();
  }

 private:
  // "<0x41>", also with small letters or, as Rust reads numbers, "<0x+1>".
  static std::optional<uint8_t> ByteOf(std::string_view token) {
    if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
    const char* begin = token.data() + (token[3] == '+' ? 4 : 3);
    const char* end = token.data() + 5;
    unsigned value = 0;
    const auto [last, error] = std::from_chars(begin, end, value, 16);
    if (error != std::errc() || last != end) return std::nullopt;
    return static_cast<uint8_t>(value);
  }

  void EndRun() {
    if (run_.empty()) return;
    if (IsValidUtf8(run_)) {
      next_.Push(run_);
    } else {
      for (size_t i = 0; i < run_.size(); ++i) next_.Push(kReplacementCharacter);
    }
    run_.clear();
  }

  std::string run_;
};

class StripStage final : public Stage {
 public:
  StripStage(StripRule rule, TokenSink& next) : Stage(next), rule_(rule), left_(rule.start) {}
  void Push(std::string_view token) override {
    if (!rule_.fused) left_ = rule_.start;
    size_t position = 0;
    while (left_ > 0 && position < token.size()) {
      size_t behind = position;
      if (ReadCharacter(token, behind) != rule_.content) {
        left_ = 0;
      } else {
        position = behind;
        --left_;
      }
    }
    next_.Push(token.substr(position));
  }

 private:
  StripRule rule_;
  size_t left_;  // how many more may be dropped
};

class MetaspaceStage final : public Stage {
 public:
  MetaspaceStage(char32_t replacement, FirstSpace first, TokenSink& next)
      : Stage(next), replacement_(replacement), drop_(first == FirstSpace::kDropped) {}
  void Push(std::string_view token) override {
    std::string text;
    for (size_t position = 0; position < token.size();) {
      const char32_t character = ReadCharacter(token, position);
      if (character != replacement_) {
        AppendCharacter(character, text);
      } else if (!drop_) {
        text += ' ';
      }
    }
    drop_ = false;
    next_.Push(text);
  }

 private:
  char32_t replacement_;
  bool drop_;
};

class ReplaceStage final : public Stage {
 public:
  ReplaceStage(const Replacement& replacement, TokenSink& next)
      : Stage(next), replacement_(replacement) {}
  void Push(std::string_view token) override {
    next_.Push(replacement_.Run(token, kMaxReplacedToken));
  }

 private:
  const Replacement& replacement_;
};

}  // namespace

std::unique_ptr<TokenSink> MakeJoinStage(TokenSink& next) {
  return std::make_unique<JoinStage>(next);
}
std::unique_ptr<TokenSink> MakeByteLevelStage(TokenSink& next) {
  return std::make_unique<ByteLevelStage>(next);
}
std::unique_ptr<TokenSink> MakeByteFallbackStage(TokenSink& next) {
  return std::make_unique<ByteFallbackStage>(next);
}
std::unique_ptr<TokenSink> MakeStripStage(StripRule rule, TokenSink& next) {
  return std::make_unique<StripStage>(rule, next);
}
std::unique_ptr<TokenSink> MakeMetaspaceStage(char32_t replacement, FirstSpace first,
                                              TokenSink& next) {
  return std::make_unique<MetaspaceStage>(replacement, first, next);
}
std::unique_ptr<TokenSink> MakeReplaceStage(const Replacement& replacement, TokenSink& next) {
  return std::make_unique<ReplaceStage>(replacement, next);
}

}  // namespace opst::text
