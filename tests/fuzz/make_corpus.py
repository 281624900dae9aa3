# Writes the hand-made part of tests/fuzz/corpus: small good files and known kinds of bad ones.
# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
"""Usage: OPST_TOOL=path/to/opst python tests/fuzz/make_corpus.py

Without OPST_TOOL the packed seeds are left as they are. Inputs that the fuzzer found are added by
hand under names of their own; this script never deletes.
"""

import json
import os
import pathlib
import struct
import subprocess
import tempfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def write(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def safetensors_file(header, data=b""):
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text)) + text.encode() + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors():
    good = {"__metadata__": {"format": "pt"}, "a": tensor("F32", [2, 2], 0, 16), "b": tensor("U8", [3], 16, 19)}
    write("safetensors", "good", safetensors_file(good, bytes(19)))
    write("safetensors", "truncated", safetensors_file(good, bytes(18)))
    write("safetensors", "length_wraps", b"\xff" * 8 + b"{}")
    write("safetensors", "too_short", b"\x01\x02")
    write(
        "safetensors", "shape_and_offsets_differ", safetensors_file({"a": tensor("F32", [32, 8], 0, 65536)}, bytes(64))
    )
    write("safetensors", "end_before_begin", safetensors_file({"a": tensor("U8", [1], 5, 4)}, bytes(8)))
    write("safetensors", "negative_offset", safetensors_file({"a": tensor("U8", [1], -1, 0)}, bytes(8)))
    write(
        "safetensors",
        "overlap",
        safetensors_file({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)),
    )
    write("safetensors", "product_overflows", safetensors_file({"a": tensor("F32", [2**62, 8], 0, 0)}))
    write(
        "safetensors",
        "duplicate",
        safetensors_file('{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}}', b"x"),
    )
    write("safetensors", "deep", safetensors_file('{"a":' + "[" * 3000))


class Gguf:
    def __init__(self):
        self.pairs, self.infos, self.data = [], [], b""

    @staticmethod
    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def pair(self, key, kind, value):
        self.pairs.append(self.text(key) + struct.pack("<I", kind) + value)
        return self

    def u32(self, key, value):
        return self.pair(key, 4, struct.pack("<I", value))

    def string(self, key, value):
        return self.pair(key, 8, self.text(value))

    def strings(self, key, values):
        return self.pair(key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(self.text, values)))

    def tensor(self, name, extents, kind, data):
        self.data += bytes(-len(self.data) % 32)
        info = self.text(name) + struct.pack(f"<I{len(extents)}Q", len(extents), *extents)
        self.infos.append(info + struct.pack("<IQ", kind, len(self.data)))
        self.data += data
        return self

    def bytes(self, version=3):
        head = b"GGUF" + struct.pack("<IQQ", version, len(self.infos), len(self.pairs))
        head += b"".join(self.pairs) + b"".join(self.infos)
        return head + bytes(-len(head) % 32) + self.data


def gguf_model(arch):
    file = Gguf().string("general.architecture", arch)
    for key, value in {
        "block_count": 1,
        "context_length": 8,
        "embedding_length": 32,
        "feed_forward_length": 32,
        "attention.head_count": 2,
        "attention.head_count_kv": 1,
        "expert_count": 2,
        "expert_used_count": 1,
        "expert_feed_forward_length": 32,
    }.items():
        file.u32(f"{arch}.{key}", value)
    file.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "smollm")
    file.strings("tokenizer.ggml.tokens", ["a", "b", "ab", "Ġ"]).strings("tokenizer.ggml.merges", ["a b"])
    file.u32("tokenizer.ggml.eos_token_id", 3)
    file.tensor("token_embd.weight", [32, 4], 8, bytes(4 * 34))
    file.tensor("blk.0.attn_q.weight", [32, 32], 3, bytes(range(160)) * 4)
    file.tensor("blk.0.attn_k.weight", [32, 16], 0, bytes(2048))
    file.tensor("blk.0.ffn_gate_exps.weight", [32, 32, 2], 39, bytes(range(17)) * 64)
    file.tensor("output_norm.weight", [32], 0, bytes(128))
    return file


