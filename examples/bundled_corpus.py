"""Fetches and cleans the public-domain text behind models/austen-moe; it does not train anything.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

Two sources, both Debian packages, fetched with `apt-get download` and unpacked into a cache folder
(nothing is installed, so no root is needed once the package lists are up to date):

  r-cran-janeaustenr           Jane Austen's six novels, as R character vectors of lines
  bible-kjv, bible-kjv-text    the King James Bible, printed by its own reader `bible`
"""

import re
import struct
import subprocess
import zlib
from pathlib import Path

PACKAGES = ("r-cran-janeaustenr", "bible-kjv", "bible-kjv-text")
NOVELS = (
    "sensesensibility",
    "prideprejudice",
    "mansfieldpark",
    "emma",
    "northangerabbey",
    "persuasion",
)
HELD_OUT_SHARE = 0.05
END_OF_TEXT = "<|endoftext|>"

CHARSXP, INTSXP, STRSXP, VECSXP = 9, 13, 16, 19  # R's type codes in its XDR serialisation


def fetch(cache):
    """Downloads the packages into `cache` and unpacks them; returns the root of the unpacked tree."""
    root = cache / "root"
    done = root / ".complete"
    if done.exists():
        return root
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=cache, check=True)
    for package in cache.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package.name, "root"], cwd=cache, check=True)
    done.touch()
    return root


class RReader:
    """Reads the few kinds of object that the novels and their index consist of; not a general R reader."""

    def __init__(self, data):
        if data[:2] != b"X\n":
            raise ValueError("[bundled_corpus] an R object must start with 'X\\n'; got %r" % data[:2])
        self.data, self.at = data, 2
        version = self.int()
        self.at += 8  # the writer's version and the oldest reader's
        if version >= 3:
            encoding_bytes = self.int()
            self.at += encoding_bytes

    def int(self):
        (value,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return value

    def item(self):
        """The next object as a Python value. Attributes are left unread, so only the last item may have some."""
        kind = self.int() & 0xFF
        length = self.int()
        if kind == CHARSXP:
            start, self.at = self.at, self.at + max(length, 0)
            return self.data[start : self.at].decode("utf-8")
        if kind == INTSXP:
            return [self.int() for _ in range(length)]
        if kind in (STRSXP, VECSXP):
            return [self.item() for _ in range(length)]
        raise ValueError("[bundled_corpus] unexpected R type %d at byte %d" % (kind, self.at))


def novel_positions(index):
    """{novel: (offset, length) in Rdata.rdb} from the unpacked bytes of Rdata.rdx.

    The index is list(variables = list(emma = c(offset, length), …), …); the names are the attribute
    that follows the list's values: a pairlist node, the symbol `names`, then one string vector.
    """
    reader = RReader(index)
    reader.at += 8  # the outer list: type and length
    positions = reader.item()
    reader.at = index.index(b"names", reader.at) + len(b"names")
    return dict(zip(reader.item(), positions, strict=True))


def clean_novel(lines):
    """Joins the hard-wrapped lines of each paragraph, drops italics marks; paragraphs stay a blank line apart."""
    paragraphs = "\n".join(lines).replace("_", "").split("\n\n")
    joined = (" ".join(paragraph.split()) for paragraph in paragraphs)
    return "\n\n".join(paragraph for paragraph in joined if paragraph)


def read_novels(root):
    """The six novels in order of publication, each one string."""
    folder = root / "usr/lib/R/site-library/janeaustenr/data"
    index = zlib.decompress((folder / "Rdata.rdx").read_bytes(), wbits=47)
    database = (folder / "Rdata.rdb").read_bytes()
    positions = novel_positions(index)
    novels = []
    for name in NOVELS:
        offset, length = positions[name]
        # A record is its unpacked length (4 bytes, unused here), then a zlib stream.
        unpacked = zlib.decompress(database[offset + 4 : offset + length])
        novels.append(clean_novel(RReader(unpacked).item()))
    return novels


def read_bible(root):
    """The books of the King James Bible, each one string with one verse `chapter:verse text` per line."""
    program = root / "usr/bin/bible"
    printed = subprocess.run(
        [str(program.resolve()), "-f"],
        cwd=root / "usr/lib",
        input="gen1:1-rev22:21\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    books, names = [], []
    for line in printed.splitlines():
        match = re.match(r"(\d?[A-Za-z]+)(\d+:\d+) (.*)", line)
        if not match:
            continue  # the program's banner and prompts
        name, reference, verse = match.groups()
        if not names or names[-1] != name:
            names.append(name)
            books.append([])
        text = reference + " " + " ".join(verse.split())
        if text not in books[-1][-1:]:  # the banner shows Genesis 1:1 once more
            books[-1].append(text)
    return ["\n".join(book) for book in books]


def split_tail(documents):
    """(training documents, held-out text): the last 5 % of the characters, cut at the next line's start."""
    keep = int(sum(map(len, documents)) * (1 - HELD_OUT_SHARE))
    train, held_out = [], []
    for document in documents:
        cut = len(document)
        if keep < len(document):
            cut = document.find("\n", max(keep, 0)) + 1 if keep > 0 else 0
            held_out.append(document[cut:].strip("\n"))
        if cut:
            train.append(document[:cut].rstrip("\n"))
        keep -= len(document)
    return train, "\n\n".join(held_out)


def load(cache):
    """{source: (training documents, held-out text)} for "austen" and "bible", fetched when not in `cache`."""
    root = fetch(Path(cache))
    return {"austen": split_tail(read_novels(root)), "bible": split_tail(read_bible(root))}
