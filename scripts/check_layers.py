"""Checks that includes and CMake links only point to earlier rooms; it does not read the code.

SPDX-FileCopyrightText: ops-transformer authors
SPDX-License-Identifier: Apache-2.0

The order of rooms is OPST_ROOMS in CMakeLists.txt. A public header <opst/NAME.h> belongs to the
room in PUBLIC_HEADERS below: add a line there with each new header. Faces may use every room, but
not each other.
"""

import argparse
import re
import sys
from pathlib import Path

from repo_files import default_root, read, repo_files, report

# Owner of each public header, relative to include/opst/. The one place that says so; a header named
# here wins over its folder.
PUBLIC_HEADERS = {
    "error.h": "base",
    "context.h": "base",
    "version.h": "base",
    "dtype.h": "tensor",
    "tensor.h": "tensor",
    "packed_weights.h": "tensor",
    "ops/activation.h": "tensor",
    "pack.h": "pack",
    "routing_plan.h": "ops",
    "tokenizer.h": "text",
    "chat_template.h": "text",
    "moe_layer.h": "moe",
    "expert_store.h": "moe",
    "expert_exchange.h": "moe",
    "attention_recipe.h": "nn",
    "model.h": "model",
    "model_config.h": "model",
    "convert.h": "convert",
    "engine.h": "runtime",
    "memory_plan.h": "runtime",
    "sampling.h": "runtime",
    "opst.h": "capi",
}
PUBLIC_FOLDERS = {"ops/": "ops", "c/": "capi"}

# Folder -> face. Each stands after every room and beside the others.
FACES = {
    "src/capi": "capi",
    "cann": "cann",
    "tools": "tools",
    "python": "python",
    "bench": "bench",
    "examples": "examples",
}

# The tool's command `bench` is the front of bench/; examples are users' programs and may use C.
FACE_EXCEPTIONS = {("tools", "bench"), ("examples", "capi")}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
LINK = re.compile(r"\bopst_add_(library|tests|executable)\s*\(\s*(\w+)([^)]*)\)")
KEYWORDS = {"DEPS", "LINK", "LABELS", "OUTPUT"}


def read_order(root: Path) -> list[str]:
    match = re.search(r"set\(OPST_ROOMS ([^)]+)\)", read(root, Path("CMakeLists.txt")))
    if not match:
        raise SystemExit("layers: CMakeLists.txt has no set(OPST_ROOMS ...)")
    return match.group(1).split()


def public_owner(header: str) -> str | None:
    if header in PUBLIC_HEADERS:
        return PUBLIC_HEADERS[header]
    return next((room for folder, room in PUBLIC_FOLDERS.items() if header.startswith(folder)), None)


def owner_of_file(path: Path, rooms: list[str]) -> str | None:
    """The room or face a file belongs to; None for tests across rooms and for what is no code."""
    name = path.as_posix()
    if name.startswith("include/opst/"):
        return public_owner(name.removeprefix("include/opst/"))
    for folder, face in FACES.items():
        if name.startswith(folder + "/"):
            return face
    if path.parts[0] == "src" and len(path.parts) > 2 and path.parts[1] in rooms:
        return path.parts[1]
    return None


def owner_of_include(header: str, quoted: bool, rooms: list[str]) -> str | None:
    """The room or face an include points to; None when it is somebody else's header."""
    if header.startswith("opst/"):
        return public_owner(header.removeprefix("opst/"))
    first = header.split("/")[0]
    if quoted and "/" in header and (first in rooms or first in {"capi", "bench"}):
        return first
    return None


def allowed(user: str, used: str, rooms: list[str]) -> bool:
    if user == used:
        return True
    if used not in rooms:
        return (user, used) in FACE_EXCEPTIONS
    return user not in rooms or rooms.index(used) < rooms.index(user)


def check_includes(root: Path, path: Path, rooms: list[str]) -> list[str]:
    problems = []
    user = owner_of_file(path, rooms)
    text = read(root, path)
    for match in INCLUDE.finditer(text):
        header, quoted = match.group(2), match.group(1) == '"'
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        used = owner_of_include(header, quoted, rooms)
        if header.startswith("opst/") and used is None:
            if not (root / "include" / header).exists():
                problems.append(f"{where}: <{header}> does not exist")
            continue  # a header without owner is reported once, by check_table
        if path.parts[0] == "include" and used is not None and not header.startswith("opst/"):
            problems.append(f"{where}: a public header includes the private {header}")
        if user in rooms and quoted and used is None and "/" not in header:
            problems.append(f'{where}: "{header}" needs its full path from src/')
        if user and used and not allowed(user, used, rooms):
            problems.append(f"{where}: {user} includes {header} of {used}, which is not an earlier room")
    return problems


def check_links(root: Path, path: Path, rooms: list[str]) -> list[str]:
    problems = []
    user = owner_of_file(path, rooms)
    for kind, name, rest in LINK.findall(re.sub(r"#[^\n]*", "", read(root, path))):
        if kind == "library" and user in rooms and name != user:
            problems.append(f"{path}: opst_add_library({name}) stands in the room {user}")
        words, in_deps = rest.split(), False
        for word in words:
            if word in KEYWORDS:
                in_deps = word == "DEPS"
            elif in_deps and word not in {*rooms, *FACES.values()}:
                problems.append(f"{path}: DEPS names {word}, which is no room")
            elif in_deps and user and not allowed(user, word, rooms):
                problems.append(f"{path}: {user} links {word}, which is not an earlier room")
    return problems


def check_table(files: list[Path], rooms: list[str]) -> list[str]:
    problems = []
    public = {p.as_posix().removeprefix("include/opst/") for p in files if p.as_posix().startswith("include/opst/")}
    for header in sorted(public):
        if header.endswith(".h") and public_owner(header) is None:
            problems.append(f"include/opst/{header}: no owner in PUBLIC_HEADERS of scripts/check_layers.py")
    for header, owner in PUBLIC_HEADERS.items():
        if header not in public:
            problems.append(f"PUBLIC_HEADERS names {header}, which does not exist in include/opst/")
        if owner not in {*rooms, *FACES.values()}:
            problems.append(f"PUBLIC_HEADERS gives {header} to {owner}, which is no room or face")
    for path in files:
        if path.parts[0] == "src" and len(path.parts) > 2 and path.parts[1] not in [*rooms, "capi"]:
            problems.append(f"{path}: src/{path.parts[1]} is not in OPST_ROOMS")
    return problems


def check(root: Path) -> list[str]:
    rooms = read_order(root)
    files = repo_files(root)
    problems = check_table(files, rooms)
    for path in files:
        if path.suffix in {".cc", ".h", ".c"} and path.parts[0] != "tests":
            problems += check_includes(root, path, rooms)
        elif path.name == "CMakeLists.txt":
            problems += check_links(root, path, rooms)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=default_root())
    root = parser.parse_args().root
    return report("layers", check(root), "every include and link points to an earlier room")


if __name__ == "__main__":
    sys.exit(main())
