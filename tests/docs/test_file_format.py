"""Compares docs/file-format.md with files that the built tool writes; it loads no model.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import json
import re
import tempfile
import unittest
from pathlib import Path

from pages import ROOT, codes, rows_under, run, tool

PAGE = ROOT / "docs/file-format.md"
TINY = ROOT / "tests/data/tiny"
# Together they have every kind of tensor.
NAMES = ["olmoe", "qwen2-moe", "qwen3-moe", "deepseek-v3", "gpt-oss", "phimoe", "llama-moe", "ernie4-5-moe"]
FOLDERS = [ROOT / "models/austen-moe", *(TINY / name for name in NAMES)]
# No checkpoint of this repository has them.
OPTIONAL = {"file.chat_template.jinja", "file.chat_template.json", "file.special_tokens_map.json"}


def generic(name: str) -> str:
    """The name as the page writes it, with N for the layer."""
    return re.sub(r"^layers\.\d+\.", "layers.N.", name)


def header_of(path: Path) -> tuple[dict, int]:
    """The JSON header of a safetensors file, and where its data begins."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


class FileFormatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.headers = []
        with tempfile.TemporaryDirectory() as folder:
            for source in FOLDERS:
                path = Path(folder) / f"{source.name}.opst"
                run([str(tool()), "convert", str(source), str(path)], ROOT)
                cls.headers.append(header_of(path))

    def tensors(self):
        for header, data_offset in self.headers:
            for name, tensor in header.items():
                if name != "__metadata__":
                    yield name, tensor, data_offset

    def test_tensors_are_those_of_the_page(self):
        listed = {name for row in rows_under(PAGE, "tensor") for name in codes(row[0])}
        written = {generic(name) for name, _, _ in self.tensors() if not name.startswith("pad.")}
        self.assertEqual(written, listed - OPTIONAL)

    def test_metadata_is_that_of_the_page(self):
        listed = {codes(row[0])[0] for row in rows_under(PAGE, "key")}
        all_found = set()
        rows = {"source_shape.NAME"}  # of vectors that ERNIE writes as rows
        for header, _ in self.headers:
            keys = header["__metadata__"]
            found = {re.sub(r"^(source|source_shape|checksum)\..*", r"\1.NAME", key) for key in keys}
            self.assertEqual(found | rows, listed)
            all_found |= found
            self.assertEqual(keys["opst_format"], "2")
            self.assertTrue(all(re.fullmatch("[0-9a-f]{16}", keys[key]) for key in keys if key.startswith("checksum.")))
        self.assertEqual(all_found, listed)

    def test_tensors_are_aligned(self):
        for name, tensor, data_offset in self.tensors():
            self.assertEqual(data_offset % 64, 0)
            if not name.startswith("pad."):
                self.assertEqual(tensor["data_offsets"][0] % 64, 0, name)

    def test_panels_have_the_shapes_of_the_page(self):
        as_panels = {name for row in rows_under(PAGE, "tensor") if "panels" in row[2] for name in codes(row[0])}
        tails = {"F32": (4, [16]), "F16": (4, [16]), "BF16": (5, [16, 2])}
        for name, tensor, _ in self.tensors():
            if generic(name) in as_panels:
                rank, tail = tails[tensor["dtype"]]
                self.assertEqual(len(tensor["shape"]), rank, name)
                self.assertEqual(tensor["shape"][-len(tail) :], tail, name)


if __name__ == "__main__":
    unittest.main()
