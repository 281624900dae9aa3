"""Texts that tokenizers get wrong, made from a seed: the same on every machine.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0
"""

# ruff: noqa: E501 (lists of texts)
import random

WORDS = "the The THE of don't I'LL we've naïve Zürich straße İstanbul ﬁne Ελλάδα Привет мир שלום عربى नमस्ते ไทย 한국어 日本語 中文 漢字 ｶﾀｶﾅ".split()
EMOJI = [
    "🙂",
    "👩‍👩‍👧",
    "👍🏽",
    "🇩🇪",
    "❤️",
    "🏴‍☠️",
    "e\u0301",
    "n\u0303",
    "\u0301",
    "a\u0323\u0302",
    "ậ",
    "\u200d",
    "\ufe0f",
    "Å",
    "\u212b",
    "ﷺ",
    "½",
    "①",
    "Ⅳ",
    "߁",
]
SPACES = [
    " ",
    "  ",
    "    ",
    " " * 17,
    "\t",
    "\t\t ",
    "\n",
    "\n\n",
    " \n ",
    "\r\n",
    "\r",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\u0085",
    "\v",
    "\f",
    "\u200b",
    "\ufeff",
]
MARKS = list("!?.,;:'\"()[]{}<>/\\|@#$%^&*-_=+~`") + [
    "...",
    "—",
    "“",
    "”",
    "«",
    "。",
    "、",
    "¿",
    "->",
    "::",
    "//",
    "'s",
    "'LL",
    "''",
    "<s>",
    "</s>",
    "<unk>",
    "<|im_end|>",
    "<|endoftext|>",
    "▁",
    "Ġ",
    "<0x0A>",
    "<0xZZ>",
]
INVALID = [
    b"\xff",
    b"\xc3",
    b"\xe4\xb8",
    b"\xf0\x9f\x98",
    b"\x80",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x1b[0m",
]
CODE = [
    "def f(x):\n    return x\n",
    "if(a&&b){c++;}",
    "https://example.com/a?b=c&d=%20",
    "0x1F",
    "a_b_c",
    "camelCaseWord",
    '<div class="x">',
    "\\n\\t",
    "SELECT *\nFROM t;",
]


def number(rng: random.Random) -> str:
    return "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 12)))


def long_word(rng: random.Random) -> str:
    letters = rng.choice(["a", "ab", "abcdefghijklmnopqrstuvwxyz", "é", "中文字", "0123456789", "=-", "🙂"])
    return "".join(rng.choice(letters) for _ in range(rng.randint(20, 400)))


def character(rng: random.Random) -> str:
    """Any character of the blocks that every version of Unicode in use knows."""
    first, last = rng.choice(
        [
            (0x20, 0x7E),
            (0xA1, 0x24F),
            (0x391, 0x3A1),
            (0x410, 0x44F),
            (0x5D0, 0x5EA),
            (0x905, 0x939),
            (0xE01, 0xE30),
            (0x1100, 0x1112),
            (0x2010, 0x2027),
            (0x3041, 0x3096),
            (0x4E00, 0x9FA5),
            (0xAC00, 0xD7A3),
            (0x1F600, 0x1F64F),
        ]
    )
    return chr(rng.randint(first, last))


def piece(rng: random.Random) -> bytes:
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice(INVALID)
    if kind == 1:
        return number(rng).encode()
    if kind == 2:
        return "".join(character(rng) for _ in range(rng.randint(1, 6))).encode()
    if kind == 3 and rng.random() < 0.1:
        return long_word(rng).encode()
    return rng.choice([WORDS, EMOJI, SPACES, MARKS, CODE][rng.randrange(5)]).encode()


def texts(count: int, seed: int = 20260101) -> list[bytes]:
    """Every piece alone, then `count` mixtures; half of them have spaces between their pieces."""
    rng = random.Random(seed)
    alone = [text.encode() for text in [*WORDS, *EMOJI, *SPACES, *MARKS, *CODE]] + INVALID
    mixed = [rng.choice([b"", b" "]).join(piece(rng) for _ in range(rng.randint(1, 12))) for _ in range(count)]
    return [b"", *alone, *mixed]
