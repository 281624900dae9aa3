// Tests of the layer's gradients: fp64 formulas, differences of the fp64 forward pass, and bits.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "opst/ops/moe_ffn_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/testing/errors.h"
#include "kernels/testing/each_isa.h"
#include "ops/testing/contexts.h"
#include "ops/testing/matrix.h"
#include "ops/testing/plans.h"
#include "ops/testing/worst_element.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/moe_ffn.h"
#include "opst/ops/permute.h"
#include "opst/pack.h"

namespace opst {
namespace {

using Values = std::vector<double>;

struct Sizes {
  int64_t tokens, experts, top_k, hidden, ffn;
  bool has_gate = true;
  int64_t gate_up_rows() const { return has_gate ? 2 * ffn : ffn; }
};

// One layer, its inputs and the gradient of its output.
struct Layer {
  Layer(const Context& context, DType dtype, const Sizes& s, uint32_t seed,
        const RoutingPlanOptions& plan_options = {})
      : sizes(s),
        plan(MakePlan(
            context,
            RandomSlots(s.tokens, s.experts, s.top_k, seed, {.empty_share = 0.1, .skew = 0.5}),
            s.experts, plan_options)),
        x(Matrix::Random(dtype, s.tokens, s.hidden, seed + 1, 1, 1)),
        d_out(Matrix::Random(dtype, s.tokens, s.hidden, seed + 2, 1, 2)),
        gate_up(Matrix::Random(dtype, s.experts * s.gate_up_rows(), s.hidden, seed + 3,
                               1 / std::sqrt(static_cast<double>(s.hidden)))),
        down(Matrix::Random(dtype, s.experts * s.hidden, s.ffn, seed + 4,
                            1 / std::sqrt(static_cast<double>(s.ffn)))),
        gate_up_bias(Matrix::Random(DType::kF32, s.experts, s.gate_up_rows(), seed + 5)),
        down_bias(Matrix::Random(DType::kF32, s.experts, s.hidden, seed + 6)) {}

  ExpertTensors tensors() const {
    return {gate_up.Stacked(sizes.experts), down.Stacked(sizes.experts), gate_up_bias.view(),
            down_bias.view()};
  }

  Sizes sizes;
  RoutingPlan plan;
  Matrix x, d_out, gate_up, down, gate_up_bias, down_bias;
};

// All gradients, in one memory each.
struct Gradients {
  explicit Gradients(const Layer& layer)
      : x(layer.x.dtype(), layer.sizes.tokens, layer.sizes.hidden, 3),
        weights(DType::kF32, layer.sizes.tokens, layer.sizes.top_k),
        gate_up(DType::kF32, layer.gate_up.rows(), layer.sizes.hidden),
        down(DType::kF32, layer.down.rows(), layer.sizes.ffn),
        gate_up_bias(DType::kF32, layer.sizes.experts, layer.sizes.gate_up_rows()),
        down_bias(DType::kF32, layer.sizes.experts, layer.sizes.hidden),
        experts(layer.sizes.experts) {}

  MoeFfnGradients views() {
    const auto stacked = [this](Matrix& matrix) {
      return TensorView(matrix.view().mutable_data(), DType::kF32,
                        Shape{experts, matrix.rows() / experts, matrix.columns()});
    };
    return {x.view(),      weights.view(),      stacked(gate_up),
            stacked(down), gate_up_bias.view(), down_bias.view()};
  }
  bool HasSameBits(const Gradients& other) const {
    return x.HasSameBits(other.x) && weights.HasSameBits(other.weights) &&
           gate_up.HasSameBits(other.gate_up) && down.HasSameBits(other.down) &&
           gate_up_bias.HasSameBits(other.gate_up_bias) && down_bias.HasSameBits(other.down_bias);
  }

