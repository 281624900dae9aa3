"""Proves that both READMEs say the same, and that their C++ is compiled and run.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

scripts/check_docs.py counts lines, headings and links; this looks into the blocks and tables.
"""

import re
import unittest

from pages import CHINESE, README, ROOT, blocks, codes, contains, prose, read, rows_under, tables


def heading_levels(page):
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]


def link_targets(page):
    """Without the links from one README to the other."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return sorted(target for target in targets if not target.startswith("README"))


class ReadmeTest(unittest.TestCase):
    def test_both_languages_have_the_same_headings(self):
        self.assertEqual(heading_levels(README), heading_levels(CHINESE))

    def test_both_languages_have_the_same_code(self):
        english = [(block.info, block.text) for block in blocks(README)]
        self.assertEqual(english, [(block.info, block.text) for block in blocks(CHINESE)])

    def test_both_languages_have_the_same_rows(self):
        def shape(page):
            return [[[codes(cell) for cell in row] for row in table] for table in tables(page)]

        self.assertEqual(shape(README), shape(CHINESE))

    def test_both_languages_have_the_same_links(self):
        self.assertEqual(link_targets(README), link_targets(CHINESE))

    def test_code_stands_in_an_example_that_is_run(self):
        names = re.findall(r"^opst_add_example\((\w+)", read(ROOT / "examples/CMakeLists.txt"), re.M)
        paths = [path for name in names for path in (ROOT / "examples").glob(f"{name}.c*")]
        examples = [read(path) for path in paths]
        self.assertTrue(blocks(README, "cpp"))
        for block in [*blocks(README, "cpp"), *blocks(README, "c")]:
            found = any(contains(example, block.text) for example in examples)
            self.assertTrue(found, f"{block}: not in an example")

    def test_every_example_is_run(self):
        listed = read(ROOT / "examples/CMakeLists.txt")
        for path in [*(ROOT / "examples").glob("*.cc"), *(ROOT / "examples").glob("*.c")]:
            self.assertIn(f"opst_add_example({path.stem}", listed)

    def test_families_are_those_of_the_code(self):
        arch = "".join(read(path) for path in sorted((ROOT / "src/model/arch").glob("*.cc")))
        families = set(re.findall(r'return \{"(\w+)", Read', arch))
        self.assertTrue(families)
        readme = {codes(row[1])[0] for row in rows_under(README, "family")}
        self.assertEqual(readme, families)
        models = ROOT / "docs/models.md"
        self.assertEqual({codes(row[0])[0] for row in rows_under(models, "`model_type`")}, families)

    def test_instruction_sets_are_those_of_the_code(self):
        rows = rows_under(README, "instruction set")
        table = read(ROOT / "src/base/config_table.cc")
        choices = re.search(r'\.choices = "auto\|(avx512[\w|]*)\|baseline\|avx3"', table)
        self.assertIsNotNone(choices)
        self.assertEqual({codes(row[1])[0] for row in rows}, set(choices.group(1).split("|")))
        names = re.findall(r"set\(opst_target_names ([\w ]+)\)", read(ROOT / "cmake/target.cmake"))
        self.assertEqual({codes(row[2])[0] for row in rows}, set(" ".join(names).split()))


if __name__ == "__main__":
    unittest.main()
