// Tokenizer: text to token ids and back, read from a Hugging Face tokenizer.json; no chat
// templates.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#ifndef OPST_TOKENIZER_H_
#define OPST_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opst {

namespace text {
class TokenizerImpl;
class DecodePipeline;
}  // namespace text

struct EncodeOptions {
  // Adds what the file's post-processor adds around a text, e.g. the begin-of-text token.
  bool add_special_tokens = true;
  // true: "<|im_end|>" inside the text is spelled out like any other text instead of becoming the
  // special token of that name. For text that must not be able to end a turn. Added tokens that
  // are not special are found all the same.
  bool special_tokens_as_text = false;
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

// Byte pair encoding as a tokenizer.json describes it:
//   ids = template( merge( split( normalise( text between added tokens ))))
// with the same ids as the `tokenizers` package for the same file and text (its Python side reads
// bytes with errors="replace"; so does this one).
//
// Supported
// clang-format off
//   model           BPE: merges as "a b" or ["a","b"], ignore_merges, byte_fallback, unk, fuse_unk
//   normalizer      none, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence
//   pre_tokenizer   none, ByteLevel, Split, Digits, Metaspace, Sequence
//   post_processor  none, ByteLevel, TemplateProcessing (for one text), Sequence
//   decoder         none, ByteLevel, Replace, ByteFallback, Fuse, Strip (start), Metaspace, Sequence
//   added tokens    all five flags
// clang-format on
// Everything else is refused by name: a field that is skipped would be a silent wrong answer.
// "truncation" and "padding" are wishes of a caller, not of the model, and are not applied.
//
// Regular expressions of the file are Oniguruma's (Ruby) syntax. The constructs that mean
// something else in PCRE2 are translated or refused by name. Character classes are those of
// Unicode 16, normal forms those of Unicode 9, as in the reference, whatever the system libraries
// know; for characters younger than that and than the installed PCRE2, ids may differ.
//
// Threads: an object is immutable; every method may be called from any thread. Copies are cheap
// and share the tables.
class Tokenizer {
 public:
  // `json`: the bytes of a tokenizer.json. `name`: the file's name, for error texts only.
  // The bytes are not trusted. Errors (kIo) name file, field and value. Limits: 128 MiB of text,
  // depth 64, 4,194,304 tokens, merges, and ids below that; 64 KiB per token.
  // Cost: about 0.3 s and 60 MB for a vocabulary of 150,000.
  static Tokenizer FromJson(std::string_view json, std::string_view name = "tokenizer.json");

  // Ids of `text`. Each maximal piece of `text` that is not UTF-8 counts as one U+FFFD.
  // Cost: O(n log n) time and O(n) memory for n bytes, also for one word of n bytes; a Split
  // pattern of the file may need more, up to a bound for each place where a match can begin.
  // Errors: kIo when a pattern gives up on this text, or when a character is unknown and the
  // file's unk_token is not in the vocabulary; kOutOfMemory.
  // A character that is neither in the vocabulary nor covered by byte_fallback or unk_token
  // vanishes, as in the reference.
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Text of `ids`, always valid UTF-8: bytes that form no character become U+FFFD.
  // Ids without a token (negative, beyond the vocabulary, in a hole) add nothing. Cost: O(n) time
  // and memory for n bytes of result. Errors: kOutOfMemory; a Replace of the file's decoder that
  // would grow a token beyond bounds is kIo.
  std::string Decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // The methods below look tables up; none of them throws.

  // Highest id + 1, added tokens included. A model's embedding may have more rows.
  int32_t vocab_size() const;

  // The token as it stands in the file ("Ġthe", "▁the", "<0x0A>"); none for an id without a token.
  // The view lives as long as this object or a copy of it.
  std::optional<std::string_view> TokenText(int32_t id) const;
  // The reverse; none for what is no whole token.
  std::optional<int32_t> IdOf(std::string_view token) const;

  // Added tokens are found in the text before anything else; the special ones among them are left
  // out by Decode. false for an id without a token.
  bool IsAdded(int32_t id) const;
  bool IsSpecial(int32_t id) const;

  // What `add_special_tokens` puts before and behind a text; views of this object's tables.
  std::span<const int32_t> prefix_ids() const;
  std::span<const int32_t> suffix_ids() const;

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::shared_ptr<const text::TokenizerImpl> impl);

  std::shared_ptr<const text::TokenizerImpl> impl_;
};

// Decodes ids one by one, for text that appears while it is generated.
// The pieces are whole UTF-8 and, Flush() included, concatenate to Tokenizer::Decode of all ids:
// bytes that may still become a character are held back, and Flush() turns what is left of them
// into U+FFFD as Decode would.
// Keeps the tokenizer's tables alive. One object per stream, used by one thread at a time.
// Errors: as Tokenizer::Decode.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});
  // For a text that goes on behind the text of `prompt`: the pieces concatenate to Decode(prompt,
  // then what is pushed) without the beginning that it has in common with Decode(prompt). That is
  // not the text of the pushed ids alone: many decoders drop a space in front of a text, and bytes
  // at the end of `prompt` may become a character.
  StreamDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                const DecodeOptions& options = {});
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // What `id` makes certain: often one token's text, "" in the middle of a character.
  std::string Push(int32_t id);
  // The rest; afterwards the decoder stands at the beginning of a new text.
  std::string Flush();

 private:
  std::shared_ptr<const text::TokenizerImpl> impl_;
  // What the pipeline gave, without what is known.
  std::string TakeNew();

  std::unique_ptr<text::DecodePipeline> pipeline_;
  DecodeOptions options_;
  std::string known_;  // of the prompt's text: what the pipeline has not given yet
};

}  // namespace opst

#endif  // OPST_TOKENIZER_H_