  Matrix x, weights, gate_up, down, gate_up_bias, down_bias;
  int64_t experts;
};

// f and its slopes in fp64; limits as the default.
struct Slopes {
  double value, by_gate, by_up;
};
Slopes SlopesOf(Activation activation, double g, double u) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  if (activation == Activation::kSilu) {
    const double s = sigmoid(g);
    return {g * s * u, s * (1 + g * (1 - s)) * u, g * s};
  }
  if (activation == Activation::kGeluTanh) {
    const double root = std::sqrt(2 / M_PI);
    const double t = std::tanh(root * (g + 0.044715 * g * g * g));
    const double slope = (1 + t) / 2 + g / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * g * g);
    return {g / 2 * (1 + t) * u, slope * u, g / 2 * (1 + t)};
  }
  if (activation == Activation::kRelu) {
    return {std::max(g, 0.0) * u, g > 0 ? u : 0, std::max(g, 0.0)};
  }
  if (activation == Activation::kGelu) {
    const double phi = std::erfc(-g / std::sqrt(2.0)) / 2;
    const double density = std::exp(-g * g / 2) / std::sqrt(2 * M_PI);
    return {g * phi * u, (phi + g * density) * u, g * phi};
  }
  if (activation == Activation::kQuickGelu) {
    const double s = sigmoid(1.702 * g);
    return {g * s * u, s * (1 + 1.702 * g * (1 - s)) * u, g * s};
  }
  const ActivationLimits limits;
  const double gate = std::min<double>(g, limits.limit);
  const double up = std::clamp<double>(u, -limits.limit, limits.limit) + 1;
  const double s = sigmoid(static_cast<double>(limits.alpha) * gate);
  const double slope = s * (1 + static_cast<double>(limits.alpha) * gate * (1 - s)) * up;
  return {gate * s * up, g > limits.limit ? 0 : slope, std::abs(u) > limits.limit ? 0 : gate * s};
}

// The gradients in fp64, one row after the other; plain loops.
struct Oracle {
  Oracle(const Layer& layer, Activation activation)
      : x(Zeros(layer.x)),
        weights(static_cast<size_t>(layer.sizes.tokens * layer.sizes.top_k)),
        gate_up(Zeros(layer.gate_up)),
        down(Zeros(layer.down)),
        gate_up_bias(Zeros(layer.gate_up_bias)),
        down_bias(Zeros(layer.down_bias)) {
    for (size_t slot = 0; slot < layer.plan.slot_to_row.size(); ++slot) {
      if (layer.plan.slot_to_row[slot] >= 0) AddSlot(layer, activation, slot);
    }
  }

  // Σ d_out · out: what all gradients are gradients of.
  double loss = 0;
  Values x, weights, gate_up, down, gate_up_bias, down_bias;

 private:
  static Values Zeros(const Matrix& matrix) {
    return Values(static_cast<size_t>(matrix.rows() * matrix.columns()));
  }

  void AddSlot(const Layer& layer, Activation activation, size_t slot) {
    const auto [tokens, experts, top_k, hidden, ffn, has_gate] = layer.sizes;
    const int64_t token = static_cast<int64_t>(slot) / top_k;
    const int64_t width = layer.sizes.gate_up_rows();
    const int64_t expert = layer.plan.expert_ids[slot];
    const double weight = layer.plan.expert_weights[slot];
    Values d_input(static_cast<size_t>(hidden));
    double d_weight = 0;
    for (int64_t h = 0; h < hidden; ++h) {
      d_weight += layer.down_bias.At(expert, h) * layer.d_out.At(token, h);
      down_bias[static_cast<size_t>(expert * hidden + h)] += weight * layer.d_out.At(token, h);
    }
    for (int64_t f = 0; f < ffn; ++f) {
      const int64_t gate_row = expert * width + f;
      double g = layer.gate_up_bias.At(expert, f);
      double u = has_gate ? layer.gate_up_bias.At(expert, ffn + f) : 1;
      double z = 0;
      for (int64_t h = 0; h < hidden; ++h) {
        g += layer.x.At(token, h) * layer.gate_up.At(gate_row, h);
        if (has_gate) u += layer.x.At(token, h) * layer.gate_up.At(gate_row + ffn, h);
        z += layer.d_out.At(token, h) * layer.down.At(expert * hidden + h, f);
      }
      const Slopes slopes = SlopesOf(activation, g, u);
      d_weight += slopes.value * z;
      const double d_g = weight * z * slopes.by_gate;
      const double d_u = weight * z * slopes.by_up;
      gate_up_bias[static_cast<size_t>(gate_row)] += d_g;
      if (has_gate) gate_up_bias[static_cast<size_t>(gate_row + ffn)] += d_u;
      for (int64_t h = 0; h < hidden; ++h) {
        down[static_cast<size_t>((expert * hidden + h) * ffn + f)] +=
            weight * layer.d_out.At(token, h) * slopes.value;
        gate_up[static_cast<size_t>(gate_row * hidden + h)] += d_g * layer.x.At(token, h);
        double& d_x = x[static_cast<size_t>(token * hidden + h)];
        d_x += d_g * layer.gate_up.At(gate_row, h);
        if (!has_gate) continue;
        gate_up[static_cast<size_t>((gate_row + ffn) * hidden + h)] += d_u * layer.x.At(token, h);
        d_x += d_u * layer.gate_up.At(gate_row + ffn, h);
      }
    }
    weights[slot] = d_weight;
    loss += weight * d_weight;
  }
};

