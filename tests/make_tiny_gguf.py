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


def renamed(tensors, config, arch):
    result, experts = {}, {}
    for name, tensor in tensors.items():
        if name in TOP_NAMES:
            result[TOP_NAMES[name]] = tensor
            continue
        _, _, layer, rest = name.split(".", 3)
        if ".experts." in rest:
            number, role, _ = rest.split(".experts.")[1].split(".")
            key = f"blk.{layer}.{EXPERT_NAMES[role]}"
            experts.setdefault(key, {})[int(number)] = tensor
            continue
        if arch == "llama" and rest.startswith("self_attn.q_proj"):
            tensor = interleaved(tensor, config["num_attention_heads"])
        if arch == "llama" and rest.startswith("self_attn.k_proj"):
            tensor = interleaved(tensor, config["num_key_value_heads"])
        result[f"blk.{layer}.{LAYER_NAMES[rest]}"] = tensor
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
    writer.add_expert_count(config.get("num_local_experts") or config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim)
    if arch == "qwen3moe":
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_eos_token_id(config["eos_token_id"])


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
