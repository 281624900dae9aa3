"""Tests `opst compare` against numpy: equal and different dumps, types, coordinates, files that lie.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The tool is the one that OPST_TOOL names.
"""

import numpy as np
import pytest
from safetensors.numpy import save_file
from test_command_line import opst


def dump(folder, **arrays):
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_equal_dumps_say_so(tmp_path):
    arrays = {
        "x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "n": np.array([1, 2**60], np.int64),
        "empty": np.zeros((0, 4)),
    }
    done = opst("compare", dump(tmp_path / "a", **arrays), dump(tmp_path / "b", **arrays), "--all")
    assert done.returncode == 0
    assert done.stdout.count("equal\n") == 3
    assert "3 equal, 0 different, 0 on one side only" in done.stdout


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_the_first_difference_has_its_coordinates(tmp_path, dtype):
    a = np.arange(60).reshape(3, 4, 5).astype(dtype)
    b = a.copy()
    b[1, 2, 3] += 2
    b[2, 0, 0] += 4
    done = opst("compare", dump(tmp_path / "a", x=a), dump(tmp_path / "b", x=b))
    assert done.returncode == 1
    assert "2 of 60 differ, the first at [1,2,3]: 33, 35" in done.stdout
    assert "max abs 4 " in done.stdout


def test_tolerance_is_that_of_numpy(tmp_path):
    random = np.random.default_rng(1)
    a = random.normal(size=1000)
    b = a * (1 + 3e-4 * random.normal(size=1000)) + 1e-5 * random.normal(size=1000)
    folders = dump(tmp_path / "a", x=a), dump(tmp_path / "b", x=b)
    for atol, rtol in ((1e-8, 1e-5), (1e-5, 1e-4), (1e-3, 0), (0, 1e-2), (1e-4, 1e-3)):
        different = np.count_nonzero(~np.isclose(a, b, rtol, atol))
        done = opst("compare", *folders, "--atol", atol, "--rtol", rtol)
        assert done.returncode == (1 if different else 0)
        if different:
            assert f"{different} of 1000 differ" in done.stdout


def test_not_a_number_equals_itself_only(tmp_path):
    a = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert opst("compare", dump(tmp_path / "a", x=a), dump(tmp_path / "b", x=a)).returncode == 0
    c = np.array([1.0, -np.inf, 1.0, np.nan])
    done = opst("compare", tmp_path / "a", dump(tmp_path / "c", x=c), "--atol", 1e300)
    assert "4 of 4 differ, the first at [0]: nan, 1" in done.stdout


def test_integers_beyond_doubles_are_compared_exactly(tmp_path):
    done = opst(
        "compare",
        dump(tmp_path / "a", x=np.array([2**60])),
        dump(tmp_path / "b", x=np.array([2**60 + 1])),
        "--atol",
        "0",
        "--rtol",
        "0",
    )
    assert done.returncode == 1
    assert "1 of 1 differ" in done.stdout


def test_shapes_and_names_must_agree(tmp_path):
    a = dump(tmp_path / "a", x=np.zeros((2, 3)), only=np.zeros(1))
    b = dump(tmp_path / "b", x=np.zeros((3, 2)), other=np.zeros(1))
    done = opst("compare", a, b)
    assert done.returncode == 1
    assert "shapes differ: [2,3] f64, [3,2] f64" in done.stdout
    assert f"only in {a}" in done.stdout and f"only in {b}" in done.stdout


def test_safetensors_of_another_dtype_and_single_files(tmp_path):
    x = np.arange(4, dtype=np.float32)
    save_file({"x": x}, tmp_path / "a.safetensors")
    save_file({"x": x.astype(np.float16)}, tmp_path / "b.safetensors")
    assert opst("compare", tmp_path / "a.safetensors", tmp_path / "b.safetensors").returncode == 0
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", x + 1)
    assert opst("compare", tmp_path / "a.npy", tmp_path / "b.npy").returncode == 1


def test_files_that_lie_are_named(tmp_path):
    a = dump(tmp_path / "a", x=np.zeros(4))
    (a / "x.npy").write_bytes((a / "x.npy").read_bytes()[:-1])
    done = opst("compare", a, a)
    assert done.returncode == 1
    assert "x.npy] the data must be [4] f64; got 31 bytes" in done.stderr
    done = opst("compare", tmp_path / "missing", a)
    assert "must be a folder or a file of tensors; got nothing of that name" in done.stderr