// Error of a sum against its scale: gradients are sums over H, F and rows of products of numbers
// about 1, each with the error of g and u (chains of H + 1) times slopes below 8; so the scale is
// the root mean square of the gradient, times the number of steps on the way.
void Compare(const Values& wanted, const Matrix& got, double steps, const char* what) {
  double square = 0;
  for (const double value : wanted) square += value * value;
  const double scale =
      std::sqrt(square / std::max<double>(1, static_cast<double>(wanted.size()))) + 1e-3;
  WorstElement worst;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / got.columns();
    const auto column = static_cast<int64_t>(i) % got.columns();
    const double tolerance = steps * 0x1p-24 * (8 * scale + std::abs(wanted[i])) +
                             1.01 * RoundingError(got.dtype(), wanted[i]);
    worst.Add(row, column, got.At(row, column), wanted[i], tolerance);
  }
  EXPECT_TRUE(worst.is_within_tolerance()) << what << ": " << worst;
}

class MoeFfnBackwardTest : public EachIsaTest {
 protected:
  void Check(const Layer& layer, Activation activation) {
    Gradients got(layer);
    MoeFfnBackward(context_, layer.x.view(), layer.plan, layer.tensors(), layer.d_out.view(),
                   {.activation = activation}, got.views());
    const Oracle wanted(layer, activation);
    const auto steps =
        static_cast<double>(2 * layer.sizes.hidden + 3 * layer.sizes.ffn + layer.sizes.tokens + 64);
    Compare(wanted.x, got.x, steps, "x");
    Compare(wanted.weights, got.weights, steps, "weights");
    Compare(wanted.gate_up, got.gate_up, steps, "gate_up");
    Compare(wanted.down, got.down, steps, "down");
    Compare(wanted.gate_up_bias, got.gate_up_bias, steps, "gate_up_bias");
    Compare(wanted.down_bias, got.down_bias, steps, "down_bias");
    EXPECT_TRUE(got.x.HasUntouchedGaps());
  }

  const Context context_ = MakeContext(2);
};

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                       Activation::kRelu, Activation::kClampedSwiglu,
                                       Activation::kGelu, Activation::kQuickGelu};

TEST_P(MoeFfnBackwardTest, AThousandRandomLayersEqualFp64) {
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const DType dtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
    const auto experts = static_cast<int64_t>(1 + random() % 5);
    const Sizes sizes{static_cast<int64_t>(random() % 9), experts,
                      static_cast<int64_t>(1 + random() % static_cast<uint32_t>(experts)),
                      static_cast<int64_t>(1 + random() % 20),
                      static_cast<int64_t>(1 + random() % 20)};
    const RoutingPlanOptions plans[] = {
        {}, {.capacity_factor = 0.7}, {.capacity_factor = 1.5, .pads_to_capacity = true}};
    const Layer layer(context_, dtypes[random() % 3], sizes, seed, plans[random() % 3]);
    Check(layer, kActivations[random() % 4]);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed;
  }
}

