// The defaults of the C structs are those of their C++ counterparts.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "capi/conversions.h"
#include "opst/memory_plan.h"
#include "opst/ops/expert_choice.h"
#include "opst/ops/expert_placement.h"
#include "opst/ops/grouped_matmul.h"
#include "opst/ops/hash_routing.h"
#include "opst/ops/loss.h"
#include "opst/ops/moe_ffn.h"
#include "opst/ops/permute.h"

namespace opst::capi {
namespace {

const Call call("test");

TEST(DefaultsTest, GatingOptionsAreThoseOfCpp) {
  const GatingOptions c = ToGatingOptions(call, nullptr), cpp;
  EXPECT_EQ(c.top_k, cpp.top_k);
  EXPECT_EQ(c.score_function, cpp.score_function);
  EXPECT_EQ(c.selection, cpp.selection);
  EXPECT_EQ(c.load_balance_ratio, cpp.load_balance_ratio);
  EXPECT_EQ(c.num_groups, cpp.num_groups);
  EXPECT_EQ(c.num_kept_groups, cpp.num_kept_groups);
  EXPECT_EQ(c.group_score, cpp.group_score);
  EXPECT_EQ(c.sparsemixer_epsilon, cpp.sparsemixer_epsilon);
  EXPECT_EQ(c.renormalizes, cpp.renormalizes);
  EXPECT_EQ(c.renormalization_epsilon, cpp.renormalization_epsilon);
  EXPECT_EQ(c.scale, cpp.scale);
  const opst_selection_options selection = OPST_SELECTION_OPTIONS_DEFAULT;
  EXPECT_EQ(ToSelection(call, &selection), SelectionOptions{});
}

TEST(DefaultsTest, RoutingPlanOptionsAreThoseOfCpp) {
  const RoutingPlanOptions c = ToPlanOptions(call, nullptr), cpp;
  EXPECT_EQ(c.capacity_factor, cpp.capacity_factor);
  EXPECT_EQ(c.min_capacity, cpp.min_capacity);
  EXPECT_EQ(c.pads_to_capacity, cpp.pads_to_capacity);
  EXPECT_EQ(c.active_experts.end, cpp.active_experts.end);
  EXPECT_EQ(c.drop_order, cpp.drop_order);
  const opst_expert_choice_options choice = OPST_EXPERT_CHOICE_OPTIONS_DEFAULT;
  EXPECT_EQ(choice.capacity_factor, ExpertChoiceRoutingOptions{}.capacity_factor);
  EXPECT_EQ(choice.renormalizes == 1, ExpertChoiceRoutingOptions{}.renormalizes);
  const opst_hash_routing_options hash = OPST_HASH_ROUTING_OPTIONS_DEFAULT;
  EXPECT_EQ(hash.top_k, HashRoutingOptions{}.top_k);
  EXPECT_EQ(hash.seed, HashRoutingOptions{}.seed);
}

TEST(DefaultsTest, LossAndBalanceOptionsAreThoseOfCpp) {
  const opst_balance_loss_options balance = OPST_BALANCE_LOSS_OPTIONS_DEFAULT;
  EXPECT_EQ(balance.coefficient, BalanceLossOptions{}.coefficient);
  EXPECT_EQ(balance.sequence_length, BalanceLossOptions{}.sequence_length);
  EXPECT_EQ(balance.values, static_cast<int32_t>(BalanceLossOptions{}.values));
  EXPECT_EQ(balance.count, static_cast<int32_t>(BalanceLossOptions{}.count));
  const opst_router_loss_options router = OPST_ROUTER_LOSS_OPTIONS_DEFAULT;
  EXPECT_EQ(router.coefficient, RouterLossOptions{}.coefficient);
  const opst_load_tracker_options tracker = OPST_LOAD_TRACKER_OPTIONS_DEFAULT;
  EXPECT_EQ(tracker.decay, LoadTrackerOptions{}.decay);
  const opst_bias_update_options bias = OPST_BIAS_UPDATE_OPTIONS_DEFAULT;
  EXPECT_EQ(bias.rate, BiasUpdateOptions{}.rate);
  EXPECT_EQ(bias.centers == 1, BiasUpdateOptions{}.centers);
  const opst_expert_placement_options placement = OPST_EXPERT_PLACEMENT_OPTIONS_DEFAULT;
  EXPECT_EQ(placement.num_slots, ExpertPlacementOptions{}.num_slots);
  EXPECT_EQ(placement.num_ranks, ExpertPlacementOptions{}.num_ranks);
  EXPECT_EQ(placement.num_nodes, ExpertPlacementOptions{}.num_nodes);
  EXPECT_EQ(placement.num_groups, ExpertPlacementOptions{}.num_groups);
}

TEST(DefaultsTest, MovementAndExpertOptionsAreThoseOfCpp) {
  const opst_quantized_permute_options permute = OPST_QUANTIZED_PERMUTE_OPTIONS_DEFAULT;
  EXPECT_EQ(permute.quantization, static_cast<int32_t>(QuantizedPermuteOptions{}.quantization));
  EXPECT_EQ(permute.scale, QuantizedPermuteOptions{}.scale);
  EXPECT_EQ(permute.offset, QuantizedPermuteOptions{}.offset);
  const opst_finalize_options finalize = OPST_FINALIZE_OPTIONS_DEFAULT;
  EXPECT_EQ(finalize.order, static_cast<int32_t>(FinalizeOptions{}.order));
  const opst_grouped_matmul_options matmul = OPST_GROUPED_MATMUL_OPTIONS_DEFAULT;
  EXPECT_EQ(matmul.output_mode, static_cast<int32_t>(GroupedMatmulOptions{}.output_mode));
  EXPECT_EQ(matmul.activation == OPST_NO_ACTIVATION, !GroupedMatmulOptions{}.activation);
  const opst_moe_ffn_options ffn = OPST_MOE_FFN_OPTIONS_DEFAULT;
  EXPECT_EQ(ffn.activation, static_cast<int32_t>(MoeFfnOptions{}.activation));
  EXPECT_EQ(ffn.alpha, ActivationLimits{}.alpha);
  EXPECT_EQ(ffn.limit, ActivationLimits{}.limit);
  EXPECT_EQ(ffn.workspace_bytes, MoeFfnOptions{}.workspace_bytes);
}

TEST(DefaultsTest, LayerOptionsAreThoseOfCpp) {
  const opst_moe_layer_options layer = OPST_MOE_LAYER_OPTIONS_DEFAULT;
  EXPECT_EQ(layer.score_function, static_cast<int32_t>(RoutingRecipe{}.score_function));
  EXPECT_EQ(layer.num_groups, RoutingRecipe{}.num_groups);
  EXPECT_EQ(layer.num_kept_groups, RoutingRecipe{}.num_kept_groups);
  EXPECT_EQ(layer.renormalizes == 1, RoutingRecipe{}.renormalizes);
  EXPECT_EQ(layer.scale, RoutingRecipe{}.scale);
  EXPECT_EQ(layer.sparsemixer_epsilon, RoutingRecipe{}.sparsemixer_epsilon);
  EXPECT_EQ(layer.load_balance_ratio, RoutingRecipe{}.load_balance_ratio);
  EXPECT_EQ(layer.activation, static_cast<int32_t>(FfnRecipe{}.activation));
  EXPECT_EQ(layer.alpha, FfnRecipe{}.limits.alpha);
  EXPECT_EQ(layer.limit, FfnRecipe{}.limits.limit);
}

TEST(DefaultsTest, SamplingOptionsAreThoseOfCpp) {
  const opst_sampling_options sampling = OPST_SAMPLING_OPTIONS_DEFAULT;
  EXPECT_EQ(sampling.temperature, SamplingOptions{}.temperature);
  EXPECT_EQ(sampling.top_k, SamplingOptions{}.top_k);
  EXPECT_EQ(sampling.top_p, SamplingOptions{}.top_p);
  EXPECT_EQ(sampling.min_p, SamplingOptions{}.min_p);
  EXPECT_EQ(sampling.repetition_penalty, SamplingOptions{}.repetition_penalty);
  EXPECT_EQ(sampling.presence_penalty, SamplingOptions{}.presence_penalty);
  EXPECT_EQ(sampling.frequency_penalty, SamplingOptions{}.frequency_penalty);
  EXPECT_EQ(sampling.seed, SamplingOptions{}.seed);
}

TEST(DefaultsTest, TextOptionsAreThoseOfCpp) {
  const opst_generate_options generate = OPST_GENERATE_OPTIONS_DEFAULT;
  EXPECT_EQ(generate.max_new_tokens, GenerateOptions{}.max_new_tokens);
  EXPECT_EQ(generate.ignores_end_tokens == 1, GenerateOptions{}.ignores_end_tokens);
  EXPECT_EQ(generate.context_length, GenerateOptions{}.context_length);
  EXPECT_EQ(generate.prefill_chunk, GenerateOptions{}.prefill_chunk);
  EXPECT_EQ(generate.num_log_probs == -1, !GenerateOptions{}.num_log_probs.has_value());
  const opst_encode_options encode = OPST_ENCODE_OPTIONS_DEFAULT;
  EXPECT_EQ(encode.adds_special_tokens == 1, EncodeOptions{}.add_special_tokens);
  EXPECT_EQ(encode.special_tokens_as_text == 1, EncodeOptions{}.special_tokens_as_text);
  const opst_decode_options decode = OPST_DECODE_OPTIONS_DEFAULT;
  EXPECT_EQ(decode.skips_special_tokens == 1, DecodeOptions{}.skip_special_tokens);
  const opst_chat_options chat = OPST_CHAT_OPTIONS_DEFAULT;
  EXPECT_EQ(chat.adds_generation_prompt == 1, ChatOptions{}.adds_generation_prompt);
  const opst_perplexity_options perplexity = OPST_PERPLEXITY_OPTIONS_DEFAULT;
  EXPECT_EQ(perplexity.window, PerplexityOptions{}.window);
  EXPECT_EQ(perplexity.batch_size, PerplexityOptions{}.batch_size);
  EXPECT_EQ(perplexity.decodes == 1, PerplexityOptions{}.decodes);
}

TEST(DefaultsTest, FileAndMemoryOptionsAreThoseOfCpp) {
  const opst_convert_options convert = OPST_CONVERT_OPTIONS_DEFAULT;
  EXPECT_EQ(convert.overwrites == 1, ConvertOptions{}.overwrites);
  EXPECT_EQ(convert.is_strict == 1, ConvertOptions{}.is_strict);
  EXPECT_EQ(convert.expanded, static_cast<int32_t>(ConvertOptions{}.expanded));
  EXPECT_EQ(convert.moe_of_dense, static_cast<int32_t>(ConvertOptions{}.moe_of_dense.kind));
  EXPECT_EQ(convert.quantized == OPST_WEIGHTS_KEPT, !ConvertOptions{}.quantized.has_value());
  EXPECT_EQ(convert.group, kDefaultGroup);
  const opst_pack_options pack = OPST_PACK_OPTIONS_DEFAULT;
  EXPECT_EQ(pack.group, WeightType{}.group);
  EXPECT_EQ(pack.format, static_cast<int32_t>(WeightType{}.format));
  EXPECT_EQ(pack.order, static_cast<int32_t>(PanelLayout{}.order));
  const opst_memory_plan_options memory = OPST_MEMORY_PLAN_OPTIONS_DEFAULT;
  EXPECT_EQ(memory.context_length, MemoryPlanOptions{}.context_length);
  EXPECT_EQ(memory.batch_size, MemoryPlanOptions{}.batch_size);
  EXPECT_EQ(memory.prefill_chunk, MemoryPlanOptions{}.prefill_chunk);
}

}  // namespace
}  // namespace opst::capi
