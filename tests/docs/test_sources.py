"""Proves that what the pages quote from the source is in the source: code, paths, errors, columns.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import re
import unittest

from pages import PAGES, README, ROOT, blocks, codes, contains, read, rows_under, sources, tables

PATH = re.compile(r"(?:src|include|docs|bench|tests|examples|scripts|cmake|models|tools)/[\w./-]+|\.ci/run")
# The text after kOp in a check, which is the rule; literals are already joined.
RULE = re.compile(r'kOp,\s*(?:Concat\()?"([^"]+)"')
OPERATOR_PAGES = sorted((ROOT / "docs/ops").glob("*.md"))
# Where the page is not called as its folder in src/ops/.
FOLDER_OF_PAGE = {"routing-plan": "routing"}


def joined_literals(text: str) -> str:
    """C++ text with adjacent string literals made one."""
    return re.sub(r'"\s+"', "", text)


class SourcesTest(unittest.TestCase):
    def test_code_of_the_docs_stands_in_the_source(self):
        files = sources("src", "include", "examples")
        for page in PAGES:
            for block in [*blocks(page, "cpp"), *blocks(page, "c")]:
                found = any(contains(text, block.text) for text in files.values())
                self.assertTrue(found, f"{block}: not in the source")

    def test_paths_exist(self):
        for page in PAGES:
            for code in codes(read(page)):
                if PATH.fullmatch(code):
                    self.assertTrue((ROOT / code).exists(), f"{page.name}: {code} does not exist")

    def test_rules_of_the_error_tables_are_thrown(self):
        text = joined_literals("".join(sources("src/ops").values()))
        for page in OPERATOR_PAGES:
            rules = [codes(row[-1])[0] for table in tables(page) if table[0][-1] == "rule" for row in table[1:]]
            self.assertTrue(rules, page.name)
            for rule in rules:
                found = all(piece in text for piece in rule.split("…"))
                self.assertTrue(found, f"{page.name}: nobody throws '{rule}'")

    def test_thrown_rules_stand_in_the_table_of_their_operator(self):
        count = 0
        for page in OPERATOR_PAGES:
            folder = ROOT / "src/ops" / FOLDER_OF_PAGE.get(page.stem, page.stem.replace("-", "_"))
            text = joined_literals("".join(sources(folder.relative_to(ROOT).as_posix()).values()))
            for rule in RULE.findall(text):
                count += 1
                self.assertTrue(rule in read(page), f"{page.name}: no row for the error '{rule}'")
        self.assertGreater(count, 30)

    def test_columns_are_those_that_the_benchmarks_print(self):
        text = "".join(sources("bench").values())
        rows = rows_under(ROOT / "docs/performance.md", "column")
        self.assertTrue(rows)
        for row in rows:
            for column in codes(row[0]):
                self.assertTrue(f'"{column}"' in text, f"nothing prints the column '{column}'")

    def test_rooms_are_those_that_exist(self):
        order = re.search(r"set\(OPST_ROOMS ([^)]+)\)", read(ROOT / "CMakeLists.txt"))
        self.assertIsNotNone(order)
        existing = [room for room in order.group(1).split() if (ROOT / "src" / room).is_dir()]
        listed = [codes(row[0])[0] for row in rows_under(ROOT / "docs/architecture.md", "room")]
        self.assertEqual(listed, existing)

    def test_every_operator_header_is_on_the_map(self):
        index = read(ROOT / "docs/index.md")
        for page in OPERATOR_PAGES:
            self.assertTrue(f"(ops/{page.name})" in index, page.name)
        self.assertIn("(docs/index.md)", read(README))


if __name__ == "__main__":
    unittest.main()
