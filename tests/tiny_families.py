# Configurations of the tiny checkpoints of the newer families; make_tiny_checkpoints.py makes them.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""One entry per variant of a family's config that changes the arithmetic.

Sizes are small and odd on purpose. The prompt has 24 tokens and 64 follow: windows and trained
lengths below 88 are crossed while text is generated.
"""

import llama_moe_reference
import torch
from transformers import (
    DeepseekV2Config,
    DeepseekV3Config,
    Ernie4_5_MoeConfig,
    Glm4MoeConfig,
    GptOssConfig,
    GraniteMoeConfig,
    LlamaConfig,
    PhimoeConfig,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
)

COMMON = dict(vocab_size=81, max_position_embeddings=256, bos_token_id=1, eos_token_id=2)


def rope(theta, kind="default", **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def sizes(hidden, layers, heads, kv_heads):
    return dict(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        **COMMON,
    )


# fmt: off
QWEN2_MOE = dict(
    intermediate_size=34, moe_intermediate_size=19, shared_expert_intermediate_size=27,
    num_experts=6, num_experts_per_tok=3,
)
DEEPSEEK = dict(
    intermediate_size=37, moe_intermediate_size=13, num_experts_per_tok=3, n_routed_experts=8,
    first_k_dense_replace=1, kv_lora_rank=18, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
)
# Scores spread by mscale, positions by 4.
YARN = dict(
    factor=4.0, original_max_position_embeddings=32, beta_fast=32, beta_slow=1, mscale=0.707,
    mscale_all_dim=0.707,
)
LONG = dict(
    short_factor=[1.0, 1.05, 1.1, 1.2, 1.35], long_factor=[1.1, 1.5, 2.2, 3.5, 5.0],
    short_mscale=1.2, long_mscale=1.4, original_max_position_embeddings=128,
)

CHECKPOINTS = {
    "qwen2-moe": dict(
        config=Qwen2MoeConfig(
            **sizes(36, 2, 6, 2), **QWEN2_MOE, norm_topk_prob=False, mlp_only_layers=[0],
            rope_parameters=rope(8000.0),
        ),
        published_config=True,
    ),
    "qwen2-moe-window": dict(
        config=Qwen2MoeConfig(
            **sizes(32, 3, 4, 4), **QWEN2_MOE, norm_topk_prob=True, use_sliding_window=True,
            sliding_window=9, max_window_layers=2, tie_word_embeddings=True,
            rope_parameters=rope(5000.0, "linear", factor=2.5),
        ),
        dtype=torch.float16,
    ),
    "llama": dict(
        config=LlamaConfig(
            **sizes(36, 2, 6, 2), intermediate_size=50, attention_bias=True,
            rope_parameters=rope(
                500.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        published_config=True,
    ),
    # The trained length, 48, is passed while the tokens follow.
    "llama-dynamic": dict(
        config=LlamaConfig(
            **{**sizes(32, 2, 4, 4), "max_position_embeddings": 48}, intermediate_size=45,
            tie_word_embeddings=True, rope_parameters=rope(300.0, "dynamic", factor=3.0),
        ),
    ),
    "qwen2": dict(
        config=Qwen2Config(
            **sizes(32, 3, 4, 2), intermediate_size=42, use_sliding_window=True, sliding_window=11,
            max_window_layers=1, rope_parameters=rope(9000.0),
        ),
        published_config=True,
    ),
    "qwen3": dict(
        config=Qwen3Config(
            **sizes(30, 2, 3, 1), intermediate_size=46, head_dim=14, tie_word_embeddings=True,
            rope_parameters=rope(
                2000.0, "yarn", factor=4.0, original_max_position_embeddings=64,
            ),
        ),
        published_config=True,
    ),
    # As V2-Lite: no ranks for queries, no groups.
    "deepseek-v2-lite": dict(
        config=DeepseekV2Config(
            **sizes(33, 2, 3, 3), **DEEPSEEK, q_lora_rank=None, n_shared_experts=2,
            topk_method="greedy", routed_scaling_factor=1.0, n_group=1, topk_group=1,
            rope_parameters=rope(700.0, "yarn", **YARN),
        ),
        dtype=torch.bfloat16,
        published_config=True,
    ),
    "deepseek-v2": dict(
        config=DeepseekV2Config(
            **sizes(32, 2, 4, 4), **DEEPSEEK, q_lora_rank=21, n_shared_experts=1,
            topk_method="group_limited_greedy", n_group=4, topk_group=2,
            routed_scaling_factor=3.0, rope_parameters=rope(4000.0),
        ),
        dtype=torch.bfloat16,
    ),
    "deepseek-v3": dict(
        config=DeepseekV3Config(
            **sizes(32, 3, 4, 4), **DEEPSEEK, q_lora_rank=20, n_shared_experts=1, n_group=4,
            topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5, num_mtp_layers=1,
            rope_parameters=rope(900.0, "yarn", **{**YARN, "mscale": 1.0, "mscale_all_dim": 0.8}),
        ),
        published_config=True,
    ),
    "gpt-oss": dict(
        config=GptOssConfig(
            **sizes(30, 2, 6, 2), intermediate_size=30, head_dim=10, num_local_experts=5,
            num_experts_per_tok=2, sliding_window=8, swiglu_limit=1.5,
            rope_parameters=rope(
                600.0, "yarn", factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=32,
            ),
        ),
        published_config=True,
    ),
    "glm4-moe": dict(
        config=Glm4MoeConfig(
            **sizes(32, 2, 4, 2), head_dim=12, intermediate_size=37, moe_intermediate_size=15,
            n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, n_group=1, topk_group=1,
            first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5,
            attention_bias=True, use_qk_norm=True, num_mtp_layers=1,
            rope_parameters=rope(3000.0, partial_rotary_factor=0.5),
        ),
        dtype=torch.bfloat16,
        published_config=True,
    ),
    "granite-moe": dict(
        config=GraniteMoeConfig(
            **sizes(32, 2, 4, 2), intermediate_size=21, num_local_experts=6, num_experts_per_tok=3,
            embedding_multiplier=12.0, attention_multiplier=0.0078125, residual_multiplier=0.22,
            logits_scaling=6.0, rope_parameters=rope(10000.0),
        ),
        dtype=torch.bfloat16,
        published_config=True,
    ),
    "ernie4-5-moe": dict(
        config=Ernie4_5_MoeConfig(
            **sizes(36, 3, 3, 1), head_dim=12, intermediate_size=40, moe_intermediate_size=13,
            moe_num_experts=7, moe_k=3, moe_num_shared_experts=2, moe_layer_start_index=1,
            moe_layer_end_index=-1, moe_layer_interval=1, rope_parameters=rope(2500.0),
        ),
        dtype=torch.bfloat16,
        published_config=True,
    ),
    "phimoe": dict(
        config=PhimoeConfig(
            **sizes(40, 2, 4, 2), intermediate_size=22, num_local_experts=5, num_experts_per_tok=2,
            router_jitter_noise=0.2, attention_bias=True, lm_head_bias=True,
            rope_parameters=rope(1000.0, "longrope", **LONG),
        ),
        published_config=True,
    ),
    # Written by hand: transformers does not have these two.
    "llama-moe": dict(
        config=LlamaConfig(
            **sizes(32, 2, 4, 4), intermediate_size=60, rope_parameters=rope(10000.0),
        ),
        build=llama_moe_reference.VERSION_1,
    ),
    "llama-moe-v2": dict(
        config=LlamaConfig(
            **sizes(32, 3, 4, 2), intermediate_size=14, rope_parameters=rope(500000.0),
        ),
        build=llama_moe_reference.VERSION_2,
    ),
}
# fmt: on
