"""Checks the C API against src/capi/abi.txt, the list of its functions; it does not run them.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The list has one declaration a line. Within a major version lines are added and never changed:
`--update` rewrites the list from the headers, and what it changes is what a review looks at.
With --library, the symbols that the built library shows must be exactly these functions.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from repo_files import default_root, read, report, strip_cpp

ABI = Path("src/capi/abi.txt")
HEADERS = "include/opst/c"
UMBRELLA = Path("include/opst/opst.h")
DECLARATION = re.compile(r"^OPST_API\s+([^;{]+\));", re.MULTILINE)
ANY_FUNCTION = re.compile(r"^[\w \t*]*\b(opst_\w+)\s*\([^;{]*\)\s*;", re.MULTILINE)
HEAD = (
    "# Every function of the C API, made by scripts/check_abi.py --update. Lines are added, never changed.\n"
    "# SPDX-FileCopyrightText: ops-transformer authors\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
)


def headers(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in (root / HEADERS).glob("*.h"))


def name_of(declaration: str) -> str:
    return re.search(r"(\w+)\(", declaration).group(1)


def declared(root: Path) -> list[str]:
    """The declarations of all headers, each in one line, by name."""
    found = []
    for header in headers(root):
        text = strip_cpp(read(root, header))
        found += [" ".join(match.split()) for match in DECLARATION.findall(text)]
    return sorted(found, key=name_of)


def listed(root: Path) -> list[str]:
    return [line for line in read(root, ABI).splitlines() if line and not line.startswith("#")]


def exported(library: Path) -> set[str]:
    output = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines()}


def check_headers(root: Path) -> list[str]:
    problems = []
    umbrella = read(root, UMBRELLA)
    for header in headers(root):
        if f'#include "opst/c/{header.name}"' not in umbrella:
            problems.append(f"{UMBRELLA} does not include opst/c/{header.name}")
        text = strip_cpp(read(root, header))
        public = {name_of(declaration) for declaration in DECLARATION.findall(text)}
        for name in ANY_FUNCTION.findall(text):
            if name not in public:
                problems.append(f"{header}: {name} is declared without OPST_API")
    return problems


def check(root: Path, library: Path | None = None) -> list[str]:
    problems = check_headers(root)
    in_headers, in_list = declared(root), listed(root)
    problems += [f"{ABI} has no line for: {line}" for line in in_headers if line not in in_list]
    problems += [f"{ABI}: no header declares: {line}" for line in in_list if line not in in_headers]
    if in_list != sorted(in_list, key=name_of):
        problems.append(f"{ABI} is not sorted by name")
    if library is not None:
        names, symbols = {name_of(line) for line in in_list}, exported(library)
        problems += [f"{library.name} does not show {name}" for name in sorted(names - symbols)]
        problems += [f"{library.name} shows {name}, which is not listed" for name in sorted(symbols - names)]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=default_root())
    parser.add_argument("--library", type=Path, help="the built libopst.so")
    parser.add_argument("--update", action="store_true", help=f"rewrite {ABI} from the headers")
    arguments = parser.parse_args()
    root = arguments.root
    if arguments.update:
        (root / ABI).write_text(HEAD + "".join(f"{line}\n" for line in declared(root)), encoding="utf-8")
    problems = check(root, arguments.library)
    return report("abi", problems, f"{len(listed(root))} functions, declared and listed alike")


if __name__ == "__main__":
    sys.exit(main())
