# The MoE blocks of LLaMA-MoE v1 and v2, written by hand since transformers has neither.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""A Llama of transformers whose feed-forward blocks are replaced by the ones below.

Modules are named so that the state dict has the tensor names of the published checkpoints, but for
the renaming that `save` does. Formulas: the papers, arXiv:2406.16554 and arXiv:2411.15708.
"""

import dataclasses
import json
from collections.abc import Callable

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional


def mix(experts, x, ids, weights):
    """sum_j weights[t, j] * experts[ids[t, j]](x[t]), token by token."""
    rows = []
    for token in range(x.shape[0]):
        chosen = zip(ids[token].tolist(), weights[token], strict=True)
        rows.append(sum(weight * experts(x[token], expert) for expert, weight in chosen))
    return torch.stack(rows)


class Watched(nn.Module):
    """Shows a router to RouterWatch, which looks for the class name below."""


class HandMadeTopKRouter(Watched):
    def __init__(self, network, top_k, scale):
        super().__init__()
        self.gate_network = network
        self.top_k, self.scale = top_k, scale

    def forward(self, x):
        logits = self.gate_network(x)
        best = logits.topk(self.top_k, dim=-1)
        return logits, best.values.softmax(dim=-1) * self.scale, best.indices


class SplitExperts(nn.Module):
    """The neurons of one Llama block, cut into experts of equal width."""

    def __init__(self, hidden, width, num_experts):
        super().__init__()

        def matrices(*shape):
            return nn.ParameterList(nn.Parameter(torch.empty(*shape)) for _ in range(num_experts))

        self.weight_gate = matrices(width, hidden)
        self.weight_up = matrices(width, hidden)
        self.weight_down = matrices(hidden, width)

    def forward(self, x, expert):
        gate = functional.silu(x @ self.weight_gate[expert].T)
        return (gate * (x @ self.weight_up[expert].T)) @ self.weight_down[expert].T


class Calculator(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.experts = experts


class SplitBlock(nn.Module):
    """Version 1: a router with a hidden tanh layer, and a scale of each layer's own."""

    NUM_EXPERTS, TOP_K, SCALES = 6, 2, [3.0, 2.5]

    def __init__(self, config, layer):
        super().__init__()
        hidden, experts = config.hidden_size, self.NUM_EXPERTS
        network = nn.Sequential(
            nn.Linear(hidden, experts, bias=False), nn.Tanh(), nn.Linear(experts, experts, bias=False)
        )
        self.gate = HandMadeTopKRouter(network, self.TOP_K, self.SCALES[layer])
        self.calculator = Calculator(SplitExperts(hidden, config.intermediate_size // experts, experts))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        _, weights, ids = self.gate(rows)
        return mix(self.calculator.experts, rows, ids, weights).view_as(x)


class GatedBlock(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.w1 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(hidden, width, bias=False)
        self.w2 = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class ResidualBlock(nn.Module):
    """Version 2: Mixtral's block with a scale, and an expert beside it that every token takes."""

    NUM_EXPERTS, TOP_K, SCALE, RESIDUAL = 5, 2, 1.75, 17

    def __init__(self, config, layer):
        super().__init__()
        hidden, width = config.hidden_size, config.intermediate_size
        if layer in (0, config.num_hidden_layers - 1):  # one dense layer at each end
            self.moe = GatedBlock(hidden, width * self.NUM_EXPERTS)
            return
        self.moe = nn.Module()
        network = nn.Linear(hidden, self.NUM_EXPERTS, bias=False)
        self.moe.gate = HandMadeTopKRouter(network, self.TOP_K, self.SCALE)
        self.moe.experts = nn.ModuleList(GatedBlock(hidden, width) for _ in range(self.NUM_EXPERTS))
        self.residual = GatedBlock(hidden, self.RESIDUAL)

    def forward(self, x):
        if isinstance(self.moe, GatedBlock):
            return self.moe(x)
        rows = x.reshape(-1, x.shape[-1])
        _, weights, ids = self.moe.gate(rows)

        def experts(row, expert):
            return self.moe.experts[expert](row)

        return mix(experts, rows, ids, weights).view_as(x) + self.residual(x)


@dataclasses.dataclass
class HandMade:
    block: type[nn.Module]
    fields: dict
    rename: Callable[[str], str]

    def replace_blocks(self, model):
        for index, layer in enumerate(model.model.layers):
            layer.mlp = self.block(model.config, index)
        return model

    def save(self, model, folder):
        """config.json in the published dialect and one safetensors file."""
        folder.mkdir(parents=True)
        config = model.config
        kept = (
            "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
            "num_key_value_heads hidden_act max_position_embeddings initializer_range rms_norm_eps "
            "bos_token_id eos_token_id tie_word_embeddings"
        ).split()
        fields = {key: getattr(config, key) for key in kept}
        fields |= {
            "rope_theta": config.rope_parameters["rope_theta"],
            "torch_dtype": str(model.dtype).removeprefix("torch."),
        }
        text = json.dumps(fields | self.fields, indent=2, sort_keys=True)
        (folder / "config.json").write_text(text + "\n")
        tensors = {self.rename(name): value for name, value in model.state_dict().items()}
        # Both published versions carry buffers or weights that inference never reads.
        if self.block is SplitBlock:
            for index in range(config.num_hidden_layers):
                name = f"model.layers.{index}.mlp.gate.weight_noise.weight"
                tensors[name] = torch.zeros(SplitBlock.NUM_EXPERTS, config.hidden_size, dtype=model.dtype)
        tensors = {name: tensors[name].contiguous() for name in sorted(tensors)}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


VERSION_1 = HandMade(
    SplitBlock,
    {
        "model_type": "llama_moe",
        "num_experts": SplitBlock.NUM_EXPERTS,
        "num_selects": SplitBlock.TOP_K,
        "score_scale_factor": SplitBlock.SCALES,
        "size_experts": [[10] * SplitBlock.NUM_EXPERTS] * 2,
        "gate_type": "TopKBalancedNoisyGate",
        "gate_network": "mlp",
        "gate_use_softmax": True,
        "gate_add_noise": True,
        "calculator_type": "UniversalCalculator",
        "multiply_gate_scores": True,
        "add_weight_norm": False,
    },
    lambda name: name,
)
VERSION_2 = HandMade(
    ResidualBlock,
    {
        "model_type": "mixtral",
        "num_local_experts": ResidualBlock.NUM_EXPERTS,
        "num_experts_per_tok": ResidualBlock.TOP_K,
        "scale_factor": ResidualBlock.SCALE,
        "intermediate_size_residual": ResidualBlock.RESIDUAL,
        "num_moe_contract_layers": 1,
        "moe_type": "modulelist",
        "use_attn_moe": False,
        "add_rescale_bias": False,
        "sliding_window": None,
    },
    lambda name: (
        name.replace(".mlp.moe.gate.gate_network.", ".block_sparse_moe.gate.")
        .replace(".mlp.moe.", ".block_sparse_moe.")
        .replace(".mlp.residual.", ".mlp_residual.")
    ),
)
