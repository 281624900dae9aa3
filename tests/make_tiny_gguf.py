# Writes checkpoints of tests/data/tiny as GGUF files under tests/data/gguf; tests only read them.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""Usage: python tests/make_tiny_gguf.py [NAME...]

Needs the packages `gguf` and `safetensors`. Names, settings and the order of rows are those that
llama.cpp's converter gives to the same families, written down here independently of the reader.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

TINY = pathlib.Path(__file__).resolve().parent / "data" / "tiny"
OUTPUT = pathlib.Path(__file__).resolve().parent / "data" / "gguf"

# Name of the file -> folder in tests/data/tiny, architecture, and the split in parts (tensors each).
FILES = {
    "mixtral": ("mixtral", "llama", 12),
    "olmoe": ("olmoe", "olmoe", 0),
    "qwen3-moe": ("qwen3-moe", "qwen3moe", 0),
    "qwen3-moe-bf16": ("qwen3-moe-bf16", "qwen3moe", 0),
    "qwen2-moe": ("qwen2-moe", "qwen2moe", 0),
    "qwen3": ("qwen3", "qwen3", 0),
    "deepseek-v2-lite": ("deepseek-v2-lite", "deepseek2", 0),
    "deepseek-v3": ("deepseek-v3", "deepseek2", 0),
    "gpt-oss": ("gpt-oss", "gpt-oss", 0),
}

LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "block_sparse_moe.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.bias": "attn_output.bias",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
    "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "self_attn.q_a_proj.weight": "attn_q_a.weight",
    "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "self_attn.q_b_proj.weight": "attn_q_b.weight",
    "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "self_attn.kv_b_proj.weight": "attn_kv_b.weight",
}
# gpt-oss calls some parts otherwise, and keeps gate and up columns in turn.
GPT_OSS_NAMES = {
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "mlp.router.weight": "ffn_gate_inp.weight",
    "mlp.router.bias": "ffn_gate_inp.bias",
    "self_attn.sinks": "attn_sinks.weight",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
}
EXPERT_NAMES = {
    "w1": "ffn_gate_exps.weight",
    "w3": "ffn_up_exps.weight",
    "w2": "ffn_down_exps.weight",
    "gate_proj": "ffn_gate_exps.weight",
    "up_proj": "ffn_up_exps.weight",
    "down_proj": "ffn_down_exps.weight",
}
TOP_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def interleaved(weight, heads):
    """Rows (half, pair) of every head as (pair, half): what llama.cpp's rotary embedding expects."""
    rows = weight.shape[0] // heads
    return weight.reshape(heads, 2, rows // 2, -1).transpose(1, 2).reshape(weight.shape)


def special(layer, rest, tensor, config, arch):
    """The tensors that some architectures store in another form; none for all others."""
    if arch == "gpt-oss" and rest == "mlp.experts.gate_up_proj":
        both = tensor.transpose(1, 2)
        return {f"blk.{layer}.ffn_gate_exps.weight": both[:, ::2], f"blk.{layer}.ffn_up_exps.weight": both[:, 1::2]}
    if arch == "gpt-oss" and rest == "mlp.experts.gate_up_proj_bias":
        return {f"blk.{layer}.ffn_gate_exps.bias": tensor[:, ::2], f"blk.{layer}.ffn_up_exps.bias": tensor[:, 1::2]}
    if arch == "gpt-oss" and rest == "mlp.experts.down_proj":
        return {f"blk.{layer}.ffn_down_exps.weight": tensor.transpose(1, 2)}
    if rest == "mlp.shared_expert_gate.weight":
        return {f"blk.{layer}.ffn_gate_inp_shexp.weight": tensor[0]}
    # Newer files of DeepSeek-V3 keep keys and values apart, keys transposed.
    if config["model_type"] == "deepseek_v3" and rest == "self_attn.kv_b_proj.weight":
        heads, value = config["num_attention_heads"], config["v_head_dim"]
        both = tensor.reshape(heads, -1, tensor.shape[1])
        keys, values = both[:, :-value], both[:, -value:]
        return {f"blk.{layer}.attn_k_b.weight": keys.transpose(1, 2), f"blk.{layer}.attn_v_b.weight": values}
    return None


def renamed(tensors, config, arch):
    result, experts = {}, {}
    names = {**LAYER_NAMES, **GPT_OSS_NAMES} if arch == "gpt-oss" else LAYER_NAMES
    for name, tensor in tensors.items():
        if name in TOP_NAMES:
            result[TOP_NAMES[name]] = tensor
            continue
        _, _, layer, rest = name.split(".", 3)
        if int(layer) >= config["num_hidden_layers"]:
            continue  # layers that guess further tokens
        if parts := special(layer, rest, tensor, config, arch):
            result |= parts
            continue
        if ".experts." in rest and rest not in names:
            number, role, _ = rest.split(".experts.")[1].split(".")
            key = f"blk.{layer}.{EXPERT_NAMES[role]}"
            experts.setdefault(key, {})[int(number)] = tensor
            continue
        if arch == "llama" and rest.startswith("self_attn.q_proj"):
            tensor = interleaved(tensor, config["num_attention_heads"])
        if arch == "llama" and rest.startswith("self_attn.k_proj"):
            tensor = interleaved(tensor, config["num_key_value_heads"])
        result[f"blk.{layer}.{names[rest]}"] = tensor
    for key, table in experts.items():
        result[key] = torch.stack([table[number] for number in range(len(table))])
    return result


def add_settings(writer, config, arch):
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    for key in ("num_local_experts", "num_experts", "n_routed_experts"):
        if config.get(key):
            writer.add_expert_count(config[key])
            writer.add_expert_used_count(config["num_experts_per_tok"])
    if arch == "deepseek2":
        add_latent_settings(writer, config)
    else:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim)
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        if "mscale_all_dim" in scaling:
            writer.add_rope_scaling_yarn_log_mul(0.1 * scaling["mscale_all_dim"])
    if arch == "gpt-oss":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if arch == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_eos_token_id(config["eos_token_id"])


def add_latent_settings(writer, config):
    rope = config["qk_rope_head_dim"]
    writer.add_rope_dimension_count(rope)
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    if config["model_type"] == "deepseek_v3":  # the newer form
        writer.add_key_length(config["kv_lora_rank"] + rope)
        writer.add_value_length(config["kv_lora_rank"])
        writer.add_key_length_mla(config["qk_nope_head_dim"] + rope)
        writer.add_value_length_mla(config["v_head_dim"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    else:
        writer.add_key_length(config["qk_nope_head_dim"] + rope)
        writer.add_value_length(config["v_head_dim"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(config["norm_topk_prob"])


def make(name, folder, arch, split):
    config = json.loads((TINY / folder / "config.json").read_text())
    OUTPUT.mkdir(exist_ok=True)
    for old in OUTPUT.glob(f"{name}.gguf" if not split else f"{name}-0*.gguf"):
        old.unlink()
    writer = gguf.GGUFWriter(OUTPUT / f"{name}.gguf", arch, split_max_tensors=split)
    add_settings(writer, config, arch)
    tensors = renamed(load_file(TINY / folder / "model.safetensors"), config, arch)
    for key, tensor in tensors.items():
        if tensor.dtype == torch.bfloat16 and tensor.dim() > 1:
            raw = tensor.contiguous().view(torch.int16).numpy().view(np.uint8)
            writer.add_tensor(key, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:  # vectors are always F32
            writer.add_tensor(key, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    for name in sys.argv[1:] or list(FILES):
        make(name, *FILES[name])


if __name__ == "__main__":
    main()
