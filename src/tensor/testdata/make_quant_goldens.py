"""Writes quant_blocks.bin: random blocks of every ggml format and their values by `gguf.quants`.

For each format, in the order of QuantType: 4 blocks as bytes, then their values as f32, little
endian. Scales are random halves without NaN and infinity; every other bit is random. No test runs
this; it needs the package `gguf` (tried with 0.19).

    python make_quant_goldens.py
"""

# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
import pathlib

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

# Format and the byte offsets of its half-precision scales, from the layouts in quant_blocks.h.
FORMATS = [
    ("Q8_0", [0]),
    ("Q4_0", [0]),
    ("Q4_1", [0, 2]),
    ("Q5_0", [0]),
    ("Q5_1", [0, 2]),
    ("Q2_K", [80, 82]),
    ("Q3_K", [108]),
    ("Q4_K", [0, 2]),
    ("Q5_K", [0, 2]),
    ("Q6_K", [208]),
    ("IQ4_NL", [0]),
    ("MXFP4", []),
]
NUM_BLOCKS = 4


def main():
    generator = np.random.default_rng(7)
    content = b""
    for name, scales in FORMATS:
        kind = GGMLQuantizationType[name]
        _, size = GGML_QUANT_SIZES[kind]
        blocks = generator.integers(0, 256, (NUM_BLOCKS, size), dtype=np.uint8)
        for offset in scales:
            halves = generator.standard_normal(NUM_BLOCKS).astype(np.float16)
            halves[-1] = np.float16(3e-6)  # a subnormal
            blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(NUM_BLOCKS, 2)
        if name == "MXFP4":
            blocks[:, 0] = [0, 1, 127, 250]
        values = quants.dequantize(blocks, kind)
        assert np.isfinite(values).all(), name
        content += blocks.tobytes() + values.astype("<f4").tobytes()
    (pathlib.Path(__file__).parent / "quant_blocks.bin").write_bytes(content)


if __name__ == "__main__":
    main()
