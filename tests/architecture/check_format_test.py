"""check_format.sh uses only clang-format 14, and says so when there is another version."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).with_name("check_format.sh")


class CheckFormat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.programs = Path(folder.name)
        for tool in ("sh", "dirname", "sed", "find", "sort", "xargs"):
            os.symlink(shutil.which(tool), self.programs / tool)

    def add(self, name, version, verdict=0):
        program = self.programs / name
        program.write_text("#!/bin/sh\n"
                           f'[ "$1" = --version ] && echo "Debian {name} version {version}.0.6" '
                           f"|| exit {verdict}\n")
        program.chmod(0o755)

    def check(self):
        done = subprocess.run([CHECK], capture_output=True, text=True,
                              env={"PATH": str(self.programs)})
        return done.returncode, done.stdout

    def test_another_version_skips_with_the_reason(self):
        self.add("clang-format", 18, verdict=1)
        code, text = self.check()
        self.assertEqual(code, 77)
        self.assertIn("SKIPPED: clang-format is version 18, the tree is formatted by 14", text)

    def test_version_14_judges(self):
        self.add("clang-format", 14)
        self.assertEqual(self.check()[0], 0)
        self.add("clang-format", 14, verdict=1)
        self.assertNotIn(self.check()[0], (0, 77))

    def test_version_14_beside_another_is_taken(self):
        self.add("clang-format", 18, verdict=1)
        self.add("clang-format-14", 14)
        self.assertEqual(self.check(), (0, ""))

    def test_none_at_all_fails(self):
        code, text = self.check()
        self.assertEqual(code, 1)
        self.assertIn("install the package clang-format-14", text)


if __name__ == "__main__":
    unittest.main()
