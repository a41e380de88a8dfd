"""Writes the table of docs/models.md that says which tests cover each family.

usage: write_family_table.py EQUALITY_MATRIX [PAGE]; without PAGE it prints the table.

A script of tests says in COVERS which families it takes through what, and checks that itself; the
comparisons of many processes with one are listed by `equality_matrix --list`.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- families x tests -->\n", "<!-- end -->\n"

COLUMNS = {
    "forward": "logits, loss and gradients of transformers",
    "train": "a run as a user starts it",
    "tp": "as on one process", "pp": "as on one process", "cp": "as on one process",
    "LoRA": "gradients of PEFT, or as on one process",
    "generate": "answers from a run or a model",
    "export": "transformers loads it, or it answers as the run does",
}
SCRIPTS = {  # by the name of their test
    "parity.text": "tests/parity/text_parity.py",
    "parity.vision_language": "tests/parity/vision_language_parity.py",
    "parity.tiles": "tests/parity/tile_parity.py",
    "parity.audio_language": "tests/parity/audio_language_parity.py",
    "parity.omni": "tests/parity/omni_parity.py",
    "train.train_run": "tests/train/train_run.py",
    "train.families": "tests/train/families.py",
    "train.many_ranks": "tests/train/many_ranks.py",
    "train.adapters": "tests/train/adapters.py",
    "app.trained_model": "tests/app/trained_model_test.py",
    "app.generate": "tests/app/generate_test.py",
}
CELLS = "train.equality_of_{}_processes"
SHORT_NAMES = {"qwen2_5_omni": "qwen2_5_omni_thinker"}  # in the names of cells


def list_families():
    """The values of model_type, in the order of the list of the program."""
    text = (ROOT / "src/config/family/all_families.cpp").read_text()
    return re.findall(r'\{ModelFamily::k\w+, "(\w+)"', text)


def read_covers(path):
    """COVERS of a script: a literal, with other constants of the script in it."""
    values = {statement.targets[0].id: statement.value
              for statement in ast.parse((ROOT / path).read_text()).body
              if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)}

    class Constants(ast.NodeTransformer):
        def visit_Name(self, name):
            return values[name.id]

    return ast.literal_eval(Constants().visit(values["COVERS"]))


def list_cells(matrix):
    """Yields (family, column, test) of each cell."""
    lines = subprocess.run([matrix, "--list"], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        ranks, name = line.split(" | ")
        family, *words = name.split()
        family = SHORT_NAMES.get(family, family)
        for column, pattern in {"tp": r"tp\d", "pp": r"pp\d", "cp": r"cp\d", "LoRA": r"(lo|do)ra,?"}.items():
            if any(re.fullmatch(pattern, word) for word in words):
                yield family, column, CELLS.format(ranks)


def collect(matrix):
    """The tests of each (family, column)."""
    found = [(family, column, test) for test, path in SCRIPTS.items()
             for column, families in read_covers(path).items() for family in families]
    tests = {}
    for family, column, test in [*found, *list_cells(matrix)]:
        of_cell = tests.setdefault((family, column), [])
        if test not in of_cell:
            of_cell.append(test)
    families = list_families()
    for family, column in tests:
        if family not in families or column not in COLUMNS:
            raise ValueError(f"{family} x {column}: expected one of {families} and {list(COLUMNS)}")
    return tests


def shorten(tests):
    """`train.families`, `equality of 2, 4`"""
    ranks = [re.fullmatch(CELLS.format(r"(\d+)"), test) for test in tests]
    cells = ", ".join(sorted({found[1] for found in ranks if found}))
    words = [f"`{test}`" for test, found in zip(tests, ranks) if not found]
    return ", ".join(words + ([f"equality of {cells}"] if cells else []))


def write_table(matrix):
    tests = collect(matrix)
    lines = [f"| family | {' | '.join(COLUMNS)} |", "| --- |" + " --- |" * len(COLUMNS)]
    for family in list_families():
        cells = [shorten(tests.get((family, column), [])) or "no test" for column in COLUMNS]
        lines.append(f"| `{family}` | {' | '.join(cells)} |")
    missing = sum(line.count("no test") for line in lines)
    meanings = "; ".join(f"**{column}**: {meaning}" for column, meaning in COLUMNS.items())
    return (f"Made by `scripts/write_family_table.py` from the tests; a test holds it against them. {meanings}.\n"
            f"`equality of N` are the cells of `{CELLS.format('N')}`; {missing} of "
            f"{len(COLUMNS) * len(list_families())} have no test.\n\n" + "\n".join(lines) + "\n")


def with_table(page, matrix):
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin] + write_table(matrix) + page[end:]


def main():
    matrix, *pages = sys.argv[1:]
    if not pages:
        print(write_table(matrix), end="")
    for page in map(Path, pages):
        page.write_text(with_table(page.read_text(), matrix))


if __name__ == "__main__":
    main()
