"""Proves that check_headers.py can fail: beginnings, names, guards and open ends.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import check_headers
import pytest

START = "// Adds two numbers and nothing else.\n" + "".join(f"// {line}\n" for line in check_headers.SPDX)
GUARD = "#ifndef OPST_OPS_A_H_\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/ops/a.cc", START),
        ("src/ops/a.h", START + GUARD),
        ("include/opst/ops/a.h", START + GUARD),
        ("scripts/a.sh", "#!/bin/sh\n" + START.replace("//", "#")),
        ("a.py", '"""' + START.replace("// ", "") + '"""\n'),
        ("src/ops/CMakeLists.txt", "opst_add_library(ops)\nopst_add_tests(ops)\n"),
        ("src/ops/a.cc", START + "// TODO(#12): more.\n"),
    ],
)
def test_good_files_pass(write, tmp_path, path, text):
    write(path, text)
    assert check_headers.check(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/ops/a.cc", START.split("\n", 1)[1], "must be a sentence"),
        ("src/ops/a.cc", START.replace("Apache-2.0", "MIT"), "no line 'SPDX-License-Identifier"),
        ("src/ops/a.cc", START + "// TODO: more.\n", "needs an issue number"),
        ("src/ops/a.h", START + "#ifndef A_H\n", "guard must be OPST_OPS_A_H_"),
        ("src/ops/string_utils.cc", START, "the name says nothing"),
        ("src/ops/gate_v2.cc", START, "the name says nothing"),
        ("src/misc/a.cc", START, "the name says nothing"),
    ],
)
def test_each_fault_is_named(write, tmp_path, path, text, expected):
    write(path, text)
    problems = check_headers.check(tmp_path)
    assert len(problems) == 1, problems
    assert expected in problems[0]
