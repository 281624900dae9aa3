"""Proves that check_file_length.py finds long files and functions, and measures C++ bodies rightly.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import check_file_length
import pytest
from check_file_length import cpp_functions, python_functions


def body(lines: int) -> str:
    return "{\n" + "  x();\n" * (lines - 2) + "}\n"


SIXTY_ONE = 61

FUNCTIONS = [
    "void F() ",
    "static int F(int a, std::vector<int> b = {}) const noexcept ",
    "namespace a::b {\nnamespace {\nvoid F() ",
    "class A : public B<int> {\n public:\n  A() : b_(1), c_(2) ",
    "template <class T, template <typename> class U>\nrequires(sizeof(T) > 1) auto F(T t) -> U<T> ",
    'extern "C" {\nint F(void) ',
    "bool operator==(const A& a, const A& b) ",
    "TEST(GatingTest, TiesGoToTheLowerId) ",
    "const auto F = [](int a) mutable ",
    "struct S {\n  enum class E : int { a, b };\n  int y[2] = {1, 2};\n  operator bool() const ",
    "alignas(64) int t[] = {1, 2};\n#define X(a) { a\n#define Y \\\n  }\nvoid F() ",
    "// a stray { in a comment\nchar c = '{'; int n = 1'000{};\nvoid F() ",
    'const char* s = "{"; auto r = R"x({)x";\nvoid F() ',
    "HWY_BEFORE_NAMESPACE();\nnamespace N {\nHWY_ATTR void F(float* HWY_RESTRICT a) ",
]


@pytest.mark.parametrize("start", FUNCTIONS)
def test_a_long_body_is_found_behind_every_kind_of_signature(start):
    longest = max(lines for _, lines, _ in cpp_functions(start + body(SIXTY_ONE)))
    assert longest >= SIXTY_ONE


@pytest.mark.parametrize(
    "text",
    [
        "constexpr auto kTable = std::to_array<Row>({\n" + "  {1, 2},\n" * 80 + "});\n",
        "constexpr Range kRanges[] = {\n" + "  {0x1, 0x2},\n" * 80 + "};\n",
        "class A {\n" + "  int f() { return 1; }\n" * 80 + "};\n",
        "enum class Kind : uint8_t {\n" + "  kOne,\n" * 80 + "};\n",
        "struct __attribute__((packed)) Block {\n" + "  int a;\n" * 80 + "};\n",
        "namespace a {\n" + "void f();\n" * 80 + "}  // namespace a\n",
        "struct Row row = {\n" + "  1,\n" * 80 + "};\n",
    ],
)
def test_long_tables_and_classes_are_no_functions(text):
    assert all(lines <= 2 for _, lines, _ in cpp_functions(text))


def test_the_reported_line_is_the_signature():
    assert cpp_functions("\n\nint a;\nvoid F(\n    int b) {\n}\n") == [(4, 3, "void F( int b)")]


def test_python_docstrings_do_not_count():
    assert python_functions('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n')[0][1] == 2


def text_of(lines: int) -> str:
    return "// A file for a test.\n" * 2 + "\n" * (lines - 2)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/a.cc", text_of(501), "Long because"),
        ("src/a.cc", "// Long because of a table.\n" + text_of(800), "801 lines (most: 800)"),
        ("src/a.h", text_of(251), "a header of 251 lines"),
        ("src/a.cc", "void F() " + body(61), "61 lines in one function"),
        ("src/kernels/a.cc", "void F() " + body(121), "121 lines in one function"),
        ("a.py", "def f():\n" + "    x()\n" * 60, "61 lines in one function"),
    ],
)
def test_each_limit_is_held(write, tmp_path, path, text, expected):
    for number in range(5):
        write(f"src/short{number}.cc", "")
    write(path, text)
    problems, _ = check_file_length.check(tmp_path)
    assert len(problems) == 1, problems
    assert expected in problems[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.cc", text_of(500)),
        ("src/a.cc", "// A table. Long because it is Unicode's.\n" + text_of(700)),
        ("src/a-inl.h", text_of(300)),
        ("src/kernels/a.cc", "void F() " + body(120)),
    ],
)
def test_what_is_within_the_limits_passes(write, tmp_path, path, text):
    for number in range(5):
        write(f"src/short{number}.cc", "")
    write(path, text)
    assert check_file_length.check(tmp_path)[0] == []


def test_the_median_is_held(write, tmp_path):
    for number in range(5):
        write(f"src/a{number}.cc", text_of(200))
    assert "median file has 200 lines" in check_file_length.check(tmp_path)[0][0]
