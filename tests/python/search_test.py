"""search_3d of the module against the program, for every method; tables as dictionaries."""

import json
import math
import unittest

import numpy
import tributary
from executable import COSTS, Beside, read_json


class Search(Beside):
    def small_table(self):
        table = read_json(COSTS)
        table.update(devices=16, global_samples=32)
        return table

    def test_it_is_the_answer_of_the_program(self):
        table = self.small_table()
        path = self.path("costs.json", json.dumps(table))
        theirs = json.loads(self.command("plan", path, "--method", "all", "--json"))
        compared = tributary.compare_3d(table)
        self.assertEqual([each["method"] for each in compared], tributary.search_methods())
        for ours, each in zip(compared, theirs, strict=True):
            with self.subTest(method=each["method"]):
                self.assert_equal_but_for_time(ours, each)
                alone = tributary.search_3d(table, method=each["method"], keep=1)
                self.assert_equal_but_for_time(alone, each)

    def test_published_plans_carry_their_degrees(self):
        theirs = json.loads(self.command("plan", COSTS, "--json", "--keep", 3))[0]
        for table in (COSTS, read_json(COSTS)):
            found = tributary.search_3d(table, keep=3)
            self.assert_equal_but_for_time(found, theirs)
        self.assertEqual((found["status"], found["gap"], len(found["plans"])), ("optimal", 0, 3))
        for plan in found["plans"]:
            sizes = [math.prod(plan[module].values()) for module in ("encoder", "backbone")]
            self.assertEqual(sum(sizes), 32)
            self.assertIn(f"{plan['microbatches']} microbatches", plan["plan"])

    def test_infeasible_is_an_answer(self):
        table = self.small_table()
        table["memory_bytes"] = 1e9
        found = tributary.search_3d(table)
        self.assertEqual((found["status"], found["plans"]), ("infeasible", []))
        self.assertIn("memory", found["limit"])

    def test_numbers_of_libraries_are_numbers(self):
        table = self.small_table()
        plain = tributary.search_3d(table)
        table["devices"] = numpy.int64(16)
        table["memory_bytes"] = numpy.float64(table["memory_bytes"])
        self.assert_equal_but_for_time(tributary.search_3d(table), plain)

    def test_what_is_wrong_is_named(self):
        def refused(where, change, **named):
            table = self.small_table()
            change(table)
            with self.assertRaises(tributary.Error) as raised:
                tributary.search_3d(table, **named)
            self.assertEqual(raised.exception.where, where)
            return raised.exception

        refused("cost_table devices", lambda table: table.update(devices=0))
        error = refused('cost_table "devizes"', lambda table: table.update(devizes=3))
        self.assertEqual(error.fix, "did you mean devices?")
        refused("cost_table encoder.degrees.0.tp",
                lambda table: table["encoder"]["degrees"][0].update(tp=-1))
        refused("cost_table memory_bytes", lambda table: table.update(memory_bytes=math.inf))
        refused("cost_table memory_bytes", lambda table: table.update(memory_bytes=object()))
        refused("method", lambda table: None, method="best")
        refused("method", lambda table: None, method="all")
        refused("method", lambda table: None, method=["exact"])
        refused("keep", lambda table: None, keep=0)
        with self.assertRaises(tributary.Error) as raised:
            tributary.search_3d("/")
        self.assertEqual((raised.exception.where, raised.exception.found), ("/", "a directory"))
        with self.assertRaises(tributary.Error) as raised:
            tributary.search_3d("nowhere.json")
        self.assertEqual(raised.exception.where, "nowhere.json")
        with self.assertRaises(tributary.Error):
            tributary.search_3d([1, 2])


if __name__ == "__main__":
    unittest.main()
