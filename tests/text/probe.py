"""Runs text_probe for the tests of this folder, and finds the packages that carry real files.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import importlib.util
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path


def run(arguments: list[str], text: str) -> str:
    probe = os.environ["TEXT_PROBE"]
    done = subprocess.run(
        [probe, *arguments],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    if done.returncode != 0:
        raise AssertionError(f"text_probe {arguments} gave {done.returncode}: {done.stderr}")
    return done.stdout


def render(cases: list[dict]) -> list[dict]:
    return json.loads(run(["render"], json.dumps(cases)))


def tokenize(path: Path, texts: list[bytes]) -> list[tuple[list[int], bytes]]:
    """Ids of each text, and what they decode to."""
    rows = []
    for line in run(["tokenize", str(path)], "".join(text.hex() + "\n" for text in texts)).splitlines():
        ids, _, decoded = line.partition("\t")
        rows.append(([int(token) for token in ids.split()], bytes.fromhex(decoded)))
    return rows


def missing(what: str):
    """Skips the test, but fails it in CI, where nothing may be missing."""
    message = f"{what} is not installed (scripts/setup.sh --tests does it): nothing was compared"
    if os.environ.get("CI"):
        raise AssertionError(message)
    raise unittest.SkipTest(message)


def need(module: str):
    """A package that answers are compared with."""
    if importlib.util.find_spec(module) is None:
        missing(module)


def folder_of(package: str) -> Path:
    """The files of a package of scripts/requirements-data.txt."""
    folder = Path(sys.prefix) / "model-files" / package
    if not folder.is_dir():
        missing(package)
    return folder