TEST_P(MoeFfnBackwardTest, AThousandRandomLayersWithoutAGateEqualFp64) {
  constexpr Activation kUngated[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu,
                                     Activation::kGelu, Activation::kQuickGelu};
  for (uint32_t seed = 0; seed < 1000 && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const DType dtypes[] = {DType::kF32, DType::kBf16, DType::kF16};
    const auto experts = static_cast<int64_t>(1 + random() % 5);
    const Sizes sizes{static_cast<int64_t>(random() % 9),
                      experts,
                      static_cast<int64_t>(1 + random() % static_cast<uint32_t>(experts)),
                      static_cast<int64_t>(1 + random() % 20),
                      static_cast<int64_t>(1 + random() % 20),
                      false};
    Check(Layer(context_, dtypes[random() % 3], sizes, seed), kUngated[random() % 5]);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed;
  }
}

// What was kept in f32 is what would be computed again, whatever parts the workspace makes.
TEST_P(MoeFfnBackwardTest, SavedActivationsGiveTheSameBits) {
  for (const bool has_gate : {true, false}) {
    const Layer layer(context_, DType::kBf16, {40, 5, 2, 24, 18, has_gate}, 9);
    const int64_t rows = layer.plan.num_rows();
    Matrix permuted(DType::kBf16, rows, 24);
    Permute(context_, layer.x.view(), layer.plan, permuted.view());
    Matrix saved(DType::kF32, rows, layer.sizes.gate_up_rows(), 3);
    GroupedMatmul(
        context_, permuted.view(), layer.plan.expert_offsets,
        PackExperts(context_, layer.gate_up.Stacked(5), WeightFormat::kBf16, PanelOrder::kPlain),
        {.bias = layer.gate_up_bias.view()}, saved.view());
    const auto run = [&](size_t workspace_bytes, ConstTensorView kept) {
      Gradients got(layer);
      MoeFfnBackward(context_, layer.x.view(), layer.plan, layer.tensors(), layer.d_out.view(),
                     {.saved_gate_up = kept, .workspace_bytes = workspace_bytes}, got.views());
      return got;
    };
    const Gradients wanted = run(0, {});
    for (const size_t bytes : {size_t{1} << 30, size_t{40'000}, size_t{1}}) {
      EXPECT_TRUE(run(bytes, saved.view()).HasSameBits(wanted)) << has_gate << ", " << bytes;
    }
  }
}

TEST_P(MoeFfnBackwardTest, LargerThanAllBlocks) {
  Check(Layer(context_, DType::kF32, {300, 2, 1, 270, 40}, 7), Activation::kSilu);
  Check(Layer(context_, DType::kBf16, {40, 3, 3, 33, 530}, 8), Activation::kGeluTanh);
}

// The oracle's own formulas, against central differences of its loss.
TEST_P(MoeFfnBackwardTest, TheFormulasAreTheSlopesOfTheForwardPass) {
  constexpr double kStep = 1.0 / 1024;  // exact in f32; the loss is smooth: error about step²
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    const Layer layer(context_, DType::kF32, {5, 3, 2, 4, 3, activation == Activation::kSilu}, 11);
    const Oracle at(layer, activation);
    const auto slope = [&](Matrix Layer::*matrix, int64_t row, int64_t column) {
      Layer more = layer;
      Layer less = layer;
      (more.*matrix).Set(row, column, (layer.*matrix).At(row, column) + kStep);
      (less.*matrix).Set(row, column, (layer.*matrix).At(row, column) - kStep);
      const double width = (more.*matrix).At(row, column) - (less.*matrix).At(row, column);
      return (Oracle(more, activation).loss - Oracle(less, activation).loss) / width;
    };
    const auto check = [&](Matrix Layer::*matrix, const Values& gradient) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        const int64_t columns = (layer.*matrix).columns();
        EXPECT_NEAR(
            gradient[i],
            slope(matrix, static_cast<int64_t>(i) / columns, static_cast<int64_t>(i) % columns),
            1e-4);
      }
    };
    check(&Layer::x, at.x);
    check(&Layer::gate_up, at.gate_up);
    check(&Layer::down, at.down);
    check(&Layer::gate_up_bias, at.gate_up_bias);
    check(&Layer::down_bias, at.down_bias);
    for (size_t slot = 0; slot < at.weights.size(); ++slot) {
      if (layer.plan.slot_to_row[slot] < 0) continue;
      Layer more = layer;
      more.plan.expert_weights[slot] += 1;  // the loss is linear in the weights
      EXPECT_NEAR(at.weights[slot], Oracle(more, activation).loss - at.loss, 1e-6);
    }
  }
}

