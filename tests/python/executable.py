"""The program beside the module, for tests that hold one against the other.

Every test here is run as `python X_test.py TRIBUTARY ROOT` with the module on PYTHONPATH.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(2)
TRIBUTARY = sys.argv.pop(1)
COSTS = os.path.join(ROOT, "configs/studies/synthetic_8b.json")
PLAN = os.path.join(ROOT, "configs/plans/demo_pipeline.json")
MODEL = os.path.join(ROOT, "configs/demo_model")
CLUSTER = os.path.join(ROOT, "configs/clusters/h100_8.yaml")


def read_json(path):
    with open(path) as file:
        return json.load(file)


class Beside(unittest.TestCase):
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

    def command(self, *words, text=""):
        """What the program prints."""
        done = subprocess.run([TRIBUTARY, *map(str, words)], input=text, capture_output=True,
                              text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def complaint(self, *words, text=""):
        """What the program complains of, without its own place and time."""
        done = subprocess.run([TRIBUTARY, *map(str, words)], input=text, capture_output=True,
                              text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    def assert_equal_but_for_time(self, ours, theirs):
        self.assertGreater(ours["milliseconds"], 0)
        self.assertEqual({**ours, "milliseconds": 0}, {**theirs, "milliseconds": 0})
