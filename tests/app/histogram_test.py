"""Runs `tributary data inspect --histogram` on a small demo, and plans and simulates with its file.

Usage: histogram_test.py TRIBUTARY ROOT
"""

import collections
import json
import os
import re
import subprocess
import unittest

from plan_case import CPU, MODEL, PlanCase
from verb_case import ROOT, TRIBUTARY

DEMO = os.path.join(ROOT, "configs/demo.yaml")
SOURCES = ["text", "shapes", "clips", "pairs", "document"]
WEIGHTS = [0.8, 1, 0.8, 1.2, 1.6]  # of configs/demo.yaml


class Histogram(PlanCase):
    def setUp(self):
        super().setUp()
        self.code, _, self.errors = self.run_verb(
            "data", "make-demo", "-o", self.path("data"), "--samples", "200", "--held-out", "3")
        self.assertEqual((self.code, self.errors), (0, ""))
        self.values = [f"model.path={MODEL}"]
        for i, source in enumerate(SOURCES):
            for key, name in (("path", "train"), ("held_out", "held_out")):
                self.values.append(f"data.sources.{i}.{key}={self.path('data')}/{source}/{name}.jsonl")

    def inspect(self, *words):
        return self.run_verb("data", "inspect", DEMO, *self.values, *words)

    def bins(self, *words):
        output = self.path("shapes.json")
        code, out, err = self.inspect("--histogram", output, *words)
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"wrote {output}, ", out)
        with open(output) as file:
            histogram = json.load(file)
        self.assertEqual((histogram["format"], histogram["source"]), ("tributary.shape_histogram/1", DEMO))
        return histogram["bins"]

    def test_counts_what_the_survey_counts(self):
        bins = self.bins("data.sources.0.weight=1", "--limit", "20", *(
            f"data.sources.{i}.weight=1" for i in range(1, 5)))
        surveys = json.loads(self.inspect("--limit", "20", "--json")[1])
        trained = [survey for survey in surveys if "held out" not in survey["name"]]
        for key in ("tokens", "target_tokens"):
            self.assertEqual(sum(each["samples"] * each[key] for each in bins),
                             sum(survey[key]["sum"] for survey in trained))
        self.assertEqual(sum(each["samples"] for each in bins), 100)
        self.assertEqual(sum(each["samples"] * len(each["images"]) for each in bins),
                         sum(survey["images"] for survey in trained))
        self.assertEqual(sum(each["samples"] * len(each["videos"]) for each in bins),
                         sum(survey["clips"] for survey in trained))
        # Two frames are one step in time, and patches are merged by fours.
        steps = sum(each["samples"] * sum(grid[0] for grid in each["videos"]) for each in bins)
        self.assertEqual(2 * steps, sum(survey["frames"] for survey in trained))
        for each in bins:
            patches = sum(t * rows * columns for t, rows, columns in each["images"] + each["videos"])
            self.assertEqual(patches % 4, 0)
            self.assertGreater(each["tokens"], patches // 4)

    def test_sources_have_the_shares_of_their_weights(self):
        def source_of(each):
            if each["videos"] or not each["images"]:
                return "clips" if each["videos"] else "text"
            if len(each["images"]) > 1:
                return "pairs"
            # A picture of `shapes` has 56 pixels a side, so 4 patches; one of `document` has more.
            return "shapes" if each["images"][0][1] == 4 else "document"

        samples = collections.Counter()
        for each in self.bins():
            samples[source_of(each)] += each["samples"]
        for source, weight in zip(SOURCES, WEIGHTS):
            self.assertAlmostEqual(samples[source] / samples.total(), weight / sum(WEIGHTS), delta=0.001)

    def test_the_file_gives_the_samples_of_a_plan(self):
        self.bins()
        lengths, plan = self.path("shapes.json"), self.path("plan.json")
        words = ["--cluster", CPU, "--lengths", lengths]
        found = self.answer(MODEL, *words, "--global-samples", "16", "--batches", "4", "-o", plan)
        self.assertGreater(found["value"], 0)
        code, out, err = self.run_verb("simulate", plan, *words, "--steps", "4", "--json")
        self.assertEqual((code, err), (0, ""))
        simulated = json.loads(out)["distribution_ns"]["mean"]
        self.assertAlmostEqual(1e-9 * simulated, found["value"], delta=1e-6 * found["value"])

    def test_the_commands_of_the_guide_work(self):
        with open(os.path.join(ROOT, "docs/guides/plan.md")) as file:
            (block,) = [block for block in re.findall(r"```sh\n(.*?)```", file.read(), re.S) if "--histogram" in block]
        os.symlink(os.path.join(ROOT, "configs"), self.path("configs"))
        for name, target in (("build/release", os.path.dirname(os.path.realpath(TRIBUTARY))),
                             ("runs/demo-data", self.path("data"))):
            os.mkdir(self.path(os.path.dirname(name)))
            os.symlink(target, self.path(name))
        commands = block.splitlines()
        self.assertEqual(len(commands), 2)
        for command in commands:
            done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        self.assertTrue(os.path.exists(self.path("plan.json")))

    def test_samples_that_are_too_long_are_left_out(self):
        def shapes(*words):
            return {json.dumps({**each, "samples": 0}): each["tokens"] for each in self.bins(*words)}

        limit = 60  # of each source some samples are shorter
        whole, short = shapes(), shapes(f"data.max_tokens={limit}")
        self.assertEqual(short, {shape: tokens for shape, tokens in whole.items() if tokens <= limit})
        self.assertLess(len(short), len(whole))

    def test_wrong_input_is_refused(self):
        output, lines = self.path("shapes.json"), self.path("data/text/train.jsonl")
        for code, expected, words in (
                (5, "app: file cannot be written; where: " + self.path("no/shapes.json"),
                 [DEMO, *self.values, "--histogram", self.path("no/shapes.json")]),
                (2, "app: name of a shape histogram; where: --histogram; found: shapes.csv; expected: a name with .json",
                 [DEMO, *self.values, "--histogram", "shapes.csv"]),
                (2, f"app: --histogram without a configuration; where: {lines}", [lines, "--histogram", output]),
                (3, "data: no sample to count shapes of; where: " + lines,
                 [DEMO, *self.values, "data.max_tokens=2", "--histogram", output])):
            with self.subTest(expected):
                found, _, err = self.run_verb("data", "inspect", *words)
                self.assertEqual(found, code, err)
                self.assertIn(expected, err)
                self.assertFalse(os.path.exists(output))
        os.symlink(lines, output)
        code, _, err = self.inspect("--histogram", output)
        self.assertEqual(code, 2)
        self.assertIn("app: output is a file that is read", err)

    def test_bad_data_gives_no_histogram(self):
        with open(self.path("data/text/train.jsonl"), "a") as file:
            file.write("{broken\n" * 200)
        code, _, err = self.inspect("--histogram", self.path("shapes.json"))
        self.assertEqual(code, 3)
        self.assertIn("data: too many bad samples", err)
        self.assertFalse(os.path.exists(self.path("shapes.json")))


if __name__ == "__main__":
    unittest.main()
