"""Trains the two small test tokenizers and writes the reference's answers; no test needs it.

Writes byte_level.json and byte_fallback.json (models only, trained on text made here), and
goldens.json: configurations of the parts around them, each with texts, ids and decoded texts as the
`tokenizers` package gives them. Deterministic for one version of the package.

    python make_goldens.py [folder]
"""

# SPDX-FileCopyrightText: ops-transformer authors
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

WORDS = (
    "the of and to in he was that it his her with as for you not is on at be him had my "
    "she we all but this from they Hello don't I'm we'll they've it's HE'S CAN'T o'clock "
    "naïve façade Ελληνικά Привет мир שלום العربية हिन्दी ไทย 中文 漢字 日本語 かな 한국어 ﬁ ſ K ß İ "
    "ǆ expert router token merge layer weight running runner runs ran"
).split()
NASTY = [
    "😀",
    "👩‍👩‍👧",
    "🏳️‍🌈",
    "👍🏽",
    "🩷",
    "🫨",
    "e\u0301",
    "\u0301",
    "n\u0303\u0323",
    "\u1100\u1161\u11a8",
    "\u212b",
    "\u0958",
    "\u0f73",
    "\u0898",
    "\U00011935\U00011930",
    "\u0340",
    "\ufdfa",
    "か\u3099",
    "\U00031350",
    "½",
    "²",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\u200b",
    "\u180e",
    "\ufeff",
    "\x0b",
    "\x85",
    "\x00",
    "\x1f",
    "\x7f",
    "\ufffd",
    "\U0010ffff",
    "\u00ad",
    "12",
    "1234567",
    "3.14",
    "٣٤٥",
    "Ⅻ",
    "１２",
    "\U0001ccf3",
    "...",
    "—",
    "“",
    "!!!",
    "->",
    "√",
    "₹",
    "``",
    "\\",
    "<0x0A>",
    "▁",
    "Ġ",
    "<s>",
    "</s>",
    "<unk>",
    "<|im_end|>",
    "<|im_end",
    "def f(x):\n    return x**2\n",
    "\r\n",
    "\n\n",
    "\t",
    " " * 9,
    "a" * 40,
    "\n \n",
]
GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = dict(GPT2, use_regex=False)
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
THREE = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def text(rng):
    parts = []
    for _ in range(rng.randrange(1, 9)):
        parts.append(rng.choice(WORDS) if rng.random() < 0.5 else rng.choice(NASTY))
        if rng.random() < 0.6:
            parts.append(" ")
    return "".join(parts)


def train(byte_level, vocab_size):
    rng = random.Random(1)
    tokenizer = Tokenizer(models.BPE())
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        alphabet = list("▁abcdefghijklmnopqrstuvwxyz")
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=alphabet,
        limit_alphabet=200 + 100 * byte_level,
    )
    # Without "<" no piece can be learned that looks like a special or a byte token.
    lines = [text(rng).replace("<", "") for _ in range(4000)]
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if not byte_level:
        pieces = sorted(model["vocab"], key=model["vocab"].get)
        pieces = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + pieces
        model.update(
            vocab={piece: i for i, piece in enumerate(pieces)},
            byte_fallback=True,
            unk_token="<unk>",
            fuse_unk=True,
            merges=[" ".join(m) for m in model["merges"]],
        )
    return model


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(model, *tokens):
    """Added tokens with the ids that the reference gives them whatever the file says."""
    vocab, result = model["vocab"], []
    new = len(vocab)
    for content, flags in tokens:
        token = {
            "id": vocab.get(content, new),
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        new += content not in vocab
        result.append(dict(token, **flags))
    return result


def template(name, token_id):
    special = {"SpecialToken": {"id": name, "type_id": 0}}
    first = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special, first],
        "pair": [special, first, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [token_id], "tokens": [name]}},
    }


def configurations(byte_level, byte_fallback):
    """(name, model, overrides) of every tokenizer."""
    yield from byte_level_configurations(byte_level)
    yield from byte_fallback_configurations(byte_fallback)


