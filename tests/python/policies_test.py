"""pack and balance of the module against the program, from every kind of sequence."""

import array
import json
import pickle
import random
import threading
import time
import unittest

import numpy
import tributary
from executable import Beside

MODES = [{}, {"replicas": 5}, {"method": "online_best_fit"}, {"window": 37, "replicas": 3},
         {"window": 20, "method": "online_best_fit"},
         {"replicas": 4, "meet": "microbatch", "attention_length": 3000}]


def options(arguments):
    names = {"method": "rule"}
    for name, value in arguments.items():
        yield "--" + names.get(name, name).replace("_", "-")
        yield str(value)


class Pack(Beside):
    def test_it_is_the_answer_of_the_program(self):
        draw = random.Random(1)
        lengths = [draw.randint(1, 8192) for _ in range(500)]
        path = self.path("lengths.txt", "".join(f"{length}\n" for length in lengths))
        for arguments in MODES:
            with self.subTest(**arguments):
                theirs = json.loads(self.command("pack", path, "--capacity", 8192, "--json",
                                                 *options(arguments)))
                self.assert_equal_but_for_time(tributary.pack(lengths, 8192, **arguments), theirs)

    def test_a_window_packs_what_is_known_by_itself(self):
        lengths = [4, 4, 4, 6, 6, 6]
        self.assertEqual(tributary.pack(lengths, 10)["assignment"], [0, 1, 2, 0, 1, 2])
        self.assertEqual(tributary.pack(lengths, 10, window=3)["assignment"], [0, 0, 1, 2, 3, 4])
        online = tributary.pack([4, 9, 9, 6], 10, method="online_best_fit")
        self.assertEqual(online["assignment"], [0, 1, 2, 0])
        online = tributary.pack([4, 9, 9, 6], 10, method="online_best_fit", window=2)
        self.assertEqual(online["assignment"], [0, 1, 2, 3])

    def test_every_kind_of_sequence_gives_the_same(self):
        lengths = [30, 45, 60, 20, 70, 35, 50, 25, 40, 55, 15, 65]
        golden = [0, 3, 2, 4, 0, 1, 4, 4, 2, 3, 5, 1]
        kinds = [lengths, tuple(lengths), list(map(float, lengths)), list(map(numpy.int32, lengths)),
                 array.array("i", lengths), array.array("B", lengths), array.array("d", lengths),
                 memoryview(array.array("q", lengths)), bytearray(lengths)]
        kinds += [numpy.array(lengths, dtype) for dtype in
                  ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
        kinds += [numpy.repeat(lengths, 3)[::3], numpy.array([lengths]).T,
                  numpy.array(lengths[::-1])[::-1]]
        for kind in kinds:
            with self.subTest(kind=repr(kind)):
                self.assertEqual(tributary.pack(kind, 100)["assignment"], golden)

    def test_what_is_wrong_has_parts(self):
        with self.assertRaises(tributary.Error) as raised:
            tributary.pack([5, 101], 100)
        error = raised.exception
        self.assertIsInstance(error, ValueError)
        self.assertEqual(
            (error.what, error.where, error.found, error.expected, error.fix, error.fault),
            ("app: length cannot be packed", "lengths[1]", "101 tokens",
             "a whole number, 1 to 100 tokens", "raise capacity, or drop the sample", "input"))
        complaint = self.complaint("pack", "-", "--capacity", "100", text="5\n101\n")
        self.assertIn(str(error).replace("lengths[1]", "standard input:2")
                      .replace("raise capacity", "raise --capacity"), complaint)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.where), (str(error), "lengths[1]"))

    def refused(self, where, found, *arguments, **named):
        with self.assertRaises(tributary.Error) as raised:
            tributary.pack(*arguments, **named)
        self.assertEqual(raised.exception.where, where)
        self.assertIn(found, raised.exception.found)

    def test_what_is_wrong_is_named(self):
        self.refused("lengths[2]", "0 tokens", [1, 2, 0], 100)
        self.refused("lengths[1]", "2.5 tokens", [1, 2.5], 100)
        self.refused("lengths[0]", "-3", [-3], 100)
        self.refused("lengths[0]", "nan", [float("nan")], 100)
        self.refused("lengths[1]", "nan", numpy.array([1, float("nan")]), 100)
        self.refused("lengths[1]", "1" + "0" * 100, [1, 10**400], 100)
        self.refused("lengths[1]", "'five'", [5, "five"], 100)
        self.refused("lengths[1]", "None", [5, None], 100)
        self.refused("lengths[0]", "2 numbers", [(5, 6)], 100)
        self.refused("lengths[1]", "2 numbers", [5, (5, 6)], 100)
        self.refused("lengths", "", [], 100)
        self.refused("lengths", "", numpy.zeros(0), 100)
        self.refused("lengths", "3 dimensions", numpy.zeros((1, 1, 1)), 100)
        self.refused("lengths", "16 bits", numpy.ones(3, "f2"), 100)
        for nothing in ("123", b"123", {1: 2}, {1, 2}, 5, None):
            self.refused("lengths", repr(nothing), nothing, 100)
        self.refused("capacity", "0", [5], 0)
        self.refused("capacity", "'ten'", [5], "ten")
        self.refused("capacity", str(2**63), [5], 2**63)
        self.refused("replicas", "0", [5], 100, replicas=0)
        self.refused("window", "-1", [5], 100, window=-1)
        self.refused("attention_length", "-1", [5], 100, attention_length=-1)
        self.refused("method", "worst", [5], 100, method="worst")
        self.refused("meet", "never", [5], 100, meet="never")

    def test_texts_of_another_type_are_named(self):
        for name in ("method", "meet"):
            for value in (None, b"step", 5, "\ud800"):
                with self.subTest(name=name, value=value), self.assertRaises(tributary.Error) as raised:
                    tributary.pack([5], 7, **{name: value})
                self.assertEqual(raised.exception.where, name)

    def test_classes_of_the_caller_and_their_own_errors(self):
        class Broken(list):
            def __iter__(self):
                raise KeyError("mine")

        class Lazy:
            def __len__(self):
                return 2

            def __getitem__(self, index):
                if index == 2:
                    raise IndexError
                return 3 + index

        class Number:
            def __float__(self):
                return 7.0

        self.assertEqual(tributary.pack([Number()], 7)["loads"], [7])
        self.assertEqual(tributary.pack(Lazy(), 7)["loads"], [7])
        with self.assertRaisesRegex(KeyError, "mine"):
            tributary.pack(Broken([7]), 7)


