"""Tests what every command of the built tool does with its command line: spellings, mistakes, exit codes.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The tool is the one that OPST_TOOL names.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "tests/data/tiny/olmoe"


def opst(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPST_")}
    return subprocess.run(
        [os.environ["OPST_TOOL"], *map(str, arguments)],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.opst"
    assert opst("convert", CHECKPOINT, path).returncode == 0
    return path


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["generate", "m", "x", "--temprature", "0"],
            "opst generate has no flag --temprature; the nearest known one is --temperature",
        ),
        (["generate", "m", "--top_kk=3"], "opst generate has no flag --top-kk; the nearest known one is --top-k"),
        (["inspect", "m", "--threds", "2"], "opst inspect has no flag --threds; the nearest known one is --threads"),
        (["inspect", "--chekc"], "opst inspect has no flag --chekc; the nearest known one is --check"),
        (["bench", "layer", "--tokns", "1"], "opst bench layer has no flag --tokns; the nearest known one is --tokens"),
        (["inspct", "m"], "opst has no command inspct; the nearest known one is inspect"),
        (["bench", "modell"], "opst bench has no command modell; the nearest known one is model"),
        (["--hlp"], "opst has no flag --hlp; the nearest known one is --help"),
        (["inspect", "m", "n"], "opst inspect has no use for another argument: n"),
    ],
)
def test_a_wrong_word_names_the_nearest_and_is_a_usage_error(arguments, text):
    done = opst(*arguments)
    assert done.stderr == f"opst: [command line] {text}\n"
    assert done.stdout == ""
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("flag", "value", "range_"),
    [
        ("--seed", "-1", "0 to 18446744073709551615"),
        ("--seed", "18446744073709551616", "0 to 18446744073709551615"),
        ("--seed", "0x10", "0 to 18446744073709551615"),
        ("--seed", "1.5", "0 to 18446744073709551615"),
        ("--top-k", "9223372036854775808", "0 to 9223372036854775807"),
        ("--max-new-tokens", "0", "1 to 9223372036854775807"),
        ("--active-experts", "none", "1 to 9223372036854775807"),
    ],
)
def test_a_number_out_of_its_range_is_a_usage_error_that_names_the_range(flag, value, range_):
    done = opst("generate", "m", "x", flag, value)
    assert f"{flag}: must be an integer from {range_}; got {value}\n" in done.stderr
    assert done.returncode == 2


def test_a_bench_of_no_tokens_is_refused():
    for value in ("0", "-1", "8,0"):
        done = opst("bench", "layer", "--tokens", value)
        assert "--tokens: must be an integer from 1 to 2147483648; got " in done.stderr
        assert done.returncode == 2


def test_settings_work_with_every_command(model):
    for arguments in (["inspect", model], ["generate", model, "a", "-n", "1"], ["perplexity", model, __file__]):
        assert "threads" in opst(*arguments, "--threads", "none").stderr
        assert opst(*arguments, "--threads", "none").returncode == 2
    for load in ("map", "read"):
        assert opst("inspect", model, "--load", load, "--huge_pages=off").returncode == 0


def test_both_spellings_of_a_flag_mean_the_same():
    def sizes(flag):
        return opst("bench", "layer", f"--{flag}=1 apple", "--runs=1").stderr

    assert "stage1_buffer_size" in sizes("stage1-buffer-size")
    assert sizes("stage1-buffer-size") == sizes("stage1_buffer_size")


def test_exit_codes_tell_success_failure_and_usage(model):
    assert opst("--help").returncode == 0
    assert opst("--version").returncode == 0
    assert opst("inspect", model).returncode == 0
    assert opst("inspect", model.with_name("missing")).returncode == 1
    assert opst("convert", CHECKPOINT, model).returncode != 0  # exists, and no --force
    assert opst().returncode == 2
    assert opst("inspect").returncode == 2
    assert opst("inspect", model, OPST_THREDS="2").returncode == 2
    assert opst("generate", model, "a", "--temperature", "hot").returncode == 2


def test_instruction_sets_have_other_names(model):
    for name in ("auto", "baseline"):
        assert opst("inspect", model, "--isa", name).returncode == 0
    done = opst("inspect", model, "--isa", "avx")
    assert "auto|avx512_vnni|avx512|avx2|sse2|neon|baseline|avx3" in done.stderr
    assert done.returncode == 2


def test_output_that_does_not_arrive_is_a_failure(model):
    for arguments in (["inspect", model], ["--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [os.environ["OPST_TOOL"], *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True
            )
        assert done.returncode == 1, arguments
        assert "standard output must take what is written" in done.stderr


def test_a_closed_standard_input_is_an_empty_prompt(model):
    command = f"'{os.environ['OPST_TOOL']}' generate '{model}' <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert done.stdout == ""


def test_a_folder_in_place_of_a_packed_file_gets_a_hint():
    done = opst("generate", CHECKPOINT, "hi")
    assert done.returncode == 1
    assert "must be a packed file; got a folder; is it a checkpoint that needs `opst convert`?" in done.stderr


def test_what_stops_a_conversion_is_named(model):
    assert "an existing file (--force replaces it)" in opst("convert", CHECKPOINT, model).stderr
    nowhere = model.parent / "no" / "such" / "out.opst"
    assert f"the output's folder must exist; got nothing or no folder at {nowhere.parent}" in (
        opst("convert", CHECKPOINT, nowhere).stderr
    )
