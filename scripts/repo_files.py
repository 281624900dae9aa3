"""Lists the repository's own files for the check scripts; it judges nothing.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

CODE_SUFFIXES = {".cc", ".h", ".c", ".py", ".sh", ".cmake"}


def default_root() -> Path:
    return Path(__file__).resolve().parent.parent


def repo_files(root: Path) -> list[Path]:
    """Tracked and new files, relative to root, without what git ignores.

    Outside a git checkout (the scripts' own tests) every file below root counts.
    """
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\0")
        paths = [Path(name) for name in listed if name]
    else:
        paths = [path.relative_to(root) for path in root.rglob("*")]
    return sorted(path for path in set(paths) if (root / path).is_file())


def code_files(root: Path) -> list[Path]:
    return [
        path
        for path in repo_files(root)
        if path.suffix in CODE_SUFFIXES or path.name == "CMakeLists.txt" or path == Path(".ci/run")
    ]


def read(root: Path, path: Path) -> str:
    return (root / path).read_text(encoding="utf-8", errors="replace")


def strip_cpp(text: str) -> str:
    """Blanks comments, string and character literals; line breaks stay, so line numbers hold."""
    literal = re.compile(
        r'R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'  # raw string
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"  # not the digit separator of 1'000
        r"|//[^\n]*|/\*.*?\*/",
        re.DOTALL,
    )

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group(0))

    return literal.sub(blank, text)


def report(name: str, problems: Iterable[str], summary: str) -> int:
    """Prints the findings; the exit code is 1 when there are any."""
    found = list(problems)
    for problem in found:
        print(f"{name}: {problem}")
    print(f"{name}: {len(found)} problems" if found else f"{name}: {summary}")
    return 1 if found else 0