// The loss of the oracle is that of the forward operator.
void CompareLosses(const Context& context, const Layer& layer) {
  const bool has_gate = layer.sizes.has_gate;
  const ExpertWeights weights{
      PackExperts(context, layer.gate_up.Stacked(4), WeightFormat::kF32,
                  has_gate ? PanelOrder::kGateUp : PanelOrder::kPlain),
      PackExperts(context, layer.down.Stacked(4), WeightFormat::kF32, PanelOrder::kPlain),
      layer.gate_up_bias.view(), layer.down_bias.view()};
  for (const Activation activation : kActivations) {
    if (!has_gate && activation == Activation::kClampedSwiglu) continue;
    Matrix out(DType::kF32, 30, 24);
    MoeFfn(context, layer.x.view(), layer.plan, weights, {.activation = activation}, out.view());
    double loss = 0;
    double magnitude = 0;
    for (int64_t t = 0; t < 30; ++t) {
      for (int64_t h = 0; h < 24; ++h) {
        loss += out.At(t, h) * layer.d_out.At(t, h);
        magnitude += std::abs(out.At(t, h) * layer.d_out.At(t, h));
      }
    }
    EXPECT_NEAR(Oracle(layer, activation).loss, loss, 200 * 0x1p-24 * magnitude);
  }
}

TEST_P(MoeFfnBackwardTest, TheOracleIsThatOfTheForwardOperator) {
  CompareLosses(context_, Layer(context_, DType::kF32, {30, 4, 2, 24, 17}, 5));
  CompareLosses(context_, Layer(context_, DType::kF32, {30, 4, 2, 24, 17, false}, 6));
}

TEST_P(MoeFfnBackwardTest, ThreadsAndWorkspaceDoNotChangeBits) {
  const Layer layer(context_, DType::kBf16, {90, 5, 2, 40, 24}, 3);
  const auto run = [&](int threads, size_t workspace_bytes) {
    Gradients got(layer);
    MoeFfnBackward(MakeContext(threads), layer.x.view(), layer.plan, layer.tensors(),
                   layer.d_out.view(), {.workspace_bytes = workspace_bytes}, got.views());
    return got;
  };
  const Gradients wanted = run(1, size_t{1} << 30);
  for (const int threads : {1, 2, 5}) {
    // All experts at once, two or three, one, and one row at a time.
    for (const size_t bytes : {size_t{1} << 30, size_t{80'000}, size_t{20'000}, size_t{1}}) {
      EXPECT_TRUE(run(threads, bytes).HasSameBits(wanted)) << threads << ", " << bytes;
    }
  }
}

TEST_P(MoeFfnBackwardTest, MicroBatchesAddUp) {
  const Layer layer(context_, DType::kF32, {20, 3, 2, 10, 6}, 4);
  Gradients once(layer);
  Gradients twice(layer);
  const auto run = [&](OutputMode mode, Gradients& out) {
    MoeFfnBackward(context_, layer.x.view(), layer.plan, layer.tensors(), layer.d_out.view(),
                   {.weight_mode = mode}, out.views());
  };
  run(OutputMode::kOverwrite, once);
  run(OutputMode::kOverwrite, twice);
  run(OutputMode::kAdd, twice);
  EXPECT_TRUE(twice.x.HasSameBits(once.x));  // not a weight: written anew
  for (int64_t row = 0; row < once.down.rows(); ++row) {
    for (int64_t f = 0; f < 6; ++f) {
      EXPECT_NEAR(twice.down.At(row, f), 2 * once.down.At(row, f),
                  80 * 0x1p-24 * (1 + std::abs(once.down.At(row, f))) * 8);
    }
  }
}

