"""Proves that the tests which docs/proofs.md names are tests of this repository.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import re
import unittest

from pages import ROOT, codes, tables

PAGE = ROOT / "docs/proofs.md"
TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
# Whether the code of a cell is the name of a C++ test, of a Python file or of one of its functions.
SUITE = re.compile(r"[A-Z]\w*\.[A-Z]\w*")
FUNCTION = re.compile(r"test_\w+(?:\.py)?")


class ProofsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.known = set()
        for folder in ("src", "tests", "bench"):
            for path in (ROOT / folder).rglob("*_test.cc"):
                cls.known |= {f"{suite}.{name}" for suite, name in TEST.findall(path.read_text(encoding="utf-8"))}
        for path in (ROOT / "tests").rglob("test_*.py"):
            cls.known.add(path.name)
            cls.known |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))

    def test_every_named_test_exists(self):
        count = 0
        for table in tables(PAGE):
            for row in table[1:]:
                for code in codes(row[-1]):
                    if SUITE.fullmatch(code) or FUNCTION.fullmatch(code):
                        count += 1
                        self.assertIn(code, self.known, f"no such test: {code}")
        self.assertGreater(count, 90)

    def test_every_row_has_an_answer(self):
        for table in tables(PAGE):
            for row in table[1:]:
                self.assertTrue(row[-1].strip(), row)


if __name__ == "__main__":
    unittest.main()
