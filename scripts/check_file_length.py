"""Checks the length of files and functions; it says nothing about what is in them.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

Files: aim at 300 lines; over 500 the first comment must say why ("Long because ..."); over 800
fails. Headers: 250. Functions: 60 lines, in src/kernels 120. Median of all files: 150.
C++ functions are found by counting braces outside comments and strings; only the outermost body
counts.
"""

import argparse
import ast
import re
import statistics
import sys
from pathlib import Path

from repo_files import code_files, default_root, read, report, strip_cpp

NEEDS_REASON, MOST = 500, 800
HEADER = 250
FUNCTION, KERNEL_FUNCTION = 60, 120
MEDIAN = 150

CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def first_comment(text: str) -> str:
    """What a file begins with: a comment, or a docstring and the comment after it."""
    text = re.sub(r"\A#![^\n]*\n", "", text)
    docstring = re.match(r'"""(.*?)"""\n*', text, re.DOTALL)
    rest = text[docstring.end() :] if docstring else text
    comment = re.match(r"(?:[ \t]*(?://|#)[^\n]*\n?)*", rest).group(0)
    return docstring.group(1) + "\n" + comment if docstring else comment


def drop_template_lists(text: str) -> str:
    """Removes template<...> with nested angle brackets, which may contain the word class."""
    while match := re.search(r"\btemplate\s*<", text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"<": 1, ">": -1}.get(text[end], 0)
            end += 1
        text = text[: match.start()] + text[end:]
    return text


def block_kind(before: str) -> str:
    """What a { opens, by the text since the previous ; { or }: container, function ..."""
    if before.count("(") > before.count(")"):
        return "argument"  # f(int a = {}): what surrounds it goes on
    before = drop_template_lists(before)
    before = re.sub(r"\b(alignas|__attribute__|declspec)\s*\(+[^)]*\)+", "", before)
    keyword = CONTAINER.search(before)
    if keyword and "(" not in before[keyword.end() :] and not before.rstrip().endswith("="):
        return "container"
    return "function" if "(" in before and not is_initialiser(before) else "other"


def is_initialiser(before: str) -> bool:
    """True for `kTable = Make({` and `x = {`; false for functions and lambdas that get a name."""
    before = re.sub(r"\boperator\s*\S*?(?=\()", "operator", before)
    depth = 0
    for position, mark in enumerate(before):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if mark == "=" and depth == 0:
            return not re.search(r"\[[^\]]*\]\s*(\(|$)", before[position:])
    return False


def cpp_functions(text: str) -> list[tuple[int, int, str]]:
    """(first line, number of lines, signature) of every outermost function body."""
    text = strip_cpp(text)
    text = re.sub(
        r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*",
        lambda m: "\n" * m.group(0).count("\n"),
        text,
        flags=re.M,
    )
    found, stack, start = [], [], 0
    for match in re.finditer(r"[{};]", text):
        mark, position = match.group(0), match.start()
        inside = next((entry for entry in stack if entry[0] == "function"), None)
        if mark == "{":
            before = text[start:position]
            kind = "inner" if inside else block_kind(before)
            first = start + len(before) - len(before.lstrip())
            stack.append((kind, first, " ".join(before.split())))
        elif mark == "}" and stack:
            kind, first, signature = stack.pop()
            if kind == "function":
                line = text.count("\n", 0, first) + 1
                found.append((line, text.count("\n", 0, position) + 2 - line, signature))
        in_argument = any(entry[0] == "argument" for entry in stack)
        if not in_argument and not (mark == "}" and kind == "argument"):
            start = match.end()
    return found


def python_functions(text: str) -> list[tuple[int, int, str]]:
    """As cpp_functions, for every Python function; its docstring does not count."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            found.append((node.lineno, lines, f"def {node.name}"))
    return found


def check_functions(path: Path, text: str) -> list[str]:
    most = KERNEL_FUNCTION if path.parts[:2] == ("src", "kernels") else FUNCTION
    functions = []
    if path.suffix in {".cc", ".h", ".c"}:
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    return [
        f"{path}:{line}: {lines} lines in one function (most: {most}): {signature[-70:]}"
        for line, lines, signature in functions
        if lines > most
    ]


def check_file(path: Path, text: str) -> list[str]:
    lines = text.count("\n")
    problems = check_functions(path, text)
    if path.suffix == ".h" and not path.name.endswith("-inl.h") and lines > HEADER:
        problems.append(f"{path}: a header of {lines} lines (most: {HEADER})")
    if lines > MOST:
        problems.append(f"{path}: {lines} lines (most: {MOST})")
    elif lines > NEEDS_REASON and "Long because" not in first_comment(text):
        problems.append(f"{path}: {lines} lines; over {NEEDS_REASON} the first comment says 'Long because'")
    return problems


def check(root: Path) -> tuple[list[str], str]:
    problems, lengths = [], []
    for path in code_files(root):
        text = read(root, path)
        lengths.append(text.count("\n"))
        problems += check_file(path, text)
    median = statistics.median(lengths) if lengths else 0
    if median > MEDIAN:
        problems.append(f"the median file has {median:g} lines (most: {MEDIAN})")
    return (
        problems,
        f"{len(lengths)} files, median {median:g} lines, longest {max(lengths, default=0)}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=default_root())
    problems, summary = check(parser.parse_args().root)
    return report("file length", problems, summary)


if __name__ == "__main__":
    sys.exit(main())