class Balance(Beside):
    def test_it_is_the_answer_of_the_program(self):
        draw = random.Random(2)
        whole = [[draw.randint(1, 10**9), draw.randint(0, 10**9)] for _ in range(300)]
        fractions = [[draw.random(), 1e-3 * draw.random(), draw.random()] for _ in range(100)]
        for rows in (whole, fractions, [[row[0]] for row in whole]):
            path = self.path("items.csv", "".join(",".join(map(repr, row)) + "\n" for row in rows))
            for more in ({}, {"evaluations": 5000}):
                with self.subTest(columns=len(rows[0]), **more):
                    theirs = json.loads(self.command("balance", path, "--buckets", 24, "--json",
                                                     *options(more)))
                    for ours in (rows, numpy.array(rows), numpy.array(rows).copy("F")):
                        self.assert_equal_but_for_time(tributary.balance(ours, 24, **more), theirs)

    def test_numbers_alone_are_rows_of_one(self):
        flat = tributary.balance([7, 5, 4, 4], 2)
        self.assertEqual(flat["loads"], tributary.balance([[7], [5], [4], [4]], 2)["loads"])
        self.assertEqual((flat["value"], flat["status"]), (11, "optimal"))
        self.assertIsInstance(flat["value"], int)

    def test_a_deadline_ends_the_search(self):
        draw = random.Random(3)
        rows = [[draw.random(), draw.random()] for _ in range(500)]
        found = tributary.balance(rows, 50, deadline_ms=1)
        self.assertLessEqual(found["lower_bound"], found["value"])
        self.assertEqual(len(found["assignment"]), 500)

    def test_what_is_wrong_is_named(self):
        for where, arguments, named in [
                ("items[1]", ([[1, 2], [3]], 2), {}), ("items[1][0]", ([[1, 2], [-3, 4]], 2), {}),
                ("items[1][1]", (numpy.array([[1, 2], [3, -4]]), 2), {}),
                ("items[1]", ([[1, 2], 3], 2), {}), ("items[0]", ([[]], 2), {}),
                ("items[1]", ([9e15, 9e15], 2), {}), ("buckets", ([1], 0), {}),
                ("deadline_ms", ([1], 2), {"deadline_ms": float("nan")}),
                ("deadline_ms", ([1], 2), {"deadline_ms": "soon"}),
                ("evaluations", ([1], 2), {"evaluations": -1}),
                ("evaluations", ([1], 2), {"evaluations": 5, "deadline_ms": 5.0})]:
            with self.subTest(where=where, arguments=arguments):
                with self.assertRaises(tributary.Error) as raised:
                    tributary.balance(*arguments, **named)
                self.assertEqual(raised.exception.where, where)

    def test_other_threads_run_meanwhile(self):
        draw = random.Random(4)
        rows = [[draw.random(), draw.random()] for _ in range(2000)]
        longest_wait = 0.0
        done = threading.Event()

        def search():
            tributary.balance(rows, 300, deadline_ms=1500)
            done.set()

        thread = threading.Thread(target=search)
        last = time.perf_counter()
        thread.start()
        while True:
            now = time.perf_counter()
            longest_wait = max(longest_wait, now - last)
            last = now
            if done.is_set():
                break
            time.sleep(0.001)
        thread.join()
        self.assertLess(longest_wait, 1.0)  # held, the lock would keep this thread out for 1.5 s


if __name__ == "__main__":
    unittest.main()
