#!/usr/bin/env python3
"""Turns a folder with PyTorch pickles into one with safetensors, which `opst convert` reads.

    .venv/bin/python scripts/pth_to_safetensors.py FOLDER OUTPUT_FOLDER

Reads pytorch_model*.bin, model*.pth, consolidated*.pth or the one *.pt of FOLDER. Pickles are only
loaded with weights_only=True and mapped, so that nothing in them runs and memory stays at the
largest tensor. Every input file becomes one shard; text files are copied. Nothing is renamed.
"""

# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import pathlib
import shutil
import sys

try:
    import torch
    from safetensors.torch import save_file
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the Python packages must be installed (scripts/setup.sh --tests, then .venv/bin/python); {missing}"
    ) from None

PATTERNS = ("pytorch_model*.bin", "model*.pth", "consolidated*.pth", "*.pt", "*.pth", "*.bin")
TEXT_SUFFIXES = (".json", ".jinja", ".txt", ".model")


def pickles_of(folder: pathlib.Path) -> list[pathlib.Path]:
    for pattern in PATTERNS:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if found:
            return found
    raise SystemExit(f"{folder}: no PyTorch file ({', '.join(PATTERNS)})")


def tensors_of(path: pathlib.Path) -> dict[str, torch.Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:  # files of the old form can not be mapped
        if "mmap" not in str(error):
            raise
        state = torch.load(path, map_location="cpu", weights_only=True)
    for key in ("state_dict", "model", "module"):  # what training scripts wrap it in
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    strangers = [key for key, value in state.items() if not isinstance(value, torch.Tensor)]
    if strangers:
        raise SystemExit(f"{path}: entries must be tensors; got {', '.join(map(str, strangers[:8]))}")
    return state


def unshared(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous tensors with memory of their own: safetensors refuses two names for one storage."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        own = tensor.contiguous()
        if own.numel() and own.untyped_storage().data_ptr() in seen:
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        result[name] = own
    return result


def convert(folder: pathlib.Path, output: pathlib.Path) -> None:
    files = pickles_of(folder)
    output.mkdir(parents=True, exist_ok=False)
    weight_map = {}
    for number, path in enumerate(files, start=1):
        name = f"model-{number:05}-of-{len(files):05}.safetensors" if len(files) > 1 else "model.safetensors"
        tensors = unshared(tensors_of(path))
        for key in tensors:
            if key in weight_map:
                raise SystemExit(f"{path}: {key} stands in {weight_map[key]} too")
            weight_map[key] = name
        save_file(tensors, output / name, metadata={"format": "pt"})
    if len(files) > 1:
        index = {"metadata": {}, "weight_map": weight_map}
        (output / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    for path in folder.iterdir():
        if path.is_file() and path.suffix in TEXT_SUFFIXES and not path.name.endswith(".index.json"):
            shutil.copy(path, output / path.name)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args(arguments)
    if options.output.exists():
        raise SystemExit(f"{options.output}: must not exist yet")
    convert(options.folder, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
