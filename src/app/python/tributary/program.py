"""The command `tributary` of the wheel: runs the program that `make build` has built.

The wheel holds the torch-free rooms alone. The program and its engines, which need libtorch, stay in the
source tree that the wheel was installed from.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

_TREE = Path(__file__).with_name("source_tree.txt")  # CMake writes it


def _find_program() -> Path:
    named = os.environ.get("TRIBUTARY_PROGRAM")
    tree = _TREE.read_text().strip()
    program = Path(named) if named else Path(tree) / "build/release/tributary"
    if os.access(program, os.X_OK) and program.is_file():
        return program
    where = "TRIBUTARY_PROGRAM" if named else "the tree that the wheel was installed from"
    print(f"input error: app: the program is not there; where: {where}; found: no program {program}; "
          f"fix: run `make build` in {tree}, or set TRIBUTARY_PROGRAM to a built program", file=sys.stderr)
    sys.exit(2)


def main() -> NoReturn:
    """Becomes the program, with the same words."""
    program = str(_find_program())
    os.execv(program, [program, *sys.argv[1:]])
