"""The program beside the module, for tests that hold one against the other.

Every test here is run as `python X_test.py TRIBUTARY ROOT` with the module on PYTHONPATH.
"""

import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "app"))
from demo_profile import profile_of_demo  # noqa: E402, F401
from verb_case import ROOT, VerbCase  # noqa: E402

COSTS = os.path.join(ROOT, "configs/studies/synthetic_8b.json")
PLAN = os.path.join(ROOT, "configs/plans/demo_pipeline.json")
MODEL = os.path.join(ROOT, "configs/demo_model")
CLUSTER = os.path.join(ROOT, "configs/clusters/h100_8.yaml")


def read_json(path):
    with open(path) as file:
        return json.load(file)


class Beside(VerbCase):
    def command(self, *words, text=""):
        """The text that the program prints."""
        code, out, err = self.run_verb(*words, text=text)
        self.assertEqual((code, err), (0, ""))
        return out

    def complaint(self, *words, text=""):
        """The error message of the program, without its source line."""
        code, out, err = self.run_verb(*words, text=text)
        self.assertEqual((code, out), (2, ""), err)
        return err

    def options_of(self, verb):
        """Names of all options of a verb, as the module writes them."""
        found = re.findall(r"^  (?:-\w,)?--(?:no-)?([a-z-]+)", self.command(verb, "--help"), re.M)
        return {name.replace("-", "_") for name in found} - {"help", "help_all"}

    def assert_equal_but_for_time(self, ours, theirs):
        self.assertGreater(ours["milliseconds"], 0)
        self.assertEqual({**ours, "milliseconds": 0}, {**theirs, "milliseconds": 0})
