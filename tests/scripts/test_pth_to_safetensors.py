"""Tests of scripts/pth_to_safetensors.py: same tensors, shards, and nothing executed.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pickle
from pathlib import Path

import pytest

if os.environ.get("CI"):
    import torch
else:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: .pth files are NOT tested")

import pth_to_safetensors
from safetensors.torch import load_file


def run(folder: Path, output: Path) -> None:
    pth_to_safetensors.main([str(folder), str(output)])


def test_one_file_keeps_every_bit_and_the_text_files(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    weight = torch.randn(3, 4).to(torch.bfloat16)
    torch.save({"a": weight, "tied": weight, "turned": torch.randn(4, 3).T}, source / "pytorch_model.bin")
    (source / "config.json").write_text('{"model_type": "olmoe"}')
    run(source, output)
    tensors = load_file(output / "model.safetensors")
    assert torch.equal(tensors["a"], weight) and torch.equal(tensors["tied"], weight)
    assert tensors["turned"].shape == (3, 4)
    assert (output / "config.json").read_text() == '{"model_type": "olmoe"}'


def test_several_files_become_shards_with_an_index(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for number, name in enumerate("ab", start=1):
        torch.save({name: torch.ones(number)}, source / f"pytorch_model-0000{number}-of-00002.bin")
    (source / "pytorch_model.bin.index.json").write_text("{}")
    run(source, output)
    index = json.loads((output / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {
        "a": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors",
    }
    assert load_file(output / "model-00002-of-00002.safetensors")["b"].tolist() == [1, 1]
    assert not (output / "pytorch_model.bin.index.json").exists()


def test_wrapped_state_is_found(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    torch.save({"state_dict": {"a": torch.ones(2)}, "step": 3}, source / "model.pth")
    run(source, output)
    assert list(load_file(output / "model.safetensors")) == ["a"]


class Payload:
    """What a malicious file does: run a function while it is read."""

    def __reduce__(self):
        return (os.mkdir, ("executed",))


def test_code_in_a_pickle_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in"
    source.mkdir()
    torch.save({"a": Payload()}, source / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError):
        run(source, tmp_path / "out")
    assert not (tmp_path / "executed").exists()


def test_strangers_and_missing_files_are_named(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    with pytest.raises(SystemExit, match="no PyTorch file"):
        run(source, tmp_path / "out1")
    torch.save({"a": torch.ones(1), "epoch": 7}, source / "model.pth")
    with pytest.raises(SystemExit, match="entries must be tensors; got epoch"):
        run(source, tmp_path / "out2")
