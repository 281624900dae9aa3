// Reads how a family turns positions into angles, from both dialects of config.json.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
//
// transformers 5 has one object rope_parameters; published files have rope_theta beside an object
// rope_scaling, which is null without scaling and calls its kind "type" or "rope_type".
#include <cmath>
#include <string>

#include "base/check.h"
#include "model/config_fields.h"

namespace opst {
namespace {

using Scaling = RopeRecipe::Scaling;

constexpr double kMinTheta = 1.0;
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

std::optional<ConfigReader> ScalingObject(ConfigReader& config) {
  auto scaling = config.Object("rope_scaling");
  auto parameters = config.Object("rope_parameters");
  if (scaling && parameters) {
    config.Refuse("rope_scaling", "must not stand beside rope_parameters");
  }
  return scaling ? std::move(scaling) : std::move(parameters);
}

// Log-like growth of the scores' spread with the length of the text.
double MagnitudeScale(double factor, double slope) {
  return factor <= 1 ? 1.0 : 0.1 * slope * std::log(factor) + 1.0;
}

double YarnAmplitude(ConfigReader& object, double factor) {
  const double slope = object.Number("mscale", 0, 1e3, 0);
  const double all_slope = object.Number("mscale_all_dim", 0, 1e3, 0);
  const double natural = slope != 0 && all_slope != 0
                             ? MagnitudeScale(factor, slope) / MagnitudeScale(factor, all_slope)
                             : MagnitudeScale(factor, 1);
  return object.Number("attention_factor", 1e-3, 1e3, natural);
}

void ReadYarn(ConfigReader& object, RopeRecipe& rope) {
  rope.scaling = Scaling::kYarn;
  // The ramp is found by logarithms of theta.
  if (rope.theta <= 1) object.Refuse("rope_theta", "must be above 1 for yarn");
  // 0 stands for the default, as in the reference.
  const double fast = object.Number("beta_fast", 0, 1e6, 0);
  const double slow = object.Number("beta_slow", 0, 1e6, 0);
  if (fast != 0) rope.beta_fast = fast;
  if (slow != 0) rope.beta_slow = slow;
  rope.truncates = object.Bool("truncate", true);
  rope.amplitude = static_cast<float>(YarnAmplitude(object, rope.factor));
}

void ReadLlama3(ConfigReader& object, RopeRecipe& rope) {
  rope.scaling = Scaling::kLlama3;
  rope.low_frequency_factor = object.Number("low_freq_factor", 1e-3, 1e6);
  rope.high_frequency_factor = object.Number("high_freq_factor", 1e-3, 1e6);
  if (rope.high_frequency_factor <= rope.low_frequency_factor) {
    object.Refuse("high_freq_factor", "must be above low_freq_factor");
  }
}

std::vector<float> ReadDivisors(ConfigReader& object, std::string_view key, int64_t dim) {
  const std::vector<double> numbers = object.Numbers(key, 1e-6, kMaxFactor);
  if (static_cast<int64_t>(numbers.size()) != dim / 2) {
    object.Refuse(key, Concat("must have one number per rotated pair (", dim / 2, ")"));
  }
  return {numbers.begin(), numbers.end()};
}

void ReadLongRope(ConfigReader& object, RopeRecipe& rope) {
  rope.scaling = Scaling::kLongRope;
  rope.short_factors = ReadDivisors(object, "short_factor", rope.dim);
  rope.long_factors = ReadDivisors(object, "long_factor", rope.dim);
  const auto length = static_cast<double>(rope.original_positions);
  const double natural =
      rope.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(rope.factor) / std::log(length));
  const double amplitude = object.Number("attention_factor", 1e-3, 1e3, natural);
  rope.amplitude = static_cast<float>(object.Number("short_mscale", 1e-3, 1e3, amplitude));
  rope.long_amplitude = static_cast<float>(object.Number("long_mscale", 1e-3, 1e3, amplitude));
}

// A length that a reader assumes must not decide how positions are scaled.
void CheckLengthsAreGiven(ConfigReader& config, ConfigReader& object, const std::string& kind) {
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  constexpr std::string_view kLength = "max_position_embeddings";
  if (kind == "linear") return;
  const bool has_original = object.Integer(kOriginal, 2, kMaxPositions, 0) > 0 ||
                            config.Integer(kOriginal, 2, kMaxPositions, 0) > 0;
  const bool has_factor = object.Number("factor", 1e-3, kMaxFactor, 0) > 0;
  if (kind == "yarn" && !has_factor && !has_original) {
    object.Refuse("factor", Concat("must be given where ", kOriginal, " is not"));
  }
  const bool is_enough = kind != "dynamic" && has_original && has_factor;
  if (!is_enough && config.Integer(kLength, 1, kMaxPositions, 0) == 0) {
    config.Refuse(kLength,
                  Concat("must be given, since the ", kind, " scaling of positions depends on it"));
  }
}

void ReadScaling(ConfigReader& config, ConfigReader& object, int64_t max_positions,
                 RopeRecipe& rope) {
  std::string kind = object.String("rope_type", object.String("type", "default"));
  object.Ignore({"type"});
  if (kind == "default") return;
  if (kind == "su") kind = "longrope";  // its first name
  CheckLengthsAreGiven(config, object, kind);
  // The trained length stands in either place; the outer one wins.
  const int64_t inner =
      object.Integer("original_max_position_embeddings", 2, kMaxPositions, max_positions);
  rope.original_positions =
      config.Integer("original_max_position_embeddings", 2, kMaxPositions, inner);
  if (rope.original_positions < 2) {
    object.Refuse("original_max_position_embeddings", "must be at least 2");
  }
  const double grown =
      static_cast<double>(max_positions) / static_cast<double>(rope.original_positions);
  const bool may_omit = kind == "yarn" || kind == "longrope";
  rope.factor = may_omit ? object.Number("factor", 1e-3, kMaxFactor, grown)
                         : object.Number("factor", 1e-3, kMaxFactor);
  if (kind == "linear") {
    rope.scaling = Scaling::kLinear;
  } else if (kind == "dynamic") {
    rope.scaling = Scaling::kDynamic;
    rope.original_positions = max_positions;
    if (rope.dim <= 2 || rope.factor < 1) object.Refuse("factor", "must be at least 1");
  } else if (kind == "yarn") {
    ReadYarn(object, rope);
  } else if (kind == "llama3") {
    ReadLlama3(object, rope);
  } else if (kind == "longrope") {
    ReadLongRope(object, rope);
  } else {
    object.Refuse("rope_type", "must be default, linear, dynamic, yarn, llama3 or longrope");
  }
}

}  // namespace

