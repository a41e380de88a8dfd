"""`pip install .` into a folder of its own, from what set-up installed; then the module is used.

Usage: install_test.py ROOT IS_CHEAP. It compiles the torch-free rooms: seconds where ccache has them
from the build beside, minutes where not, and then skipped unless TRIB_TEST_FULL is 1.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

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


if __name__ == "__main__":
    if not IS_CHEAP and os.environ.get("TRIB_TEST_FULL") != "1":
        sys.exit(77)
    unittest.main()
