"""`pip install .` into a folder of its own, from what set-up installed; then the module and the command
are used.

Usage: install_test.py ROOT IS_CHEAP TRIBUTARY. It compiles the torch-free rooms: seconds where ccache has them
from the build beside, minutes where not, and then skipped unless TRIB_TEST_FULL is 1.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRIBUTARY = sys.argv.pop(3)
IS_CHEAP = sys.argv.pop(2) == "1"
ROOT = sys.argv.pop(1)
USE = """
import tributary, sys
assert tributary.__file__.startswith(sys.argv[1]), tributary.__file__
assert tributary.pack([5, 3, 4, 2], capacity=7)["assignment"] == [0, 1, 1, 0]
assert tributary.search_3d(sys.argv[2])["status"] == "optimal"
"""


class Install(unittest.TestCase):
    def test_an_installed_module_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                 "--no-build-isolation", "--no-deps", "--no-index", "--target", folder, ROOT],
                check=True)
            for name in ("py.typed", "_engine.pyi", "__init__.py"):
                self.assertTrue((Path(folder) / "tributary" / name).exists(), name)
            subprocess.run(
                [sys.executable, "-c", USE, folder, f"{ROOT}/configs/studies/synthetic_8b.json"],
                check=True, cwd=folder, env={**os.environ, "PYTHONPATH": folder})
            self.use_the_command(Path(folder))

    def use_the_command(self, folder):
        def run(**more):
            done = subprocess.run([sys.executable, folder / "bin/tributary", "--version"], text=True,
                                  capture_output=True, env={**os.environ, "PYTHONPATH": folder, **more})
            return done.returncode, done.stdout, done.stderr

        version = subprocess.run([TRIBUTARY, "--version"], text=True, capture_output=True, check=True)
        program = (0, version.stdout, "")
        self.assertEqual(run(TRIBUTARY_PROGRAM=TRIBUTARY), program)
        code, _, error = run(TRIBUTARY_PROGRAM="none")
        self.assertEqual(code, 2)
        self.assertIn("no program none; fix: run `make build` in", error)
        source = folder / "tributary/source_tree.txt"
        self.assertEqual(source.read_text(), f"{ROOT}\n")
        source.write_text(f"{folder}\n")  # a tree that is not built yet
        self.assertIn(f"run `make build` in {folder}", run()[2])
        (folder / "build/release").mkdir(parents=True)
        (folder / "build/release/tributary").symlink_to(TRIBUTARY)
        self.assertEqual(run(), program)


if __name__ == "__main__":
    if not IS_CHEAP and os.environ.get("TRIB_TEST_FULL") != "1":
        sys.exit(77)
    unittest.main()
