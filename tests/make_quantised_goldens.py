# Writes tests/data/quantised: tiny quantised checkpoints and what they stand for; tests only read them.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""Usage: python tests/make_quantised_goldens.py

Every folder has config.json, model.safetensors (quantised parts with random bits) and
expected.safetensors (the plain tensors, by element-wise code that follows the formats' definitions).
"""

import json
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

OUTPUT = pathlib.Path(__file__).resolve().parent / "data" / "quantised"
RANDOM = np.random.default_rng(11)
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def write(name, quantisation, parts, expected):
    folder = OUTPUT / name
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "test", "quantization_config": quantisation}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({key: value.contiguous() for key, value in parts.items()}, folder / "model.safetensors")
    save_file({key: value.float().contiguous() for key, value in expected.items()}, folder / "expected.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)


def fp8_values(bits):
    """E4M3 by its definition."""
    values = np.zeros(bits.shape, dtype=np.float64)
    for index, byte in np.ndenumerate(bits):
        sign, exponent, mantissa = byte >> 7, byte >> 3 & 15, byte & 7
        value = mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (int(exponent) - 7)
        values[index] = -value if sign else value
    return values


def fp8():
    parts, expected = {}, {"plain.weight": torch.ones(3, 5)}
    parts["plain.weight"] = torch.ones(3, 5, dtype=torch.bfloat16)
    for name, shape in {"a.weight": (20, 37), "experts.w": (3, 9, 16)}.items():
        bits = RANDOM.integers(0, 256, shape, dtype=np.uint8)
        bits[(bits & 0x7F) == 0x7F] = 0x38  # no NaN
        *lead, rows, columns = shape
        scales = RANDOM.standard_normal((*lead, -(-rows // 8), -(-columns // 16))).astype(np.float32)
        values = np.zeros(shape, dtype=np.float32)
        exact = fp8_values(bits)
        for index in np.ndindex(*shape):
            *lead_index, r, c = index
            values[index] = np.float32(exact[index]) * scales[(*lead_index, r // 8, c // 16)]
        parts[name] = torch.from_numpy(bits).view(torch.float8_e4m3fn)
        parts[f"{name}_scale_inv"] = torch.from_numpy(scales)
        expected[name] = torch.from_numpy(values)
    write("fp8", {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [8, 16]}, parts, expected)


def mxfp4():
    experts, out, groups = 2, 6, 3
    blocks = RANDOM.integers(0, 256, (experts, out, groups, 16), dtype=np.uint8)
    scales = RANDOM.integers(118, 132, (experts, out, groups), dtype=np.uint8)
    values = np.zeros((experts, groups * 32, out), dtype=np.float32)
    for e, n, g, i in np.ndindex(*blocks.shape):
        scale = 2.0 ** (int(scales[e, n, g]) - 127)
        values[e, g * 32 + 2 * i, n] = FP4[blocks[e, n, g, i] & 15] * scale
        values[e, g * 32 + 2 * i + 1, n] = FP4[blocks[e, n, g, i] >> 4] * scale
    parts = {
        "mlp.experts.down_proj_blocks": torch.from_numpy(blocks),
        "mlp.experts.down_proj_scales": torch.from_numpy(scales),
        "mlp.experts.down_proj_bias": torch.ones(2, 6, dtype=torch.bfloat16),
    }
    expected = {
        "mlp.experts.down_proj": torch.from_numpy(values),
        "mlp.experts.down_proj_bias": torch.ones(2, 6),
    }
    write("mxfp4", {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, parts, expected)


def packed(values, axis):
    """Eight values of 4 bits per int32, the first in the lowest bits, along `axis`."""
    values = np.moveaxis(values.astype(np.uint32), axis, 0)
    words = np.zeros((values.shape[0] // 8, *values.shape[1:]), dtype=np.uint32)
    for i in range(values.shape[0]):
        words[i // 8] |= values[i] << np.uint32(4 * (i % 8))
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(words, 0, axis)).view(np.int32))


def gptq(name, version, has_order, group=16):
    inputs, out = 48, 24
    num_groups = -(-inputs // group)
    q = RANDOM.integers(0, 16, (inputs, out))
    zeros = RANDOM.integers(1, 16, (num_groups, out))
    scales = (RANDOM.standard_normal((num_groups, out)) / 8).astype(np.float16)
    groups = RANDOM.permutation(inputs) // group if has_order else np.arange(inputs) // group
    weights = np.zeros((out, inputs), dtype=np.float32)
    for n, k in np.ndindex(out, inputs):
        g = groups[k]
        weights[n, k] = np.float32(scales[g, n]) * np.float32(int(q[k, n]) - int(zeros[g, n]))
    stored = zeros - 1 if version == "gptq" else zeros
    parts = {
        "q_proj.qweight": packed(q, 0),
        "q_proj.qzeros": packed(stored, 1),
        "q_proj.scales": torch.from_numpy(scales),
    }
    if has_order:
        parts["q_proj.g_idx"] = torch.from_numpy(groups.astype(np.int32))
    config = {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": has_order}
    if version != "gptq":
        config["checkpoint_format"] = version
    write(name, config, parts, {"q_proj.weight": torch.from_numpy(weights)})


def awq(name, inputs, group):
    out = 24
    num_groups = -(-inputs // group)
    q = RANDOM.integers(0, 16, (inputs, out))
    zeros = RANDOM.integers(0, 16, (num_groups, out))
    scales = (RANDOM.standard_normal((num_groups, out)) / 8).astype(np.float16)
    weights = np.zeros((out, inputs), dtype=np.float32)
    for n, k in np.ndindex(out, inputs):
        g = k // group
        weights[n, k] = np.float32(scales[g, n]) * np.float32(int(q[k, n]) - int(zeros[g, n]))

    def shuffled(values):
        """The order in which AWQ packs eight columns."""
        eights = values.reshape(values.shape[0], -1, 8)
        return eights[:, :, AWQ_ORDER].reshape(values.shape)

    parts = {
        "q_proj.qweight": packed(shuffled(q), 1),
        "q_proj.qzeros": packed(shuffled(zeros), 1),
        "q_proj.scales": torch.from_numpy(scales),
    }
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    write(name, config, parts, {"q_proj.weight": torch.from_numpy(weights)})


def main():
    fp8()
    mxfp4()
    gptq("gptq", "gptq", has_order=True)
    gptq("gptq-unordered", "gptq_v2", has_order=False)
    awq("awq", inputs=32, group=16)
    # The last group is shorter than the others.
    gptq("gptq-short-group", "gptq", has_order=False, group=20)
    awq("awq-short-group", inputs=44, group=20)


if __name__ == "__main__":
    main()
