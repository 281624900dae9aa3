// PCRE2 behind the Regex class: compiled once, just-in-time where the platform can.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>

#include <charconv>
#include <cstdint>
#include <iterator>
#include <new>

#include "base/check.h"
#include "io/quote.h"
#include "text/utf8.h"

namespace opst::text {
namespace {

constexpr size_t kMaxPatternBytes = 8192;
constexpr uint32_t kMatchLimit = 10'000'000;   // PCRE2's own default
constexpr uint32_t kHeapLimitKib = 64 * 1024;  // the interpreter's backtracking points
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackLimit = 8 << 20;

// Frees with the PCRE2 function of the type.
template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using CodePointer = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

template <typename Pointer>
Pointer Allocated(Pointer pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string MessageOf(int error) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(error, message, std::size(message));
  return reinterpret_cast<const char*>(message);
}

// What the library's Unicode tables do not have must be listed.
YoungCodePoints YoungOfLibrary() {
  char version[64] = "";
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
  int major = 0;
  std::from_chars(std::begin(version), std::end(version), major);
  return major < 16 ? YoungCodePoints::kListed : YoungCodePoints::kKnown;
}

}  // namespace

struct Regex::Code {
  CodePointer code;
  std::string pattern, file, field;
};

Regex::Regex(const RegexSource& source) : code_(std::make_unique<Code>()) {
  code_->pattern = source.pattern;
  code_->file = source.file;
  code_->field = source.field;
  OPST_CHECK_IO(source.pattern.size() <= kMaxPatternBytes, source.file,
                Concat(source.field, " must have at most ", kMaxPatternBytes, " bytes"),
                source.pattern.size());
  const std::string translated = TranslateRegex(source, YoungOfLibrary());
  const CompileContext context = Allocated(CompileContext(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code.reset(pcre2_compile(Units(translated), translated.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset,
                                  context.get()));
  OPST_CHECK_IO(code_->code != nullptr, source.file,
                Concat(source.field, " must be a regular expression that PCRE2 accepts"),
                Quote(source.pattern), " and its answer \"", MessageOf(error), "\"");
  // Without just-in-time compilation the interpreter gives the same matches.
  pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

struct Regex::Matcher::State {
  JitStack jit_stack;  // made when the 32 KiB on the machine stack are too few
  MatchContext context;
  MatchData data;
};

Regex::Matcher::Matcher(const Regex& regex) : regex_(regex), state_(std::make_unique<State>()) {
  state_->context = Allocated(MatchContext(pcre2_match_context_create(nullptr)));
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
  state_->data = Allocated(MatchData(pcre2_match_data_create(1, nullptr)));
}

Regex::Matcher::~Matcher() = default;

void Regex::Matcher::Start(std::string_view subject) {
  subject_ = subject;
  from_ = 0;
  previous_end_.reset();
}

std::optional<TextSpan> Regex::Matcher::Next() {
  while (from_ <= subject_.size()) {
    const std::optional<TextSpan> match = Search(from_);
    if (!match) break;
    if (match->begin != match->end || previous_end_ != match->end) {
      from_ = match->end;
      previous_end_ = match->end;
      return match;
    }
    if (from_ == subject_.size()) break;
    ReadCharacter(subject_, from_);
  }
  from_ = subject_.size() + 1;
  return std::nullopt;
}

std::optional<TextSpan> Regex::Matcher::Search(size_t from) {
  const auto match = [&] {
    // The subject is known to be valid; checking it again for each match would be quadratic.
    return pcre2_match(regex_.code_->code.get(), Units(subject_), subject_.size(), from,
                       PCRE2_NO_UTF_CHECK, state_->data.get(), state_->context.get());
  };
  int result = match();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && state_->jit_stack == nullptr) {
    state_->jit_stack =
        Allocated(JitStack(pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr)));
    pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->jit_stack.get());
    result = match();
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  OPST_CHECK_IO(
      result > 0, regex_.code_->file,
      Concat(regex_.code_->field, " must be able to search a text of ", subject_.size(), " bytes"),
      Quote(regex_.code_->pattern), ", which gave up: \"", MessageOf(result), "\"");
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state_->data.get());
  return TextSpan{ends[0], ends[1]};
}

}  // namespace opst::text