def gguf():
    for arch in ("llama", "olmoe", "qwen3moe"):
        write("gguf", f"good_{arch}", gguf_model(arch).bytes())
    deepseek = Gguf().string("general.architecture", "deepseek2")
    for key, value in {
        "block_count": 1, "context_length": 8, "embedding_length": 32, "attention.head_count": 2,
        "rope.dimension_count": 4, "attention.key_length": 12, "attention.value_length": 8,
        "attention.kv_lora_rank": 32, "expert_count": 2, "expert_used_count": 1,
        "expert_feed_forward_length": 32,
    }.items():  # fmt: skip
        deepseek.u32(f"deepseek2.{key}", value)
    deepseek.tensor("token_embd.weight", [32, 4], 0, bytes(512))
    deepseek.tensor("blk.0.attn_k_b.weight", [8, 32, 2], 0, bytes(2048))
    deepseek.tensor("blk.0.attn_v_b.weight", [32, 8, 2], 1, bytes(1024))
    write("gguf", "good_deepseek2", deepseek.bytes())
    oss = gguf_model("gpt-oss").u32("gpt-oss.attention.sliding_window", 4)
    oss.tensor("blk.0.ffn_up_exps.weight", [32, 32, 2], 39, bytes(17 * 64))
    oss.tensor("blk.0.ffn_down_exps.weight", [32, 32, 2], 2, bytes(18 * 64))
    write("gguf", "good_gpt_oss", oss.bytes())
    pieces = Gguf().string("general.architecture", "llama").string("tokenizer.ggml.model", "llama")
    pieces.strings("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>", "▁", "a", "▁a"])
    pieces.pair("tokenizer.ggml.scores", 9, struct.pack("<IQ6f", 6, 6, 0, 0, 0, -2, -3, -1))
    pieces.u32("tokenizer.ggml.bos_token_id", 1)
    for key in ("block_count", "context_length", "embedding_length", "attention.head_count"):
        pieces.u32(f"llama.{key}", 2)
    pieces.tensor("token_embd.weight", [2, 6], 0, bytes(48))
    write("gguf", "good_pieces", pieces.bytes())
    good = gguf_model("llama").bytes()
    write("gguf", "truncated", good[:-1])
    write("gguf", "header_only", good[:24])
    write("gguf", "counts_absurd", good[:8] + b"\xff" * 16 + good[24:])
    write("gguf", "version_1", gguf_model("llama").bytes(version=1))
    write("gguf", "array_absurd", Gguf().pair("k", 9, struct.pack("<IQ", 8, 2**63)).bytes())
    write("gguf", "product_overflows", Gguf().tensor("a", [2**32, 2**32], 0, bytes(32)).bytes())


