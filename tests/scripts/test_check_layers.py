"""Proves that check_layers.py can fail: one wrong include or link each.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import check_layers
import pytest


@pytest.fixture
def house(write, monkeypatch):
    monkeypatch.setattr(check_layers, "PUBLIC_HEADERS", {"error.h": "base"})
    write("include/opst/error.h", "")
    write("src/base/log.h", '#include "opst/error.h"\n')
    write("src/ops/gate.cc", '#include <vector>\n#include "base/log.h"\n#include <opst/ops/gate.h>\n')
    write("include/opst/ops/gate.h", '#include "opst/error.h"\n')
    write("src/ops/CMakeLists.txt", "opst_add_library(ops DEPS base tensor LINK other)\n")
    return write


def test_a_clean_house_has_no_problems(house, tmp_path):
    assert check_layers.check(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/base/a.cc", '#include "ops/gate.h"\n', "base includes ops/gate.h of ops"),
        ("src/base/a.cc", "#include <opst/ops/gate.h>\n", "base includes opst/ops/gate.h of ops"),
        ("src/base/a_test.cc", '  #  include "tensor/a.h"\n', "base includes tensor/a.h"),
        ("src/ops/a.cc", '#include "gate.h"\n', "needs its full path"),
        ("src/ops/a.cc", '#include "capi/status.h"\n', "ops includes capi/status.h of capi"),
        ("src/ops/a.cc", "#include <opst/nothing.h>\n", "does not exist"),
        ("src/widgets/a.cc", "\n", "src/widgets is not in OPST_ROOMS"),
        ("include/opst/new.h", "\n", "no owner"),
        ("include/opst/error.h", '#include "base/log.h"\n', "includes the private base/log.h"),
        ("include/opst/error.h", '#include "opst/ops/gate.h"\n', "base includes opst/ops/gate.h"),
        ("tools/opst/a.cc", "#include <opst/c/moe.h>\n", "tools includes opst/c/moe.h of capi"),
        ("src/base/CMakeLists.txt", "opst_add_library(base DEPS ops)", "base links ops"),
        ("src/base/CMakeLists.txt", "opst_add_tests(base DEPS ops LABELS x)", "base links ops"),
        ("src/base/CMakeLists.txt", "opst_add_library(base DEPS bass)", "bass, which is no room"),
        ("src/base/CMakeLists.txt", "opst_add_library(ops)", "stands in the room base"),
    ],
)
def test_each_wrong_pointer_is_named(house, tmp_path, path, text, expected):
    house("include/opst/c/moe.h", "") if "opst/c/" in text else None
    house(path, text)
    problems = check_layers.check(tmp_path)
    assert len(problems) == 1, problems
    assert expected in problems[0]
    assert problems[0].startswith(path)


def test_the_table_names_no_missing_header(house, tmp_path, monkeypatch):
    monkeypatch.setitem(check_layers.PUBLIC_HEADERS, "gone.h", "base")
    assert "gone.h" in check_layers.check(tmp_path)[0]


def test_faces_use_rooms_and_examples_use_the_c_api(house, tmp_path):
    house("include/opst/c/moe.h", "")
    house("tools/opst/a.cc", '#include "ops/gate.h"\n#include "cmd.h"\n')
    house("examples/a.c", "#include <opst/c/moe.h>\n")
    assert check_layers.check(tmp_path) == []
