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
OPERATOR_INDEX = ROOT / "docs/ops/index.md"
OPERATOR_PAGES = sorted(set((ROOT / "docs/ops").glob("*.md")) - {OPERATOR_INDEX})
# Functions of a header: a type, a name in capitals, an opening bracket, at the beginning of a line.
FUNCTION = re.compile(r"^\w[\w:<>, ]* ([A-Z]\w+)\(", re.MULTILINE)
CANN_FUNCTION = re.compile(r"aclnnStatus aclnn(\w+?)(?:WeightNz|WeightNZ)?(?:V\d)?GetWorkspaceSize\(")
# What programs call around CANN's operators.
CANN_HELPERS = {"Permute", "TransMatmulWeight", "MoeDistributeBufferReset", "DistributeBarrier"}
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

    def test_every_operator_is_in_the_index(self):
        rows = rows_under(OPERATOR_INDEX, "operator")
        self.assertFalse([row for row in rows if len(row) != 5 or not all(row)])
        named = {code for row in rows for code in codes(" ".join(row[1:3]))}
        headers = [*(ROOT / "include/opst/ops").glob("*.h"), ROOT / "include/opst/routing_plan.h"]
        functions = {name for header in headers for name in FUNCTION.findall(read(header))}
        self.assertGreater(len(functions), 25)
        quantised = {code for row in rows for code in codes(row[3])}
        self.assertFalse(functions - named - quantised)

    def test_every_operator_of_cann_is_in_the_index(self):
        rows = rows_under(OPERATOR_INDEX, "operator")
        named = {code for row in rows for code in codes(row[4])}
        headers = (ROOT / "cann/include/aclnnop").glob("*.h")
        operators = {name.removesuffix("V2") for header in headers for name in CANN_FUNCTION.findall(read(header))}
        self.assertGreater(len(operators), 25)
        self.assertFalse(operators - named - CANN_HELPERS)
        self.assertFalse(named - operators)

    def test_every_operator_header_is_on_the_map(self):
        index = read(ROOT / "docs/index.md")
        for page in OPERATOR_PAGES:
            self.assertTrue(f"(ops/{page.name})" in index, page.name)
        self.assertIn("(docs/index.md)", read(README))


if __name__ == "__main__":
    unittest.main()