def byte_level_configurations(byte_level):
    chat = added(byte_level, ("<|im_start|>", {}), ("<|im_end|>", {}), ("the", {"special": False}))
    flags = added(
        byte_level,
        ("<s>", {"lstrip": True}),
        ("</s>", {"rstrip": True}),
        ("run", {"single_word": True, "special": False}),
        ("    ", {"normalized": True, "special": False}),
        ("\u212b", {"normalized": True, "special": False}),
    )
    nfc = {"type": "NFC"}
    yield "gpt2", "byte_level", dict(pre_tokenizer=GPT2, decoder=GPT2)
    yield (
        "qwen",
        "byte_level",
        dict(
            normalizer=nfc,
            pre_tokenizer=sequence(split(QWEN), BYTES),
            decoder=BYTES,
            added_tokens=chat,
        ),
    )
    yield (
        "llama3",
        "byte_level",
        dict(
            pre_tokenizer=sequence(split(LLAMA3), BYTES),
            decoder=BYTES,
            post_processor={
                "type": "Sequence",
                "processors": [BYTES, template("<|im_start|>", chat[0]["id"])],
            },
            added_tokens=chat,
            model={"ignore_merges": True},
        ),
    )
    yield "cased", "byte_level", dict(pre_tokenizer=sequence(split(CASED), BYTES), decoder=BYTES)
    yield (
        "three splits",
        "byte_level",
        dict(pre_tokenizer=sequence(*map(split, THREE), BYTES), decoder=BYTES),
    )
    yield (
        "flags",
        "byte_level",
        dict(
            normalizer=nfc,
            added_tokens=flags,
            decoder=BYTES,
            pre_tokenizer=sequence(
                {"type": "Digits", "individual_digits": True},
                split(r"\w+|\S", "Contiguous", True),
                dict(GPT2, add_prefix_space=True),
            ),
        ),
    )


def byte_fallback_configurations(byte_fallback):
    sentence = added(byte_fallback, ("<unk>", {}), ("<s>", {}), ("</s>", {}))
    legacy = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    }
    unspell = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    first = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    always = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    yield (
        "legacy",
        "byte_fallback",
        dict(
            normalizer=legacy,
            decoder=unspell,
            added_tokens=sentence,
            post_processor=template("<s>", 1),
        ),
    )
    yield (
        "metaspace first",
        "byte_fallback",
        dict(pre_tokenizer=first, decoder=unspell, added_tokens=sentence),
    )
    yield "metaspace always", "byte_fallback", dict(pre_tokenizer=always, decoder=always)
    yield "compatible", "byte_fallback", dict(normalizer={"type": "NFKC"}, decoder=None)


def cases(tokenizer, rng, count):
    for i in range(count):
        data = text(rng).encode()
        if i % 5 == 4:  # damaged: what Python's errors="replace" makes of it is encoded
            cut = rng.randrange(len(data))
            data = data[:cut] + bytes([rng.randrange(128, 256)]) + data[cut + 1 :]
        encoding = tokenizer.encode(data.decode("utf-8", "replace"))
        shuffled = encoding.ids[::-1]
        yield {
            "hex": data.hex(),
            "ids": encoding.ids,
            "decoded": tokenizer.decode(encoding.ids, skip_special_tokens=True),
            "reversed": tokenizer.decode(shuffled, skip_special_tokens=False),
        }


def main(folder):
    base = {"byte_level": train(True, 600), "byte_fallback": train(False, 500)}
    for name, model in base.items():
        (folder / (name + ".json")).write_text(json.dumps(model, separators=(",", ":")) + "\n")
    rows = []
    for name, model, parts in configurations(**base):
        whole = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": None,
        }
        whole.update(parts)
        whole["model"] = dict(base[model], **parts.get("model", {}))
        tokenizer = Tokenizer.from_str(json.dumps(whole))
        rng = random.Random(name)
        rows.append({"name": name, "model": model, "parts": parts, "cases": list(cases(tokenizer, rng, 36))})
    goldens = {"tokenizers": tokenizers.__version__, "configurations": rows}
    (folder / "goldens.json").write_text(
        json.dumps(goldens, separators=(",", ":")).replace('{"hex"', '\n{"hex"') + "\n"
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
