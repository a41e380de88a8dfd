"""Runs `tributary calibrate` and `predict` as a user does: answers, exit codes, words.

Usage: calibrate_test.py TRIBUTARY ROOT
"""

import csv
import json
import os
import unittest

from verb_case import ROOT, VerbCase

CLUSTER = os.path.join(ROOT, "configs/clusters/a100_8.yaml")
SELENE = os.path.join(ROOT, "configs/clusters/rows/selene.csv")
HEADER = ("# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
          "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n")


class CalibrateAndPredict(VerbCase):
    def refused(self, words, *arguments):
        code, out, err = self.run_verb(*arguments)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1)
        for word in words:
            self.assertIn(word, err)

    def predicted(self, rows, name):
        out = self.path(name)
        code, told, _ = self.run_verb("predict", "--cluster", CLUSTER, "--rows", rows, "-o", out, "--json")
        self.assertEqual(code, 0)
        self.assertEqual(json.loads(told)["output"], out)
        self.assertGreater(json.loads(told)["error"]["pairs"], 0)
        with open(out) as file:
            return file.read()

    def test_predictions_of_predictions_are_the_same_file(self):
        once = self.predicted(SELENE, "once.csv")
        self.assertEqual(once.splitlines()[0].count("predicted_ms"), 1)
        self.assertEqual(self.predicted(self.path("once.csv"), "twice.csv"), once)
        for row in csv.DictReader(once.splitlines()):
            self.assertGreater(float(row["predicted_ms"]), 0)

    def test_what_is_wrong_is_named_with_its_place_and_a_fix(self):
        out = self.path("out")
        predict = ["predict", "--cluster", CLUSTER, "-o", out, "--rows"]
        large = self.path("large.csv", HEADER + f"{1 << 24},{1 << 24},1,64,4,1,64,1,{1 << 24},1,1\n")
        self.refused([f"where: {large}:2", "fix: raise `devices`"], *predict, large)
        self.refused(["No such file", "fix: correct the path"], *predict, self.path("none.csv"))
        self.refused(["found: a directory", "fix: name a file"], *predict, self.folder)
        short = self.path("short.csv", "# GPUs\n1\n")
        self.refused([f"where: {short}:1", "expected: global batch", "fix: add it"], *predict, short)
        one = self.path("one.csv", HEADER + "8,16,1,1024,16,24,1024,2,2,2,100\n")
        self.refused([f"where: {one}:2", "fix: add rows, or fit without the check: --folds 0"],
                     "calibrate", "--rows", one, "-o", out)
        self.refused(["fix: give the directory"], "calibrate", "--rows", one, "--folds", "0",
                     "--allreduce", self.path("nowhere"), "-o", out)
        seconds = self.path("seconds.csv", HEADER + "8,16,1,1024,16,24,1024,2,2,2,0.1\n")
        self.refused([f"where: {seconds}; found: median error", "check that times are in milliseconds"],
                     "calibrate", "--rows", seconds, "--folds", "0", "-o", out)
        self.refused(["app: output is a file that is read", f"found: {one}"], "calibrate", "--rows", one, "--folds", "0",
                     "-o", one)
        self.path("b_gpu16.csv", "header\n1024,256,float,5000\n")
        self.refused(["b_gpu16.csv; found: 16 ranks", "at most the 8"],
                     "calibrate", "--rows", one, "--folds", "0", "--allreduce", self.folder, "-o", out)
        self.refused(["app: output is a file that is read"], "calibrate", "--rows", seconds, "--allreduce", self.folder,
                     "-o", one)
        self.assertFalse(os.path.exists(out))
        self.assertEqual(
            self.run_verb("calibrate", "--rows", one, "--folds", "0", "-o", out)[0], 0)

    def test_says_what_the_choice_by_predictions_costs(self):
        rows = self.path("rows.csv", HEADER +
                         "8,16,1,1024,16,24,1024,2,4,1,100\n8,16,2,1024,16,24,1024,2,4,1,150\n"
                         "8,16,1,1024,16,24,1024,4,2,1,200\n")
        code, out, err = self.run_verb("predict", "--cluster", CLUSTER, "--rows", rows, "-o",
                                       self.path("out.csv"))
        self.assertEqual(code, 0, err)
        with open(self.path("out.csv")) as file:
            table = list(csv.DictReader(file))
        chosen = min(table, key=lambda row: float(row["predicted_ms"]))
        regret = float(chosen["iteration time (ms)"]) - 100
        self.assertIn(f"regret {regret:.2f} % (largest {regret:.2f} %) over 1 group\n", out)


if __name__ == "__main__":
    unittest.main()
