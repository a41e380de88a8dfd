"""Holds the table of families in docs/models.md against the tests that there are.

usage: family_table.py EQUALITY_MATRIX BUILD_DIR
"""

import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import write_family_table as table  # noqa: E402

BUILD = sys.argv.pop(2)
MATRIX = sys.argv.pop(1)


class FamilyTable(unittest.TestCase):
    def test_the_page_is_current(self):
        page = (ROOT / "docs/models.md").read_text()
        self.assertEqual(page, table.with_table(page, MATRIX),
                         "scripts/write_family_table.py EQUALITY_MATRIX docs/models.md writes it")

    def test_its_tests_are_registered(self):
        done = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"],
                              capture_output=True, text=True, check=True)
        known = {test["name"] for test in json.loads(done.stdout)["tests"]}
        named = {test for tests in table.collect(MATRIX).values() for test in tests}
        self.assertGreater(len(named), len(table.SCRIPTS))
        self.assertLessEqual(named, known)

    def test_scripts_say_what_they_cover(self):
        for path in sorted((ROOT / "tests").rglob("*.py")):
            says = any(line.startswith("COVERS = ") for line in path.read_text().splitlines())
            self.assertEqual(says, str(path.relative_to(ROOT)) in table.SCRIPTS.values(), path)


unittest.main()
