"""Proves that check_abi.py can fail: one wrong declaration, line or symbol each.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import subprocess

import check_abi
import pytest

HEADER = """// opst_old(int) in a comment is no declaration;
OPST_API opst_status opst_a(const char* text,
                            int32_t* count);
OPST_API const char* opst_b(void);
static inline int opst_c(int x) { return x; }
typedef void (*opst_callback)(void* user,
                              int32_t value);
typedef struct opst_handle opst_handle;
typedef struct opst_pair {
  int32_t first;  // a comment
  int32_t second[2];
} opst_pair;
typedef enum opst_kind { OPST_KIND_A = 0, OPST_KIND_B = 1 } opst_kind;
enum { OPST_MODE = -1 };
#define OPST_NO_VALUE = 5
"""
LIST = """# head
opst_status opst_a(const char* text, int32_t* count)
const char* opst_b(void)
typedef void (*opst_callback)(void* user, int32_t value)
struct opst_pair { int32_t first; int32_t second[2]; }
OPST_KIND_A = 0
OPST_KIND_B = 1
OPST_MODE = -1
"""


@pytest.fixture
def house(write):
    write("include/opst/opst.h", '#include "opst/c/text.h"\n')
    write("include/opst/c/text.h", HEADER)
    write("src/capi/abi.txt", LIST)
    return write


def test_headers_that_are_listed_have_no_problems(house, tmp_path):
    assert check_abi.check(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/capi/abi.txt", LIST.replace("int32_t*", "int64_t*"), "has no line for: opst_status opst_a"),
        ("src/capi/abi.txt", LIST + "void opst_d(void)\n", "no header declares: void opst_d"),
        ("src/capi/abi.txt", LIST.replace("int32_t first", "int64_t first"), "has no line for: struct opst_pair"),
        ("src/capi/abi.txt", LIST.replace("B = 1", "B = 2"), "no header declares: OPST_KIND_B = 2"),
        ("src/capi/abi.txt", LIST.replace("int32_t value", "float value"), "has no line for: typedef void"),
        ("src/capi/abi.txt", "\n".join(reversed(LIST.splitlines())), "is not in the order"),
        ("include/opst/c/text.h", HEADER + "int opst_e(void);\n", "opst_e is declared without OPST_API"),
        ("include/opst/c/more.h", "", "does not include opst/c/more.h"),
    ],
)
def test_each_difference_is_named(house, tmp_path, path, text, expected):
    house(path, text)
    assert any(expected in problem for problem in check_abi.check(tmp_path))


def test_symbols_of_the_library_are_compared(house, tmp_path):
    house("a.c", "int opst_a(void) { return 0; } int other(void) { return 1; }\n")
    library = tmp_path / "liba.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "a.c"], check=True)
    problems = check_abi.check(tmp_path, library)
    assert any("does not show opst_b" in problem for problem in problems)
    assert any("shows other" in problem for problem in problems)
