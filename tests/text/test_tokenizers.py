"""Compares ids and decoded texts with the package tokenizers, on real tokenizer files.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import tempfile
import unittest
from pathlib import Path

import corpus
import real_tokenizers
from probe import need, tokenize

NUM_MIXED = 12000


class TokenizersTest(unittest.TestCase):
    def check_model(self, name: str):
        need("tokenizers")
        from tokenizers import Tokenizer

        texts = corpus.texts(NUM_MIXED)
        with tempfile.TemporaryDirectory() as folder:
            path = real_tokenizers.ALL[name](Path(folder))
            reference = Tokenizer.from_file(str(path))
            found = tokenize(path, texts)
        self.assertEqual(len(found), len(texts))
        encodings = reference.encode_batch([text.decode("utf-8", errors="replace") for text in texts])
        wanted = reference.decode_batch([encoding.ids for encoding in encodings], skip_special_tokens=False)
        wrong = []
        for text, (ids, decoded), encoding, expected in zip(texts, found, encodings, wanted, strict=True):
            if ids != encoding.ids or decoded.decode("utf-8") != expected:
                wrong.append((text, ids, encoding.ids, decoded, expected))
        self.assertEqual(wrong[:3], [], f"{len(wrong)} of {len(texts)} texts differ")

    def test_deepseek(self):
        self.check_model("deepseek")

    def test_qwen(self):
        self.check_model("qwen")

    def test_mistral_with_byte_fallback(self):
        self.check_model("mistral")


if __name__ == "__main__":
    unittest.main()
