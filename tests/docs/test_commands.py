"""Runs every block marked "sh run" with the built tool, and looks up every command that is named.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The tool is the one that OPST_TOOL names. Blocks run in a temporary folder with links to models/
and tests/, as if it were the root of the repository.
"""

import functools
import re
import tempfile
import unittest
from pathlib import Path

from pages import CHINESE, PAGES, ROOT, blocks, codes, prose, read, run, tool

USE = re.compile(r"(?:^|[|;&]\s*)opst((?: +[^\s|;&#]+)*)", re.MULTILINE)


def workplace(folder: str) -> Path:
    for name in ("models", "tests"):
        (Path(folder) / name).symlink_to(ROOT / name)
    return Path(folder)


@functools.cache
def help_of(*command: str) -> str:
    return run([str(tool()), *command, "--help"], ROOT)


@functools.cache
def commands_of(*command: str) -> frozenset[str]:
    """Names below the heading "Subcommands:" of a help text."""
    _, _, listed = help_of(*command).partition("Subcommands:\n")
    return frozenset(re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE))


def uses(page: Path) -> list[list[str]]:
    """Every `opst ...` of a page as words behind the name."""
    shell = [block.text for block in blocks(page) if block.info in {"", "sh", "sh run"}]
    texts = [*shell, *codes(prose(page))]
    return [match.group(1).split() for text in texts for match in USE.finditer(text)]


class CommandsTest(unittest.TestCase):
    def check_use(self, page: Path, words: list[str]) -> tuple[str, ...]:
        """Checks command and flags; returns the command, which may be empty."""
        command: tuple[str, ...] = ()
        rest = list(words)
        while rest and commands_of(*command) and re.fullmatch(r"[a-z]+", rest[0]):
            self.assertIn(rest[0], commands_of(*command), f"{page.name}: opst {' '.join(words)}")
            command += (rest.pop(0),)
        if command or "..." not in rest:
            for flag in (word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)):
                pattern = rf"(?<![\w-]){re.escape(flag)}(?![\w-])"
                self.assertRegex(help_of(*command), pattern, f"{page.name}: {words}")
        return command

    def test_named_commands_and_flags_exist(self):
        for page in PAGES:
            for words in uses(page):
                self.check_use(page, words)

    def test_every_command_is_documented(self):
        named = {self.check_use(page, words)[:1] for page in PAGES for words in uses(page)}
        for command in commands_of():
            self.assertIn((command,), named)

    def test_marked_blocks_run(self):
        runnable = [block for page in PAGES if page != CHINESE for block in blocks(page, "sh run")]
        self.assertGreater(len(runnable), 3)
        for block in runnable:
            with self.subTest(block=str(block)), tempfile.TemporaryDirectory() as folder:
                run(["bash", "-euo", "pipefail", "-c", block.text], workplace(folder))

    def test_help_points_to_pages_that_exist(self):
        for name in re.findall(r"docs/[\w/-]+\.md", help_of()):
            self.assertTrue(read(ROOT / name))


if __name__ == "__main__":
    unittest.main()
