"""Tests which files the built tool writes, replaces and refuses.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The tool is the one that OPST_TOOL names.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "models/austen-moe"


def opst(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPST_")}
    return subprocess.run(
        [os.environ["OPST_TOOL"], *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "austen.opst"
    assert opst("convert", BUNDLED, path).returncode == 0
    return path


@pytest.mark.parametrize("flag", ["--result-json", "--usage-json"])
def test_a_report_replaces_a_file_only_by_force_and_never_one_that_is_read(model, tmp_path, flag):
    def generate(path, *more):
        return opst("generate", model, "--prompts", prompts, "-n", 2, "-q", flag, path, *more)

    prompts, report = tmp_path / "prompts.txt", tmp_path / "report.json"
    prompts.write_text("She was\n", encoding="utf-8")
    assert generate(report).returncode == 0
    first = report.read_text(encoding="utf-8")
    refused = generate(report)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "an existing file (--force replaces it)" in refused.stderr
    assert report.read_text(encoding="utf-8") == first
    assert generate(report, "--force").returncode == 0
    link = tmp_path / "link"
    link.symlink_to(model)
    size = model.stat().st_size
    for path in (model, prompts, link):
        refused = generate(path, "--force")
        assert f"{flag} must not replace a file that is read" in refused.stderr
        assert (refused.returncode, refused.stdout) == (1, "")
    assert model.stat().st_size == size
    assert prompts.read_text(encoding="utf-8") == "She was\n"


def test_a_report_that_cannot_be_written_is_known_before_the_work(model, tmp_path):
    done = opst("generate", model, "She was", "--result-json", tmp_path / "no/such/folder/r.json")
    assert "the output's folder must exist" in done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    same = tmp_path / "r.json"
    done = opst("generate", model, "She was", "--result-json", same, "--usage-json", same)
    assert "must be two files" in done.stderr
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        opst("generate", model, "She", "-n", 1, "-q", "--result-json", "/dev/stdout").stdout.count("stop_reason") == 1
    )


def test_results_name_the_line_of_their_prompt(model, tmp_path):
    prompts, report = tmp_path / "prompts.txt", tmp_path / "report.json"
    prompts.write_text("\nShe was\n\r\n\nGod\n", encoding="utf-8")
    done = opst("generate", model, "--prompts", prompts, "-n", 2, "-q", "--result-json", report)
    results = json.loads(report.read_text(encoding="utf-8"))
    assert [result["line"] for result in results] == [2, 5]
    assert done.stdout == f"[2] She was{results[0]['text']}\n\n[5] God{results[1]['text']}\n"


def test_a_text_longer_than_any_memory_is_refused_by_the_plan(model):
    for flags in (["-n", 2**63 - 1], ["-n", 10**15]):
        done = opst("generate", model, "She was", *flags)
        assert "take a shorter --context-length or --max-new-tokens" in done.stderr
        assert (done.returncode, done.stdout) == (1, "")
    done = opst("perplexity", model, BUNDLED / "heldout.txt", "--window", 10**12)
    assert "the plan must fit the available memory" in done.stderr
    assert done.returncode == 1


def test_the_way_back_takes_no_flags(model, tmp_path):
    done = opst("convert", model, tmp_path / "back", "--verify", "--weights", "f32", "--force")
    assert "goes back to a folder as it is, without flags; got --force, --weights, --verify" in done.stderr
    assert done.returncode == 2
    assert not (tmp_path / "back").exists()


def test_a_file_of_another_kind_gets_a_hint(tmp_path):
    readme = ROOT / "README.md"
    assert "must be a packed file; got another kind of file; was it made by `opst convert`?" in (
        opst("generate", readme, "hi").stderr
    )
    refused = opst("convert", readme, tmp_path / "x.opst").stderr
    assert "*.gguf" in refused
    assert "the folder of the checkpoint" in refused


def test_perplexity_begins_every_window_as_the_tokenizer_begins_a_text(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(BUNDLED, source)
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    begin = tokenizer["added_tokens"][0]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": begin["content"], "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {
            begin["content"]: {"id": begin["content"], "ids": [begin["id"]], "tokens": [begin["content"]]}
        },
    }
    (source / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    assert opst("convert", source, tmp_path / "m.opst").returncode == 0

    def first_line(*flags):
        done = opst("perplexity", tmp_path / "m.opst", BUNDLED / "heldout.txt", "--window", 64, *flags)
        return done.stdout.split(" in ")[0], f"every window begins with {begin['content']}\n" in done.stdout

    with_token, without = first_line(), first_line("--no-begin-tokens")
    assert with_token[1]
    assert not without[1]
    assert with_token[0] != without[0]