def tokenizer_and_config():
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    good = {"model": model, "pre_tokenizer": byte_level, "decoder": byte_level, "added_tokens": []}
    write("tokenizer", "good", json.dumps(good))
    split = {
        "type": "Split",
        "pattern": {"Regex": r"\p{N}{1,3}|\s+(?!\S)|\s+"},
        "behavior": "Isolated",
        "invert": False,
    }
    write("tokenizer", "split", json.dumps({**good, "pre_tokenizer": split}))
    nested = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    added = [
        {
            "id": 4,
            "content": "<s>",
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
    ]
    write("tokenizer", "sequence", json.dumps({**good, "pre_tokenizer": nested, "added_tokens": added}))
    write(
        "tokenizer", "backtracking", json.dumps({**good, "pre_tokenizer": {**split, "pattern": {"Regex": "(a|a?)+$"}}})
    )
    write("tokenizer", "deep", "[" * 4000)
    write("tokenizer", "id_absurd", json.dumps({"model": {**model, "vocab": {"a": 2**62}}}))
    write("tokenizer", "duplicate", '{"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}}')
    tiny = CORPUS.parents[1] / "data" / "tiny"
    for folder in ("mixtral", "olmoe-clip", "qwen3-moe-step"):
        write("config", folder, (tiny / folder / "config.json").read_text())
    config = json.loads((tiny / "mixtral" / "config.json").read_text())
    write("config", "numbers_absurd", json.dumps({**config, "num_hidden_layers": 2**63, "hidden_size": -1}))
    write("config", "not_finite", json.dumps({**config, "rms_norm_eps": "x"}).replace('"x"', "1e999"))
    write("config", "deep", '{"a":' * 4000)
    write("config", "duplicate", '{"model_type":"olmoe","model_type":"mixtral"}')


def packed(tool):
    config = {
        "model_type": "mixtral", "hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 5,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 3,
        "num_local_experts": 2, "num_experts_per_tok": 1, "max_position_embeddings": 8,
        "tie_word_embeddings": True,
    }  # fmt: skip
    shapes = {"model.embed_tokens.weight": [5, 4], "model.norm.weight": [4]}
    layer = "model.layers.0."
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"{layer}{name}.weight"] = [4]
    for name, rows in (("q", 4), ("k", 2), ("v", 2), ("o", 4)):
        shapes[f"{layer}self_attn.{name}_proj.weight"] = [rows, 4]
    shapes[f"{layer}block_sparse_moe.gate.weight"] = [2, 4]
    for expert in range(2):
        for role, shape in (("w1", [3, 4]), ("w3", [3, 4]), ("w2", [4, 3])):
            shapes[f"{layer}block_sparse_moe.experts.{expert}.{role}.weight"] = shape
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2
        for extent in shape:
            size *= extent
        header[name] = tensor("BF16", shape, end, end + size)
        end += size
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "config.json").write_text(json.dumps(config))
        (root / "model.safetensors").write_bytes(
            safetensors_file(header, bytes(range(256)) * (end // 256) + bytes(end % 256))
        )
        subprocess.run([tool, "convert", folder, str(root / "m.opst")], check=True)
        content = (root / "m.opst").read_bytes()
    write("packed", "good", content)
    write("packed", "truncated", content[:-1])
    write("packed", "newer_format", content.replace(b'"opst_format":"2"', b'"opst_format":"9"'))
    write("packed", "flipped", content[:-7] + bytes([content[-7] ^ 16]) + content[-6:])


def templates():
    write(
        "template",
        "turns",
        "{{- bos_token }}{% for m in messages %}\n{%- if loop.first and m.role != 'system' %}<|x|>{% endif -%}"
        "{{ m['role'] + ': ' + (m.content or '') | trim }}{% if not loop.last %},{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}",
    )
    write(
        "template",
        "tools",
        "{% for m in messages if m.tool_calls is defined %}"
        "{% for c in m.tool_calls %}{{ c.function | tojson(indent=2) }}"
        "{{ c.function.arguments.items() | list }}"
        "{{ c.function.arguments.a[-1:] | join('-') }}{% endfor %}{% endfor %}",
    )
    write(
        "template",
        "macros",
        "{% macro f(n, s='x') %}{% if n > 0 %}{{ s * n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"
        "{% set ns = namespace(i=0) %}{% for i in range(4) %}{% if i == 2 %}{% continue %}{% endif %}"
        "{% set ns.i = ns.i + i %}{% endfor %}{{ ns.i ~ '' }}{% call f(1) %}c{% endcall %}"
        "{# x #}{% raw %}{{ }}{% endraw %}",
    )
    write(
        "template",
        "recursive",
        "{% for x in [1, [2]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
    )
    write("template", "endless", "{% for i in range(999999999) %}{{ 'a' * 99999999 }}{% endfor %}")
    write("template", "deep", "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}")
    write("template", "long", "{{ 1" + "+1" * 3000 + " }}")
    write(
        "template",
        "escapes",
        "{{ '\\x41\\u00e9\\U0001f600\\q' }}{{ '%05.1f|%s' | format(2.5, 'a') }}{{ 'a,b'.split(',')[::-1] }}",
    )


def main():
    safetensors()
    templates()
    gguf()
    tokenizer_and_config()
    if "OPST_TOOL" in os.environ:
        packed(os.environ["OPST_TOOL"])


if __name__ == "__main__":
    main()
