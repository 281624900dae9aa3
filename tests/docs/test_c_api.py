"""Proves that docs/c-api.md names the statuses, handles and functions of the C headers.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import re
import unittest

from pages import ROOT, codes, prose, read, rows_under

PAGE = ROOT / "docs/c-api.md"
HEADERS = {path.name: read(path) for path in sorted((ROOT / "include/opst/c").glob("*.h"))}
ALL = "".join(HEADERS.values())


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


class CApiTest(unittest.TestCase):
    def test_statuses_are_those_of_the_header(self):
        listed = re.search(r"enum opst_status \{(.*?)\}", HEADERS["status.h"], re.DOTALL).group(1)
        names = re.findall(r"(OPST_\w+) =", listed)
        self.assertEqual([codes(row[0])[0] for row in rows_under(PAGE, "status")], names)

    def test_every_handle_says_how_threads_may_use_it(self):
        handles = set(re.findall(r"^typedef struct (\w+) \1;", ALL, re.MULTILINE))
        listed = {code for row in rows_under(PAGE, "handle") for code in codes(row[0])}
        self.assertEqual(listed, handles)

    def test_names_exist(self):
        declared = set(re.findall(r"\b(?:opst|OPST)_\w+", without_comments(ALL)))
        for code in codes(prose(PAGE)):
            for name in re.findall(r"\b(?:opst|OPST)_[A-Za-z]\w*", code):
                self.assertIn(name, declared)

    def test_every_versioned_struct_has_its_default(self):
        structs = re.findall(r"typedef struct \w+ \{\s*uint32_t struct_size;.*?\} (\w+);", ALL, re.DOTALL)
        self.assertGreater(len(structs), 25)
        for name in structs:
            macro = f"{name.upper()}_DEFAULT"
            self.assertIn(f"#define {macro}", ALL)
            self.assertRegex(ALL, rf"#define {macro}[\s\\{{]+\.struct_size = sizeof\({name}\)")


if __name__ == "__main__":
    unittest.main()
