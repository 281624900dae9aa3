"""Proves that check_docs.py can fail: links, lengths, praise, machine paths and hosts.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

import check_docs
import pytest

PAGE = "# Title\n\n## A `b` section\n\n[self](#a-b-section) [other](docs/other.md#other)\n"


@pytest.fixture
def pages(write, monkeypatch):
    monkeypatch.setattr(check_docs, "registry_hosts", lambda: {"registry.example"})
    write("README.md", PAGE)
    write("README.zh.md", PAGE)
    write("docs/other.md", "# Other\n\n```\n[no](link.md)\n```\n")
    return write


def test_good_pages_pass(pages, tmp_path):
    assert check_docs.check(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/a.md", "[x](missing.md)\n", "the link missing.md leads nowhere"),
        ("docs/a.md", "![x](missing.png)\n", "the link missing.png leads nowhere"),
        ("docs/a.md", "[x](other.md#nothing)\n", "a heading that does not exist"),
        ("docs/a.md", "A blazingly fast library.\n", "state a number"),
        ("docs/a.md", "See " + "/root" + "/x.txt\n", "a path of one machine"),
        ("src/a.cc", '"https://registry.example/simple"\n', "names the registry host"),
        ("README.zh.md", PAGE + "## More\n", "differ in shape"),
        ("README.md", PAGE + "\n" * 150, "most: 150"),
    ],
)
def test_each_fault_is_named(pages, tmp_path, path, text, expected):
    pages(path, text)
    problems = check_docs.check(tmp_path)
    assert len(problems) == 1, problems
    assert expected in problems[0]


def test_both_readmes_must_exist(pages, tmp_path):
    (tmp_path / "README.zh.md").unlink()
    assert check_docs.check(tmp_path) == ["README.zh.md is missing"]
