"""Fixtures for the tests of scripts/: a small repository in a temporary folder.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(path, text) puts a file into tmp_path, which starts with the list of rooms only."""

    def put(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    put("CMakeLists.txt", "set(OPST_ROOMS base tensor ops)\n")
    return put
