"""Writes unicode_tables.cc: where the reference's Unicode version is not the system's; no tests.

Regular expressions: the `tokenizers` package asks Oniguruma, which knows Unicode 16; PCRE2 10.42
knows 14. So the code points that Oniguruma assigns beyond Unicode 14 are listed with category and,
for the scripts that a pattern may name, script. Needs a Python whose own tables are Unicode 14.

Digits: Rust's own table, Unicode 17.

Normal forms: the package's tables are Unicode 9. Listed are the code points that later versions
give a combining class, a decomposition or a composition. Needs a recent `unicodedata2`.

    python make_unicode_tables.py ../unicode_tables.cc && clang-format -i ../unicode_tables.cc
"""

# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
import sys
import unicodedata

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = [
    a + b
    for a, b in (
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "Mn",
        "Mc",
        "Me",
        "Nd",
        "Nl",
        "No",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Zs",
        "Zl",
        "Zp",
        "Cf",
    )
]
SCRIPTS = [
    "Arabic",
    "Armenian",
    "Bengali",
    "Bopomofo",
    "Cyrillic",
    "Devanagari",
    "Georgian",
    "Greek",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Latin",
    "Tamil",
    "Thai",
]
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(pattern):
    """Code points that `pattern`, a class of one character, matches in the reference."""
    text = "".join(map(chr, CODE_POINTS))
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    rest = {ord(ch) for piece, _ in split.pre_tokenize_str(text) for ch in piece}
    return set(CODE_POINTS) - rest


def ranges(code_points):
    result = []
    for c in sorted(code_points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def category_rows():
    rows = []
    for category in CATEGORIES:
        new = {c for c in members("\\p{%s}" % category) if unicodedata.category(chr(c)) == "Cn"}
        rows += [(first, last, category) for first, last in ranges(new)]
    return sorted(rows)


def script_rows(assigned):
    rows = []
    for script in SCRIPTS:
        new = members("\\p{%s}" % script) & assigned
        rows += [(first, last, script) for first, last in ranges(new)]
    return sorted(rows)


def numeric_rows():
    """Code points that the Digits step takes and Unicode 14 does not."""
    text = "x" + "x".join(map(chr, CODE_POINTS)) + "x"
    pieces = pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str(text)
    numeric = {ord(piece) for piece, _ in pieces if len(piece) == 1 and piece != "x"}
    return ranges(c for c in numeric if unicodedata.category(chr(c)) == "Cn")


def young_for_normal_forms():
    forms = [
        ("NFC", normalizers.NFC()),
        ("NFD", normalizers.NFD()),
        ("NFKC", normalizers.NFKC()),
        ("NFKD", normalizers.NFKD()),
    ]
    young = set()
    first_parts = set()
    for c in CODE_POINTS:
        decomposition = unicodedata2.decomposition(chr(c))
        if not decomposition and not unicodedata2.combining(chr(c)):
            continue
        # Marks of both common classes behind it show whether it has a class of its own.
        text = "a" + chr(c) + "\u0301\u0323"
        if any(n.normalize_str(text) != unicodedata2.normalize(form, text) for form, n in forms):
            young.add(c)
            if decomposition and not decomposition.startswith("<"):
                first_parts.add(int(decomposition.split()[0], 16))
    return ranges(young | first_parts)


def write(path):
    assert unicodedata.unidata_version.startswith("14."), unicodedata.unidata_version
    categories = category_rows()
    assigned = {c for first, last, _ in categories for c in range(first, last + 1)}
    out = [
        "// Code points for which the reference's Unicode version and the system libraries' differ;",
        "// written by testdata/make_unicode_tables.py, not by hand.",
        "// SPDX-FileCopyrightText: ops-transformer authors",
        "// SPDX-License-Identifier: Apache-2.0",
        '#include "text/unicode_tables.h"',
        "",
        "namespace opst::text {",
        "namespace {",
        "",
    ]

    def table(name, kind, cells):
        out.append("constexpr %s %s[] = {" % (kind, name))
        line = "   "
        for cell in cells:
            if len(line) + len(cell) + 2 > 100:
                out.append(line)
                line = "   "
            line += " " + cell + ","
        out.extend([line, "};", ""])

    table("kCategories", "NamedRange", ['{0x%X, 0x%X, "%s"}' % row for row in categories])
    table("kScripts", "NamedRange", ['{0x%X, 0x%X, "%s"}' % row for row in script_rows(assigned)])
    table("kNumeric", "CodePointRange", ["{0x%X, 0x%X}" % tuple(row) for row in numeric_rows()])
    table(
        "kYoung",
        "CodePointRange",
        ["{0x%X, 0x%X}" % tuple(row) for row in young_for_normal_forms()],
    )
    out += [
        "}  // namespace",
        "",
        "std::span<const NamedRange> CategoriesSinceUnicode14() { return kCategories; }",
        "std::span<const NamedRange> ScriptsSinceUnicode14() { return kScripts; }",
        "std::span<const CodePointRange> NumericSinceUnicode14() { return kNumeric; }",
        "std::span<const CodePointRange> TooYoungForNormalForms() { return kYoung; }",
        "",
        "}  // namespace opst::text",
        "",
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))


if __name__ == "__main__":
    write(sys.argv[1])
