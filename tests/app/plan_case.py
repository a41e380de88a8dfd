"""Helpers that the tests of `tributary plan` share."""

import json
import os

from demo_profile import profile_of_demo
from verb_case import ROOT, VerbCase

MODEL = os.path.join(ROOT, "configs/demo_model")
CPU = os.path.join(ROOT, "configs/clusters/cpu_2.yaml")
TABLE = os.path.join(ROOT, "configs/studies/synthetic_8b.json")
A100 = os.path.join(ROOT, "configs/clusters/a100_8.yaml")


class PlanCase(VerbCase):
    def answer(self, *words):
        code, out, err = self.run_verb("plan", *words, "--json")
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def refused(self, code, words, *arguments):
        found, out, err = self.run_verb("plan", *arguments)
        self.assertEqual(found, code, err)
        self.assertIn(words, err)

    def measured(self, *words):
        self.path("profile.json", json.dumps(profile_of_demo()))
        return [*self.measured_by("profile.json"), *words]

    def measured_by(self, profile):
        sizes = self.path("sizes.csv", "64,32,2\n120,0,0\n300,120,1\n")
        return ["--profile", self.path(profile), "--lengths", sizes, "--global-samples", "8", "--batches", "3"]
