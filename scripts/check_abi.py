"""Checks the C API against src/capi/abi.txt, the list of what programs are compiled with.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The list has a line for every function, callback, struct and enum value. Within a major version
lines are added, structs get members at their end, and nothing else changes: `--update` rewrites the
list from the headers, and what it changes is what a review looks at. With --library, the symbols
that the built library shows must be exactly these functions.
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
FUNCTION = re.compile(r"^OPST_API\s+([^;{]+\));", re.MULTILINE)
CALLBACK = re.compile(r"^(typedef [^;{]*\(\*\w+\)\([^;{]*\));", re.MULTILINE)
STRUCT = re.compile(r"^typedef (struct \w+ \{.*?\}) \w+;", re.MULTILINE | re.DOTALL)
ENUM = re.compile(r"\benum\b[^{;]*\{(.*?)\}", re.DOTALL)
VALUE = re.compile(r"OPST_\w+ = -?\d+")
ANY_FUNCTION = re.compile(r"^[\w \t*]*\b(opst_\w+)\s*\([^;{]*\)\s*;", re.MULTILINE)
HEAD = (
    "# What C programs are compiled with, made by scripts/check_abi.py --update. Lines are added, structs grow\n"
    "# at their end; nothing else changes within a major version.\n"
    "# SPDX-FileCopyrightText: ops-transformer authors\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
)


def headers(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in (root / HEADERS).glob("*.h"))


def name_of(declaration: str) -> str:
    return re.search(r"(\w+)\(", declaration).group(1)


def declared(root: Path) -> list[str]:
    """One line for each function, callback, struct and enum value of all headers."""
    text = "".join(strip_cpp(read(root, header)) for header in headers(root))
    values = [value for enum in ENUM.findall(text) for value in VALUE.findall(enum)]
    lines = [
        *sorted(FUNCTION.findall(text), key=name_of),
        *sorted(CALLBACK.findall(text)),
        *sorted(STRUCT.findall(text)),
        *sorted(values),
    ]
    return [" ".join(line.split()) for line in lines]


def functions(lines: list[str]) -> set[str]:
    return {name_of(line) for line in lines if line.endswith(")") and not line.startswith("typedef")}


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
        public = {name_of(declaration) for declaration in FUNCTION.findall(text)}
        for name in ANY_FUNCTION.findall(text):
            if name not in public:
                problems.append(f"{header}: {name} is declared without OPST_API")
    return problems


def check(root: Path, library: Path | None = None) -> list[str]:
    problems = check_headers(root)
    in_headers, in_list = declared(root), listed(root)
    problems += [f"{ABI} has no line for: {line}" for line in in_headers if line not in in_list]
    problems += [f"{ABI}: no header declares: {line}" for line in in_list if line not in in_headers]
    if not problems and in_list != in_headers:
        problems.append(f"{ABI} is not in the order of scripts/check_abi.py --update")
    if library is not None:
        names, symbols = functions(in_list), exported(library)
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
    return report("abi", problems, f"{len(functions(listed(root)))} functions, declared and listed alike")


if __name__ == "__main__":
    sys.exit(main())
