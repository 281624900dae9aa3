// Perplexity of a text, on the path of prompts or on the path of decoding.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "opst/engine.h"
#include "runtime/text_run.h"

namespace opst {
namespace {

constexpr std::string_view kWhere = "perplexity";
// Logits of a whole window can be large: 256 tokens of a vocabulary of 150,000 are 150 MB.
constexpr int64_t kMaxLogits = 8 << 20;

// The windows of a text, and -ln p of their tokens.
class Windows {
 public:
  Windows(const Context& context, const Model& model, std::span<const int32_t> tokens,
          const PerplexityOptions& options)
      : context_(context),
        model_(model),
        tokens_(tokens),
        begin_(options.begin_tokens),
        window_(static_cast<size_t>(options.window)),
        vocabulary_(static_cast<size_t>(model.config().vocab_size)),
        forward_{.experts = options.experts,
                 .on_routing = [this](int64_t, const RoutingPlan& plan) {
                   num_rows_ += plan.num_rows();
                   num_routed_ += plan.num_tokens;
                 }} {}
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  double ExpertsPerToken() const {
    return num_routed_ == 0 ? 0 : static_cast<double>(num_rows_) / static_cast<double>(num_routed_);
  }

  // Sum over one window, whose logits are computed in pieces.
  double Prefill(size_t index, Sequence& sequence) {
    const std::vector<int32_t> all = Window(index);
    const std::span<const int32_t> window = std::span(all).first(window_ - 1);
    const size_t chunk = std::max<size_t>(1, static_cast<size_t>(kMaxLogits) / vocabulary_);
    Restart(sequence);
    double sum = 0;
    for (size_t begin = 0; begin < window.size(); begin += chunk) {
      const auto part = window.subspan(begin, std::min(chunk, window.size() - begin));
      model_.Forward(context_, part, sequence, Logits(part.size()), forward_);
      for (size_t i = 0; i < part.size(); ++i) sum += Surprise(i, begin + i + 1, all);
    }
    return sum;
  }

  // Sums over windows [first, first + count), one token of each per pass.
  std::vector<double> Decode(size_t first, size_t count, std::span<Sequence> sequences) {
    std::vector<double> sums(count, 0);
    std::vector<std::vector<int32_t>> all(count);
    for (size_t i = 0; i < count; ++i) {
      Restart(sequences[i]);
      all[i] = Window(first + i);
    }
    for (size_t position = 0; position + 1 < window_; ++position) {
      std::vector<BatchEntry> entries;
      for (size_t i = 0; i < count; ++i) {
        entries.push_back({std::span(all[i]).subspan(position, 1), &sequences[i]});
      }
      model_.ForwardBatch(context_, entries, Logits(count), forward_);
      for (size_t i = 0; i < count; ++i) sums[i] += Surprise(i, position + 1, all[i]);
    }
    return sums;
  }

 private:
  std::vector<int32_t> Window(size_t index) const {
    const size_t length = window_ - begin_.size();
    const std::span<const int32_t> text = tokens_.subspan(index * length, length);
    std::vector<int32_t> window(begin_.begin(), begin_.end());
    window.insert(window.end(), text.begin(), text.end());
    return window;
  }
  void Restart(Sequence& sequence) const {
    sequence.Clear();
    sequence.ExpectLength(static_cast<int64_t>(window_));
  }
  TensorView Logits(size_t rows) {
    logits_.resize(std::max(logits_.size(), rows * vocabulary_));
    return TensorView(logits_.data(),
                      Shape{static_cast<int64_t>(rows), static_cast<int64_t>(vocabulary_)});
  }
  // -ln p of the token at a position of a window by a row of the logits; 0 when it was given.
  double Surprise(size_t row, size_t position, std::span<const int32_t> window) const {
    if (position < begin_.size()) return 0;
    const std::span<const float> logits =
        std::span(logits_).subspan(row * vocabulary_, vocabulary_);
    CheckNumbers(logits, kWhere);
    return -LogProbOf(logits, 0, window[position]).log_prob;
  }

  const Context& context_;
  const Model& model_;
  std::span<const int32_t> tokens_;
  std::span<const int32_t> begin_;
  size_t window_;
  size_t vocabulary_;
  ForwardOptions forward_;
  int64_t num_rows_ = 0;    // of routed experts
  int64_t num_routed_ = 0;  // tokens, once per MoE layer
  std::vector<float> logits_;
};

}  // namespace

PerplexityResult Engine::Perplexity(const Context& context, std::span<const int32_t> tokens,
                                    const PerplexityOptions& options) const {
  return NamingOutOfMemory(kWhere, [&] {
    OPST_CHECK_ARG(options.window >= 2, kWhere, "a window must have at least two tokens",
                   options.window);
    OPST_CHECK_ARG(options.batch_size >= 1, kWhere, "the batch size must be at least 1",
                   options.batch_size);
    const auto num_begin = static_cast<int64_t>(options.begin_tokens.size());
    OPST_CHECK_ARG(options.window > num_begin, kWhere,
                   "a window must have room for the tokens in front of a text and one more",
                   options.window, " for ", num_begin);
    const int64_t num_windows = static_cast<int64_t>(tokens.size()) / (options.window - num_begin);
    OPST_CHECK_ARG(num_windows >= 1, kWhere, "the text must fill at least one window",
                   tokens.size(), " tokens for a window of ", options.window);
    const auto side_by_side =
        static_cast<size_t>(options.decodes ? std::min(options.batch_size, num_windows) : 1);
    std::vector<Sequence> sequences;
    for (size_t i = 0; i < side_by_side; ++i)
      sequences.push_back(model_.NewSequence(options.window));
    Windows windows(context, model_, tokens, options);
    double sum = 0;
    for (size_t first = 0; first < static_cast<size_t>(num_windows); first += side_by_side) {
      const size_t count = std::min(side_by_side, static_cast<size_t>(num_windows) - first);
      if (options.decodes) {
        for (const double window : windows.Decode(first, count, sequences)) sum += window;
      } else {
        sum += windows.Prefill(first, sequences[0]);
      }
    }
    PerplexityResult result;
    result.num_windows = num_windows;
    result.num_predicted = num_windows * (options.window - std::max<int64_t>(num_begin, 1));
    result.nll = sum / static_cast<double>(result.num_predicted);
    result.perplexity = std::exp(result.nll);
    result.experts_per_token = windows.ExpertsPerToken();
    return result;
  });
}

}  // namespace opst
