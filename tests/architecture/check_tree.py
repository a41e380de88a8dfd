"""Checks the rules of the source tree: rooms, torch, cycles, sizes, names.

Usage: check_tree.py ROOT prints one line a violation and exits 1 when there is any.
The rules: src/rooms.txt says what each room may include; a torch-free room includes no torch
header; neither rooms nor folders include each other in a circle; a file has at most 400 lines;
a README of the room names each of its units; names are snake_case and say what is inside; headers
define no type twice in a namespace; names of modules are written in the code of families alone.
"""

import re
import sys
from pathlib import Path

MAX_LINES = 400
CODE = {".cpp", ".h", ".cu", ".cuh"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : [^;]*)? \{")
MODULE = re.compile(r'"(vision|backbone)"')
# Readers of published files, published methods, and the keys of answers in JSON.
MAY_NAME_MODULES = ("src/config/family", "src/config/artifact", "src/model/family", "src/model/encoder",
                    "src/studies", "src/app/answers")
STEM = re.compile(r"^[a-z][a-z0-9_]*$")


def read_rooms(root):
    """Returns {room: (torch, rooms it may include)} in the order of src/rooms.txt."""
    rooms = {}
    for line in (root / "src/rooms.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            rooms[words[0]] = (words[1] == "yes", set(words[2:]) | {words[0]})
    return rooms


def check_cycles(rooms):
    done = []

    def visit(room, path):
        if room in path:
            yield f"src/rooms.txt: cycle {' -> '.join([*path[path.index(room):], room])}"
        elif room not in done:
            for other in sorted(rooms[room][1] - {room}):
                if other in rooms:
                    yield from visit(other, [*path, room])
                else:
                    yield f"src/rooms.txt: {room} may include {other}, which is no room"
            done.append(room)

    for room in rooms:
        yield from visit(room, [])


def code_files(root, tree):
    return sorted(p for p in (root / tree).rglob("*") if p.suffix in CODE)


def check_includes(root, rooms):
    for path in code_files(root, "src"):
        room = path.relative_to(root / "src").parts[0]
        name = path.relative_to(root)
        if room not in rooms:
            yield f"{name}: folder src/{room} has no line in src/rooms.txt"
            continue
        torch, allowed = rooms[room]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            header = found[2]
            if TORCH_HEADER.match(header) and not torch:
                yield f"{name}:{number}: torch header {header} in the torch-free room {room}"
            other = header.split("/")[0]
            if other in rooms and found[1] == '"' and other not in allowed:
                yield f"{name}:{number}: room {room} may not include {header}"
            if found[1] == '"' and not (root / "src" / header).is_file():
                yield f"{name}:{number}: {header} is not a path from src/"


def included_folders(root):
    """Returns {folder: {folder it includes: one header of it}}; folders are paths from src/."""
    folders = {}
    for path in code_files(root, "src"):
        own = path.parent.relative_to(root / "src")
        for line in path.read_text().splitlines():
            found = INCLUDE.match(line)
            if found and found[1] == '"' and Path(found[2]).parent != own:
                folders.setdefault(own, {}).setdefault(Path(found[2]).parent, found[2])
    return folders


def check_folder_circles(root):
    folders = included_folders(root)
    done = []

    def visit(folder, path):
        if folder in path:
            circle = [*path[path.index(folder):], folder]
            headers = [folders[a][b] for a, b in zip(circle, circle[1:])]
            yield (f"src: folders include each other: {' -> '.join(map(str, circle))}, "
                   f"by {', '.join(headers)}")
        elif folder not in done:
            for other in sorted(folders.get(folder, {})):
                yield from visit(other, [*path, folder])
            done.append(folder)

    for folder in sorted(folders):
        yield from visit(folder, [])


def check_readmes(root, rooms):
    """A stranger finds each unit from the README of its room, or from one of a folder in it."""
    for room in rooms:
        texts = [path.read_text() for path in sorted((root / "src" / room).rglob("README.md"))]
        words = set(re.findall(r"\w+", "\n".join(texts)))
        units = {path.with_suffix("") for path in code_files(root, f"src/{room}")}
        for unit in sorted(units):
            if unit.name not in words:
                yield f"{unit.relative_to(root)}: no README.md of src/{room} names this unit"


def check_executable_is_torch_free(root):
    """Only the engine library links torch, so that the command line answers in milliseconds."""
    for folder in ("src/app/cli", "src/app/launch", "src/app/report"):
        for path in code_files(root, folder):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = INCLUDE.match(line)
                if found and TORCH_HEADER.match(found[2]):
                    yield f"{path.relative_to(root)}:{number}: torch header outside app/engine"


def check_names_and_sizes(root):
    for tree in ("src", "tests", "bench"):
        if not (root / tree).is_dir():
            continue
        for path in code_files(root, tree):
            name = path.relative_to(root)
            if not STEM.match(path.stem):
                yield f"{name}: name is not snake_case"
            if EMPTY_NAMES & {*name.parts[:-1], *path.stem.split("_")}:
                yield f"{name}: name says nothing about what is inside"
            lines = len(path.read_text().splitlines())
            if lines > MAX_LINES:
                yield f"{name}: {lines} lines, at most {MAX_LINES}"


def check_types(root):
    """Finds two types of one name in a namespace: they break a program that links both."""
    homes = {}
    for path in code_files(root, "src"):
        namespace = ""
        for line in path.read_text().splitlines() if path.suffix in {".h", ".cuh"} else []:
            if found := NAMESPACE.match(line):
                namespace = found[1]
            elif found := TYPE.match(line):
                home = homes.setdefault((namespace, found[1]), path)
                if home != path:
                    yield (f"{path.relative_to(root)}: defines {namespace}::{found[1]}, as "
                           f"{home.relative_to(root)} does")


def check_module_names(root):
    for path in code_files(root, "src"):
        name = path.relative_to(root)
        if name.as_posix().startswith(MAY_NAME_MODULES):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := MODULE.search(line):
                yield f"{name}:{number}: names the module {found[1]}; config/family lists modules"


def check_tree(root):
    rooms = read_rooms(root)
    return [
        *check_cycles(rooms),
        *check_includes(root, rooms),
        *check_folder_circles(root),
        *check_readmes(root, rooms),
        *check_executable_is_torch_free(root),
        *check_names_and_sizes(root),
        *check_types(root),
        *check_module_names(root),
    ]


if __name__ == "__main__":
    violations = check_tree(Path(sys.argv[1]))
    print("\n".join(violations) or "the tree keeps its rules")
    sys.exit(1 if violations else 0)
