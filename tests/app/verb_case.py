"""Helpers of the tests that run the program, as `python X_test.py TRIBUTARY ROOT`."""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(2)
TRIBUTARY = sys.argv.pop(1)


class VerbCase(unittest.TestCase):
    """Runs the program, with a folder of its own for each test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as out:
                out.write(text)
        return path

    def run_verb(self, *words, text=None):
        done = subprocess.run([TRIBUTARY, *map(str, words)], input=text, capture_output=True,
                              text=True)
        return done.returncode, done.stdout, done.stderr
