// Runs and times the layer and the plain loop on the same tokens.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/layer_rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/config.h"
#include "base/stopwatch.h"
#include "bench/interleaved_runs.h"
#include "bench/layer_check.h"
#include "bench/plain_loop.h"
#include "bench/wrong_result.h"
#include "ops/grouped_matmul/panel_product.h"
#include "opst/ops/gating.h"

namespace opst::bench {
namespace {

// The most that the setting `act` moves an activation, in parts of its group's largest.
double ActivationStep(const Context& context) {
  const ActivationFormat act = ActivationFormatOf(context.config(), kRowsBoundByArithmetic, 1);
  if (act == ActivationFormat::kF32) return 0;
  return 0.5 / (act == ActivationFormat::kInt8 ? 127 : 32767) + 0x1p-23;
}

}  // namespace

struct LayerRunner::Tokens {
  int64_t num_tokens;
  std::vector<float> x;                    // [T,H]
  std::vector<std::vector<float>> logits;  // one [T,E] per run
  Tensor out;                              // [T,H]
  std::vector<float> plain_out;            // [T,H]
  std::vector<float> plain_activations;    // [T·k,F]

  Tokens(const LayerBenchOptions& options, int64_t count)
      : num_tokens(count),
        x(RandomTokens(count, options.shape.hidden)),
        out(DType::kF32, Shape{count, options.shape.hidden}) {
    for (int run = 0; run < options.runs; ++run) {
      logits.push_back(RandomLogits(options.routing, count, options.shape.num_experts,
                                    static_cast<uint32_t>(run) + 1));
    }
  }
};

LayerRunner::LayerRunner(const Context& context, const LayerBenchOptions& options)
    : context_(context),
      options_(options),
      plain_(options.runs_plain_loop
                 ? std::make_unique<PlainExperts>(context, options.shape, options.type.format)
                 : nullptr),
      weights_(PackExpertsOf(context, options.shape, options.type, plain_.get())) {}

RoutingPlan LayerRunner::RouteOurs(const Tokens& tokens, size_t run) const {
  const LayerShape& shape = options_.shape;
  return Route(
      context_,
      ConstTensorView(tokens.logits[run].data(), Shape{tokens.num_tokens, shape.num_experts}),
      {.top_k = shape.top_k, .renormalizes = shape.renormalizes});
}

RoutingPlan LayerRunner::RunOurs(const Tokens& tokens, size_t run,
                                 std::vector<double>* route_us) const {
  const Stopwatch watch;
  RoutingPlan plan = RouteOurs(tokens, run);
  if (route_us != nullptr) route_us->push_back(watch.elapsed_us());
  MoeFfn(context_,
         ConstTensorView(tokens.x.data(), Shape{tokens.num_tokens, options_.shape.hidden}), plan,
         weights_, {}, tokens.out);
  return plan;
}

PlainRouting LayerRunner::RunPlain(Tokens& tokens, size_t run) const {
  PlainRouting routing =
      RoutePlain(context_, options_.shape, tokens.logits[run].data(), tokens.num_tokens);
  RunPlainLoop(context_, options_.shape, *plain_, routing, tokens.x, tokens.plain_activations,
               tokens.plain_out);
  return routing;
}

void LayerRunner::Check(Tokens& tokens, LayerRow& row) const {
  const std::vector<int64_t> checked = TokensToCheck(tokens.num_tokens);
  const RoutingPlan plan = RunOurs(tokens, 0, nullptr);
  const WeightFormat format = options_.type.format;
  const LayerNumerics numerics{format, IsInteger(format) ? ActivationStep(context_) : 0};
  const auto ours = ComputeRows(context_, options_.shape, numerics, plain_.get(), tokens.x,
                                plan.expert_ids, plan.expert_weights, checked);
  row.max_error = CheckRows(ours, {tokens.out.as<float>(), tokens.x.size()}, "the layer");
  if (plain_ == nullptr) return;
  const PlainRouting plain = RunPlain(tokens, 0);
  const std::string difference = CompareRouting(plan, plain, tokens.logits[0].data());
  if (!difference.empty()) {
    throw WrongResult("our routing and the plain one must agree", difference);
  }
  const auto expected = ComputeRows(context_, options_.shape, {format}, plain_.get(), tokens.x,
                                    plain.ids, plain.weights, checked);
  row.plain_max_error = CheckRows(expected, tokens.plain_out, "the plain loop");
}

// Of each run.
std::vector<double> LayerRunner::CountExperts(const Tokens& tokens) const {
  std::vector<double> distinct;
  for (size_t run = 0; run < tokens.logits.size(); ++run) {
    const RoutingPlan plan = RouteOurs(tokens, run);
    distinct.push_back(
        static_cast<double>(std::count_if(plan.expert_counts.begin(), plan.expert_counts.end(),
                                          [](int64_t count) { return count > 0; })));
  }
  return distinct;
}

LayerRow LayerRunner::MeasureRow(int64_t num_tokens, Roofline& roofline) const {
  Tokens tokens(options_, num_tokens);
  LayerRow row{.num_tokens = num_tokens};
  Check(tokens, row);
  std::vector<double> route_us;
  std::vector<Contestant> contestants{
      {.call = [&](size_t run) { RunOurs(tokens, run, &route_us); }}};
  if (plain_ != nullptr) {
    contestants.push_back({.call = [&](size_t run) { RunPlain(tokens, run); },
                           .most_total_us = 1e6 * options_.most_plain_seconds});
  }
  const std::vector<std::vector<double>> samples =
      RunInterleaved(contestants, SamplingTurns(roofline, static_cast<size_t>(options_.runs)));
  row.us = Summarize(samples[0]);
  row.route_us = Median(route_us);
  if (samples.size() > 1) {
    row.plain_us = Summarize(samples[1]);
    row.ratio = SummarizeRatio(samples[0], samples[1]);
  }
  CompareWithLimits(samples[0], CountExperts(tokens), roofline, row);
  return row;
}

// Fills what depends on the limits; every run has its own number of distinct experts.
void LayerRunner::CompareWithLimits(const std::vector<double>& us,
                                    const std::vector<double>& distinct, const Roofline& roofline,
                                    LayerRow& row) const {
  const LayerShape& shape = options_.shape;
  const double flop = shape.flop(row.num_tokens);
  const double expert_bytes = static_cast<double>(PackedBytes(shape, options_.type)) /
                              static_cast<double>(shape.num_experts);
  std::vector<double> gb_per_s;
  std::vector<double> fma_fractions;
  std::vector<double> bound_fractions;
  for (size_t run = 0; run < us.size(); ++run) {
    const double bytes = distinct[run] * expert_bytes;
    gb_per_s.push_back(bytes / us[run] / 1e3);
    fma_fractions.push_back(flop / us[run] / 1e3 / roofline.fma_gflops(run));
    bound_fractions.push_back(roofline.BoundUs(run, bytes, flop) / us[run]);
  }
  row.distinct_experts = Median(distinct);
  row.weight_bytes = row.distinct_experts * expert_bytes;
  row.gflops = flop / row.us.median / 1e3;
  row.gb_per_s = Median(std::move(gb_per_s));
  row.fma_gflops = roofline.fma_gflops();
  row.read_gb_per_s = roofline.read_gb_per_s();
  row.fma_fraction = Summarize(std::move(fma_fractions));
  row.roofline = Summarize(std::move(bound_fractions));
}

LayerMemory PlanMemory(const Context& context, const LayerBenchOptions& options) {
  const LayerShape& shape = options.shape;
  const auto tokens =
      static_cast<size_t>(*std::max_element(options.tokens.begin(), options.tokens.end()));
  const size_t expert_bytes = static_cast<size_t>(shape.expert_elements()) * sizeof(float);
  // Tokens, results and one set of logits per run; ids and row maps are a few words per slot.
  size_t token_floats = static_cast<size_t>(
      2 * shape.hidden + shape.num_experts * (options.runs + 1) + 16 * shape.top_k);
  LayerMemory memory{.weights_bytes = PackedBytes(shape, options.type),
                     .row_bytes = context.config().GetBytes("stage1_buffer_size")};
  if (options.runs_plain_loop) {
    memory.weights_bytes += static_cast<size_t>(shape.num_experts) * expert_bytes;
    token_floats += static_cast<size_t>(shape.top_k * shape.ffn + shape.hidden);
  } else {
    // The checks make the weights of one expert at a time again.
    memory.packing_bytes = static_cast<size_t>(context.num_threads()) * expert_bytes;
    memory.row_bytes += expert_bytes;
  }
  memory.row_bytes += tokens * token_floats * sizeof(float);
  return memory;
}

}  // namespace opst::bench