TEST_P(MoeFfnBackwardTest, UnusedExpertsAndEmptyBatchesHaveNoGradient) {
  const Layer layer(context_, DType::kF32, {0, 3, 2, 5, 4}, 4);
  Gradients got(layer);
  MoeFfnBackward(context_, layer.x.view(), layer.plan, layer.tensors(), layer.d_out.view(), {},
                 got.views());
  for (int64_t row = 0; row < got.down.rows(); ++row) {
    EXPECT_EQ(got.down.Row(row), Values(4, 0.0));
  }
}

TEST_P(MoeFfnBackwardTest, WhatIsNotWantedIsNotWritten) {
  const Layer layer(context_, DType::kF32, {9, 3, 2, 5, 4}, 4);
  Gradients all(layer);
  Gradients some(layer);
  MoeFfnBackward(context_, layer.x.view(), layer.plan, layer.tensors(), layer.d_out.view(), {},
                 all.views());
  MoeFfnBackward(context_, layer.x.view(), layer.plan, layer.tensors(), layer.d_out.view(), {},
                 {.d_x = some.views().d_x, .d_down = some.views().d_down});
  EXPECT_TRUE(some.x.HasSameBits(all.x) && some.down.HasSameBits(all.down));
  EXPECT_TRUE(some.gate_up.IsUnwritten(0) && some.weights.IsUnwritten(0));
}

INSTANTIATE_TEST_SUITE_P(Isa, MoeFfnBackwardTest, testing::ValuesIn(AvailableIsas()), IsaName);

TEST(MoeFfnBackwardErrorsTest, WrongArgumentsAreNamedAndNothingIsWritten) {
  const Context context = MakeContext(1);
  const Layer layer(context, DType::kF32, {9, 3, 2, 5, 4}, 4);
  Gradients out(layer);
  const auto reject = [&](const ExpertTensors& tensors, ConstTensorView d_out,
                          const MoeFfnGradients& gradients) {
    return Rejection([&] {
      MoeFfnBackward(context, layer.x.view(), layer.plan, tensors, d_out, {}, gradients);
    });
  };
  ExpertTensors wrong = layer.tensors();
  wrong.down = layer.gate_up.Stacked(3);
  EXPECT_EQ(reject(wrong, layer.d_out.view(), out.views()),
            "[moe_ffn_backward] gate_up must be [E,2F,H] (no gate: [E,F,H]) and down [E,H,F] of "
            "the input's H; got gate_up [3,8,5] f32, down [3,8,5] f32, input [9,5] f32");
  EXPECT_EQ(reject(layer.tensors(), Matrix(DType::kF32, 9, 4).view(), out.views()),
            "[moe_ffn_backward] d_out must be [T,H] f32, bf16 or f16; got [9,4] f32 for input "
            "[9,5] f32");
  MoeFfnGradients twice = out.views();
  twice.d_down_bias = TensorView(out.gate_up.view().mutable_data(), DType::kF32, Shape{3, 5});
  EXPECT_EQ(reject(layer.tensors(), layer.d_out.view(), twice),
            "[moe_ffn_backward] gradients must not overlap the arguments or each other; got [3,5] "
            "f32");
  const Matrix saved(DType::kF32, 9, 8);
  const int64_t rows = layer.plan.num_rows();
  ASSERT_NE(rows, 9);
  EXPECT_EQ(Rejection([&] {
              MoeFfnBackward(context, layer.x.view(), layer.plan, layer.tensors(),
                             layer.d_out.view(), {.saved_gate_up = saved.view()}, out.views());
            }),
            "[moe_ffn_backward] saved_gate_up must be [R,2F] (no gate: [R,F]) f32, bf16 or f16, or "
            "absent; got [9,8] f32 for " +
                std::to_string(rows) + " rows of [3,8,5] f32");
  const Layer plain(context, DType::kF32, {9, 3, 2, 5, 4, false}, 4);
  EXPECT_EQ(Rejection([&] {
              MoeFfnBackward(context, plain.x.view(), plain.plan, plain.tensors(),
                             plain.d_out.view(), {.activation = Activation::kClampedSwiglu},
                             Gradients(plain).views());
            }),
            "[moe_ffn_backward] clamped SwiGLU must have a gate; got gate_up [3,4,5] f32");
  EXPECT_TRUE(out.down.IsUnwritten(0) && out.x.IsUnwritten(0));
}

}  // namespace
}  // namespace opst
