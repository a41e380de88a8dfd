"""Runs `tributary pack` and `tributary balance` as a user runs them: answers, exit codes, words.

Usage: policies_test.py TRIBUTARY
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

TRIBUTARY = sys.argv.pop(1)


class Policies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, text):
        path = os.path.join(self.folder, "input")
        with open(path, "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        return path

    def run_verb(self, *words, text=""):
        done = subprocess.run([TRIBUTARY, *words], input=text, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words, text=""):
        code, out, err = self.run_verb(*words, "--json", text=text)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def refused(self, verb, text, words, *flags):
        path = self.write(text)
        code, out, err = self.run_verb(verb, path, *flags)
        self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(err.count("\n"), 1)
        self.assertIn(words.replace("FILE", path), err)


class Pack(Policies):
    LENGTHS = [30, 45, 60, 20, 70, 35, 50, 25, 40, 55, 15, 65]
    TEXT = "".join(f"{length}\n" for length in LENGTHS)

    def test_the_golden_case(self):
        found = self.answer("pack", self.write(self.TEXT), "--capacity", "100")
        self.assertEqual(found["assignment"], [0, 3, 2, 4, 0, 1, 4, 4, 2, 3, 5, 1])
        self.assertEqual((found["bins"], found["value"], found["lower_bound"]), (6, 6, 6))
        self.assertEqual((found["gap"], found["loads"]), (0, [100, 100, 100, 100, 95, 15]))
        self.assertEqual(found["replica"], [0] * 6)
        self.assertGreater(found["milliseconds"], 0)

    def test_arrival_order_and_replicas(self):
        found = self.answer("pack", "-", "--capacity", "100", "--rule", "online_best_fit",
                            "--replicas", "3", text=self.TEXT)
        self.assertEqual(found["assignment"], [0, 0, 1, 0, 2, 1, 3, 2, 3, 4, 4, 5])
        self.assertEqual(found["loads"], [95, 95, 95, 90, 70, 65])
        self.assertEqual(found["replica"], [0, 1, 2, 0, 1, 2])
        self.assertEqual(found["replica_costs"], [185, 165, 160])

    def test_slots_are_levelled_where_replicas_meet_at_each_microbatch(self):
        found = self.answer("pack", "-", "--capacity", "10", "--replicas", "2", "--meet",
                            "microbatch", text="10\n9\n8\n7\n")
        self.assertEqual(found["replica"], [0, 1, 1, 0])

    def test_attention_makes_one_long_sample_cost_more_than_many_short_ones(self):
        text = "8\n" + "2\n" * 4
        costs = self.answer("pack", "-", "--capacity", "8", "--replicas", "2",
                            "--attention-length", "4", text=text)["replica_costs"]
        self.assertEqual(costs, [8 + 64 // 4, 8 + 16 // 4])

    def test_text_names_every_sample_once(self):
        code, out, err = self.run_verb("pack", "-", "--capacity", "100", "--replicas", "2",
                                       text=self.TEXT)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("12 samples, 510 tokens in 6 sequences of 100 tokens, fill 85.000 %", out)
        self.assertIn("at least 6 are needed, gap 0.000 %", out)
        self.assertIn("over 2 replicas: the costliest is 15.686 % above the mean", out)
        lines = [line for line in out.splitlines() if line.startswith("sequence ")]
        items = [int(item) for line in lines for item in line.split(": ")[1].split()]
        self.assertEqual(sorted(items), list(range(12)))

    def test_wrong_input(self):
        flags = ["--capacity", "100"]
        self.refused("pack", "5\n101\n", "FILE:2; found: 101 tokens; expected: a whole number, 1 to "
                     "100 tokens", *flags)
        self.refused("pack", "length\n5\n0\n", "FILE:3; found: 0 tokens", *flags)
        self.refused("pack", "5\n2.5\n", "FILE:2; found: 2.5 tokens", *flags)
        self.refused("pack", "5\n-3\n", 'out of range; where: FILE:2; found: "-3"', *flags)
        self.refused("pack", "5\nnan\n", 'FILE:2; found: "nan"', *flags)
        self.refused("pack", "5\nfive\n", 'not a number; where: FILE:2; found: "five"', *flags)
        self.refused("pack", "5,6\n", "more than one length in a line; where: FILE:1", *flags)
        self.refused("pack", "", "file holds no rows; where: FILE:1; found: an empty file", *flags)
        self.refused("pack", "5\n", "where: --capacity; found: 0", "--capacity", "0")
        self.refused("pack", "5\n", "where: --replicas; found: 0", *flags, "--replicas", "0")
        self.refused("pack", "5\n", "--attention-length; found: -1", *flags, "--attention-length=-1")
        self.refused("pack", "5\n", "unknown packing rule; where: --rule; found: worst", *flags,
                     "--rule", "worst")
        self.refused("pack", "5\n", "where: --meet; found: never", *flags, "--meet", "never")
        self.refused("pack", "5\n", "--capacity is required")


class Balance(Policies):
    ROWS = [(7, 3), (1, 8), (9, 2), (2, 9), (5, 5), (4, 6), (8, 1), (3, 7)]
    TEXT = "".join(f"{e},{l}\n" for e, l in ROWS)

    def check(self, found, rows, buckets):
        """Recomputes the figures of the answer from its assignment."""
        sums = [[0] * len(rows[0]) for _ in range(buckets)]
        for row, bucket in zip(rows, found["assignment"], strict=True):
            for column, load in enumerate(row):
                sums[bucket][column] += load
        self.assertEqual(found["loads"], sums)
        self.assertEqual(found["value"], max(max(loads) for loads in sums))
        self.assertLessEqual(found["lower_bound"], found["value"])
        self.assertAlmostEqual(found["gap"], found["value"] / found["lower_bound"] - 1)
        self.assertEqual(found["buckets"], buckets)

    def test_the_golden_case(self):
        for text in (self.TEXT, "vision,backbone\n" + self.TEXT, "\ufeff" + self.TEXT + "\n\n",
                     self.TEXT.replace("\n", "\r\n"), self.TEXT.replace(",", " , ").rstrip()):
            found = self.answer("balance", self.write(text), "--buckets", "3")
            self.check(found, self.ROWS, 3)
            self.assertEqual((found["value"], found["lower_bound"], found["status"]),
                             (15, 15, "optimal"))
            self.assertIsInstance(found["value"], int)

    def test_a_batch_comes_out_alike_every_time(self):
        draw = random.Random(1)
        rows = [(draw.randint(1, 10**6), draw.randint(1, 10**6), draw.randint(0, 3))
                for _ in range(400)]
        path = self.write("".join(",".join(map(str, row)) + "\n" for row in rows))
        found = self.answer("balance", path, "--buckets", "50")
        self.check(found, rows, 50)
        self.assertEqual(set(found["assignment"]), set(range(50)))
        self.assertLess(found["gap"], 0.02)
        again = self.answer("balance", path, "--buckets", "50")
        self.assertEqual(again["assignment"], found["assignment"])

    def test_a_deadline_gives_a_whole_answer_too(self):
        draw = random.Random(2)
        rows = [(draw.randint(1, 10**9), draw.randint(1, 10**9)) for _ in range(200)]
        path = self.write("".join(f"{e},{l}\n" for e, l in rows))
        for deadline in ("0.001", "20"):
            self.check(self.answer("balance", path, "--buckets", "50", "--deadline-ms", deadline),
                       rows, 50)

    def test_fractions_keep_their_unit(self):
        rows = [(0.5, 0.25), (0.75, 0.125), (1.5e-3, 0.5), (0.25, 1e-1)]
        text = "".join(f"{e},{l}\n" for e, l in rows)
        found = self.answer("balance", "-", "--buckets", "2", text=text)
        self.check(found, rows, 2)
        self.assertEqual(found["value"], 0.7515)
        self.assertEqual(found["status"], "optimal")

    def test_fewer_items_than_buckets(self):
        found = self.answer("balance", "-", "--buckets", "3", text="5\n")
        self.assertEqual((found["value"], found["lower_bound"]), (5, 5))

    def test_items_that_weigh_nothing(self):
        found = self.answer("balance", "-", "--buckets", "2", text="0,0\n0,0\n")
        self.assertEqual((found["value"], found["lower_bound"], found["gap"]), (0, 0, 0))

    def test_text_names_every_item_once(self):
        code, out, err = self.run_verb("balance", "-", "--buckets", "3",
                                       text="vision,backbone\n" + self.TEXT)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("8 items in 2 dimensions over 3 buckets\n"
                      "largest load 15, at least 15, gap 0.000 % (optimal); ", out)
        lines = [line for line in out.splitlines() if line.startswith("bucket ")]
        items = [int(item) for line in lines for item in line.split(": ")[1].split()]
        self.assertEqual(sorted(items), list(range(8)))
        self.assertIn('"vision" 15', out)

    def test_wrong_input(self):
        flags = ["--buckets", "2"]
        self.refused("balance", "1,2\n3\n", "row of another width; where: FILE:2; found: 1 numbers; "
                     "expected: 2, as in line 1", *flags)
        self.refused("balance", "e,l\n1,2\n3,4,5\n", "FILE:3; found: 3 numbers", *flags)
        self.refused("balance", "1,2\n3,NaN\n", 'out of range; where: FILE:2 column 2; found: "NaN"; '
                     "expected: 0 to 2^53", *flags)
        self.refused("balance", "1,2\n-3,4\n", 'FILE:2 column 1; found: "-3"', *flags)
        self.refused("balance", "inf,2\n", 'FILE:1 column 1; found: "inf"', *flags)
        self.refused("balance", "1e400,2\n", 'FILE:1 column 1; found: "1e400"', *flags)
        self.refused("balance", "1,2\n3,\n", 'not a number; where: FILE:2 column 2; found: ""', *flags)
        self.refused("balance", "e,5\n1,2\n", 'not a number; where: FILE:1 column 1; found: "e"',
                     *flags)
        for text in ("120 0 0\n", "e\n120 0 0\n", "120;0;0\n7;0;0\n"):
            self.refused("balance", text, "fix: put commas between the numbers", *flags)
        self.refused("balance", "1,2\n\n3,4\n", "blank line between rows; where: FILE:2", *flags)
        self.refused("balance", "e,l\n", "no rows; where: FILE:1; found: a header alone", *flags)
        self.refused("balance", b"1\n\x00\n", 'not a number; where: FILE:2; found: "', *flags)
        self.refused("balance", "9e15\n9e15\n", "adds up to more than can be counted; where: FILE:2",
                     *flags)
        self.refused("balance", "1\n", "where: --buckets; found: 0", "--buckets", "0")
        self.refused("balance", "1\n", "--deadline-ms; found: -1", *flags, "--deadline-ms=-1")
        self.refused("balance", "1\n", "--deadline-ms; found: nan", *flags, "--deadline-ms=nan")
        code, _, err = self.run_verb("balance", "nowhere.csv", *flags)
        self.assertEqual(code, 2)
        self.assertIn("file cannot be read; where: nowhere.csv; found: No such file", err)
        code, _, err = self.run_verb("balance", self.folder, *flags)
        self.assertEqual(code, 2)
        self.assertIn("found: a directory", err)
        self.assertIn("fix: name a file in it", err)

    def test_a_million_rows(self):
        path = self.write("".join(f"{i % 1000},{i % 777}\n" for i in range(10**6)))
        found = self.answer("balance", path, "--buckets", "8")
        self.assertEqual(len(found["assignment"]), 10**6)
        self.assertLess(found["gap"], 1e-5)
        packed = self.answer("pack", "-", "--capacity", "1000",
                             text="".join(f"{i % 1000 + 1}\n" for i in range(10**6)))
        self.assertEqual(len(packed["assignment"]), 10**6)
        with open(path, "a") as out:
            out.write("1,2,3\n")
        code, _, err = self.run_verb("balance", path, "--buckets", "8")
        self.assertEqual(code, 2)
        self.assertIn(f"{path}:1000001; found: 3 numbers", err)


if __name__ == "__main__":
    unittest.main()