RopeRecipe ReadRope(ConfigReader& config, int64_t head_dim, int64_t max_positions,
                    const AttentionDefaults& defaults) {
  RopeRecipe rope;
  double theta = config.Number("rope_theta", kMinTheta, kMaxTheta, defaults.theta);
  double share = config.Number("partial_rotary_factor", 0, 1, defaults.rotated_share);
  auto object = ScalingObject(config);
  if (object) {
    theta = object->Number("rope_theta", kMinTheta, kMaxTheta, theta);
    share = object->Number("partial_rotary_factor", 0, 1, share);
  }
  // Of the families only those with a share of their own read the field; transformers ignores it in
  // the others, or fails.
  if (defaults.rotated_share == 1 && share != 1) {
    config.Refuse("partial_rotary_factor", "must be 1 in this family");
  }
  rope.theta = static_cast<float>(theta);
  rope.dim = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  if (rope.dim < 2 || rope.dim % 2 != 0) {
    config.Refuse("partial_rotary_factor", Concat("must leave an even number of the ", head_dim,
                                                  " elements of a head to rotate"));
  }
  if (object) {
    ReadScaling(config, *object, max_positions, rope);
    config.Adopt(*object);
  }
  return rope;
}

double ReadLatentScoreFactor(ConfigReader& config) {
  auto object = ScalingObject(config);
  if (!object) return 1;
  const std::string kind = object->String("rope_type", object->String("type", "default"));
  const double slope = object->Number("mscale_all_dim", 0, 1e3, 0);
  if (kind == "default" || slope == 0) return 1;
  const double scale = MagnitudeScale(object->Number("factor", 1e-3, kMaxFactor), slope);
  return scale * scale;
}

}  // namespace opst
