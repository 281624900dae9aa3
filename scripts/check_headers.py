"""Checks how files begin and what they are called; not what is in them.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

Each code file starts with a comment whose first line says what the file is, followed by the two
SPDX lines. File names avoid words that say nothing, TODO carries an issue number, header guards
follow the path.
"""

import argparse
import re
import sys
from pathlib import Path

from check_file_length import first_comment
from repo_files import code_files, default_root, read, repo_files, report

SPDX = ("SPDX-FileCopyrightText: ops-transformer authors", "SPDX-License-Identifier: Apache-2.0")
EMPTY_NAME = re.compile(r"(^|[_/-])(utils?|misc|legacy|helpers?|common|v\d+)(?=[_./-]|$)", re.IGNORECASE)
# Names that others published.
PUBLISHED_NAME = re.compile(r"aclnn_\w+|deepseek[_-]v\d|llama[_-]moe[_-]v\d", re.IGNORECASE)
# A room's CMakeLists.txt is two calls and needs no introduction.
TWO_LINERS = 5
TODO = re.compile(r"\bTODO\b(?!\(#\d+\))|\bFIXME\b|\bXXX\b")


def check_beginning(path: Path, text: str) -> list[str]:
    comment = first_comment(text)
    lines = [re.sub(r"^\s*(//|#)\s?", "", line).strip() for line in comment.splitlines()]
    problems = []
    if not lines or len(lines[0].split()) < 4 or lines[0].startswith("SPDX"):
        problems.append(f"{path}:1: the first line must be a sentence that says what the file is")
    for wanted in SPDX:
        if wanted not in lines:
            problems.append(f"{path}: no line '{wanted}' in the first comment")
    return problems


def check_guard(path: Path, text: str) -> list[str]:
    """OPST_<PATH>_H_ or #pragma once; Highway's -inl.h files toggle their guard per target."""
    if path.suffix != ".h" or "#pragma once" in text or path.name.endswith("-inl.h"):
        return []
    name = path.as_posix().removeprefix("include/").removeprefix("src/").removeprefix("opst/")
    wanted = "OPST_" + re.sub(r"\W", "_", name).upper() + "_"
    return [] if f"#ifndef {wanted}\n" in text else [f"{path}: the header guard must be {wanted}"]


def check(root: Path) -> list[str]:
    problems = []
    for path in repo_files(root):
        name = PUBLISHED_NAME.sub("name", path.as_posix())
        if EMPTY_NAME.search(name) and path.parts[0] != "models":
            problems.append(f"{path}: the name says nothing; name what is in it")
    for path in code_files(root):
        text = read(root, path)
        if path.name != "CMakeLists.txt" or text.count("\n") > TWO_LINERS:
            problems += check_beginning(path, text)
        if path.parts[0] in {"src", "include"}:
            problems += check_guard(path, text)
        if path.suffix in {".cc", ".h", ".c"}:
            for match in TODO.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: {match.group(0)} needs an issue number: TODO(#12)")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=default_root())
    root = parser.parse_args().root
    return report("headers", check(root), "every file says what it is")


if __name__ == "__main__":
    sys.exit(main())
