// Compares a converted file with a plain evaluation of its source, layer by layer.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "convert/open_source.h"
#include "convert/plain_model.h"
#include "convert/source_map.h"
#include "model/family.h"
#include "opst/convert.h"
#include "opst/model.h"

namespace opst {
namespace {

// Tokens of the fixed text: enough that attention and routing have something to do.
constexpr int64_t kNumTokens = 16;

std::vector<int32_t> FixedTokens(int64_t vocab_size) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < kNumTokens; ++i) {
    tokens.push_back(static_cast<int32_t>((i * i * 7919 + i * 104729 + 17) % vocab_size));
  }
  return tokens;
}

struct Difference {
  double error = 0;  // largest |a - b| over the largest |b|; infinite when one is not finite
  int64_t row = 0;
  int64_t column = 0;
};

Difference Compare(std::span<const float> values, const PlainMatrix& expected) {
  Difference worst;
  double scale = 0;
  for (const double value : expected.values) scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < values.size(); ++i) {
    const double distance = std::fabs(static_cast<double>(values[i]) - expected.values[i]);
    const double error = scale > 0 ? distance / scale : distance;
    if (error <= worst.error) continue;
    worst = {std::isnan(error) ? INFINITY : error, static_cast<int64_t>(i) / expected.columns,
             static_cast<int64_t>(i) % expected.columns};
    if (std::isinf(worst.error)) break;
  }
  return worst;
}

}  // namespace

VerifyReport Verify(const Context& context, const std::string& path, const std::string& packed,
                    const ConvertOptions& options) {
  OPST_CHECK_ARG(!options.quantized, "verify",
                 "only float weights can be compared bit by bit; the rounding of integers shows in "
                 "every logit, compare perplexities instead",
                 options.quantized->ToString());
  return NamingOutOfMemory(packed, [&] {
    const std::unique_ptr<const ModelSource> source = OpenSource(path, options);
    const ModelConfig config = ReadModelConfig(source->config_json(), source->config_path());
    const SourceMap sources(*source, FindFamily(config.family, source->config_path()), config,
                            options);
    const Model model = Model::Load(context, packed);
    OPST_CHECK_IO(model.config().ToJson() == config.ToJson(), packed,
                  "the file must have the recipe of the source", model.config().ToJson());
    const std::vector<int32_t> tokens = FixedTokens(config.vocab_size);
    std::vector<std::vector<float>> layers;
    std::vector<float> logits(static_cast<size_t>(kNumTokens * config.vocab_size));
    Sequence sequence = model.NewSequence(kNumTokens);
    ForwardOptions forward;
    forward.on_layer = [&](int64_t, ConstTensorView x) {
      layers.emplace_back(x.as<float>(), x.as<float>() + x.shape().num_elements());
    };
    model.Forward(context, tokens, sequence,
                  TensorView(logits.data(), Shape{kNumTokens, config.vocab_size}), forward);
    VerifyReport report;
    const PlainMatrix expected = PlainModel(*source, sources, config)
                                     .Evaluate(tokens, [&](int64_t layer, const PlainMatrix& x) {
                                       const auto& computed = layers[static_cast<size_t>(layer)];
                                       report.layer_errors.push_back(Compare(computed, x).error);
                                     });
    const Difference worst = Compare(logits, expected);
    report.max_error = worst.error;
    report.worst_position = worst.row;
    report.worst_token = worst.column;
    const auto diverging = std::find_if(report.layer_errors.begin(), report.layer_errors.end(),
                                        [](double error) { return !(error <= kVerifyTolerance); });
    if (diverging != report.layer_errors.end()) {
      report.first_diverging_layer = diverging - report.layer_errors.begin();
    }
    report.is_equal = report.first_diverging_layer < 0 && report.max_error <= kVerifyTolerance;
    return report;
  });
}

}  // namespace opst
