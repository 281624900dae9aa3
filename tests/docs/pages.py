"""Reads Markdown pages and runs the tool for the tests of this folder; it judges nothing.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
PAGES = [README, CHINESE, *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
CELL_BORDER = re.compile(r"(?<!\\)\|")


@dataclass
class Block:
    """A fenced block. `info` is what stands behind the opening fence: "cpp", "sh run"."""

    page: Path
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(page: Path, info: str | None = None) -> list[Block]:
    text = read(page)
    found = [
        Block(page, text.count("\n", 0, match.start()) + 1, match.group(1).strip(), match.group(2))
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if info is None or block.info == info]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", read(page))


def codes(text: str) -> list[str]:
    """What stands between single backquotes."""
    return re.findall(r"`([^`\n]+)`", text)


def tables(page: Path) -> list[list[list[str]]]:
    """Every table as rows of cells, the heading first, the line of dashes left out."""
    found: list[list[list[str]]] = []
    in_table = False
    for line in prose(page).splitlines():
        if not line.startswith("|"):
            in_table = False
            continue
        cells = [cell.strip() for cell in CELL_BORDER.split(line)[1:-1]]
        if not in_table:
            found.append([])
            in_table = True
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            found[-1].append(cells)
    return found


def rows_under(page: Path, first_heading: str) -> list[list[str]]:
    """The rows of all tables whose first heading is this one."""
    return [row for table in tables(page) if table[0][0] == first_heading for row in table[1:]]


def contains(source: str, block: str) -> bool:
    """Whether the lines of `block` stand in `source` at any indentation."""
    plain = textwrap.dedent(block).strip("\n")
    return any(textwrap.indent(plain, " " * depth) in source for depth in range(0, 9, 2))


def sources(*folders: str) -> dict[Path, str]:
    """C and C++ files below the folders, tests left out."""
    return {
        path: read(path)
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".c", ".cc", ".h"} and not path.name.endswith("_test.cc")
    }


def tool() -> Path:
    path = os.environ.get("OPST_TOOL", "")
    if not path or not Path(path).exists():
        raise FileNotFoundError(f"OPST_TOOL must name the built tool; got '{path}'")
    return Path(path).resolve()


def environment() -> dict[str, str]:
    """The tool first on the PATH, and no OPST_ variables: the tool refuses unknown ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPST_")}
    return {**kept, "PATH": f"{tool().parent}{os.pathsep}{kept.get('PATH', '')}"}


def run(command: list[str], folder: Path) -> str:
    """Standard output of a command, which must succeed."""
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout
