"""Checks the text of pages: links, README length, no praise, no paths or hosts of one machine.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

It looks at the text only; the snippets in it are run by other tests.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from repo_files import code_files, default_root, read, repo_files, report

README_LINES = 150
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|\!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
# Praise instead of numbers.
PRAISE = re.compile(
    r"\b(blazing(ly)?|lightning[- ]fast|cutting[- ]edge|state[- ]of[- ]the[- ]art"
    r"|world[- ]class|seamless(ly)?"
    r"|revolutionary|effortless(ly)?|supercharged?)\b",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/[\w.]")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 1
        unique = anchor
        while unique in found:
            unique, number = f"{anchor}-{number}", number + 1
        found.add(unique)
    return found


def check_links(root: Path, path: Path, text: str) -> list[str]:
    problems = []
    for match in LINK.finditer(FENCE.sub("", text)):
        link = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        page = (root / path.parent / target).resolve() if target else root / path
        if not page.exists():
            problems.append(f"{path}: the link {link} leads nowhere")
        elif anchor and page.suffix == ".md" and anchor not in anchors(page.read_text("utf-8")):
            problems.append(f"{path}: {link} names a heading that does not exist")
    return problems


def check_readmes(root: Path) -> list[str]:
    """Length, and that the Chinese page has the same headings, code blocks and links' targets."""
    problems = []
    shapes = {}
    for name in ("README.md", "README.zh.md"):
        if not (root / name).exists():
            problems.append(f"{name} is missing")
            continue
        text = read(root, Path(name))
        if text.count("\n") > README_LINES:
            problems.append(f"{name}: {text.count(chr(10))} lines (most: {README_LINES})")
        prose = FENCE.sub("", text)
        shapes[name] = [len(re.findall(r"^#+ ", prose, re.M)), len(FENCE.findall(text))]
    if len(shapes) == 2 and shapes["README.md"] != shapes["README.zh.md"]:
        problems.append(
            "README.md and README.zh.md differ in shape: "
            f"(headings, code blocks) are {shapes['README.md']} and {shapes['README.zh.md']}"
        )
    return problems


def registry_hosts() -> set[str]:
    """Hosts of the package registries this machine is set up with: they belong in no file."""
    commands = [
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"],
        ["python3", "-m", "pip", "config", "list"],
    ]
    hosts = set()
    for command in commands:
        try:
            output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:
            continue
        hosts |= set(re.findall(r"https?://(?:[^/\s:@']+@)?([\w.-]+\.[a-z]{2,})", output))
    return hosts


def check_text(path: Path, text: str, hosts: set[str]) -> list[str]:
    problems = []
    for line, content in enumerate(text.splitlines(), 1):
        if path.suffix == ".md" and (match := PRAISE.search(content)):
            problems.append(f"{path}:{line}: '{match.group(0)}' praises; state a number instead")
        if match := MACHINE_PATH.search(content):
            problems.append(f"{path}:{line}: '{match.group(0)}...' is a path of one machine")
        problems += [f"{path}:{line}: names the registry host {host}" for host in hosts if host in content]
    return problems


def check(root: Path) -> list[str]:
    problems = check_readmes(root)
    hosts = registry_hosts()
    pages = [path for path in repo_files(root) if path.suffix == ".md"]
    for path in pages:
        problems += check_links(root, path, read(root, path))
    for path in {*pages, *code_files(root), Path("Makefile")} - {Path("scripts/check_docs.py")}:
        if (root / path).exists():
            problems += check_text(path, read(root, path), hosts)
    return sorted(problems)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=default_root())
    root = parser.parse_args().root
    return report("docs", check(root), "links resolve, both READMEs have the same shape")


if __name__ == "__main__":
    sys.exit(main())
