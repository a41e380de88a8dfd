"""allocate_flow, split_layers and group_stages against all answers of small problems."""

import itertools
import random
import unittest

import tributary
from executable import Beside


class Flow(Beside):
    def test_no_allocation_is_faster(self):
        draw = random.Random(1)
        for _ in range(60):
            modules = [[{"devices": draw.randint(1, 6), "period_ns": draw.randint(1, 40)}
                        for _ in range(draw.randint(1, 4))] for _ in range(draw.randint(1, 3))]
            devices = draw.randint(2, 12)
            fitting = [chosen for chosen in itertools.product(*modules)
                       if sum(each["devices"] for each in chosen) <= devices]
            encoders = {f"encoder {i}": each for i, each in enumerate(modules[:-1])}
            found = tributary.allocate_flow(encoders, modules[-1], devices)
            if not fitting:
                self.assertEqual((found["status"], found["backbone"]), ("infeasible", None))
                self.assertIn("devices", found["limit"])
                continue
            self.assertEqual(found["status"], "optimal")
            self.assertEqual(found["value_ns"],
                             min(max(each["period_ns"] for each in chosen) for chosen in fitting))
            choices = [*found["encoders"], found["backbone"]]
            self.assertEqual([each["name"] for each in choices], [*encoders, "backbone"])
            for module, choice in zip(modules, choices, strict=True):
                self.assertEqual(module[choice["candidate"]],
                                 {key: choice[key] for key in ("devices", "period_ns")})
            self.assertEqual(found["devices"], sum(each["devices"] for each in choices))

    def test_orders_differ_where_paces_tie(self):
        fast = [{"devices": 1, "period_ns": 9}, {"devices": 2, "period_ns": 4}]
        backbone = [{"devices": 2, "period_ns": 10}]
        exact = tributary.allocate_flow({"vision": fast}, backbone, 4)
        self.assertEqual((exact["devices"], exact["value_ns"]), (3, 10))
        published = tributary.allocate_flow({"vision": fast}, backbone, 4, order="published")
        self.assertEqual(published["production_ns"], 9)  # nearest to the consumption

    def test_what_is_wrong_is_named(self):
        good = [{"devices": 1, "period_ns": 9}]
        for where, arguments in [
                ("allocate_flow encoders.0.candidates.0.period_ns",
                 ({"vision": [{"devices": 1, "period_ns": 0}]}, good, 4)),
                ("allocate_flow encoders.0.candidates.0.devices",
                 ({"vision": [{"devices": 1.5, "period_ns": 3}]}, good, 4)),
                ("allocate_flow backbone.candidates", ({}, [], 4)),
                ("allocate_flow devices", ({}, good, 0))]:
            with self.assertRaises(tributary.Error) as raised:
                tributary.allocate_flow(*arguments)
            self.assertEqual(raised.exception.where, where)
        with self.assertRaises(tributary.Error):
            tributary.allocate_flow({}, good, 1, order="fastest")


class Split(Beside):
    def test_no_cut_is_better(self):
        draw = random.Random(2)
        for _ in range(60):
            times = [draw.randint(1, 50) for _ in range(draw.randint(3, 9))]
            stages = draw.randint(1, min(4, len(times)))
            microbatches = draw.randint(1, 6)
            units = [{"forward_ns": time, "input_gradient_ns": time, "weight_gradient_ns": time}
                     for time in times]
            found = tributary.split_layers(units, stages, microbatches)

            def value(cuts):
                bounds = [0, *cuts, len(times)]
                sums = [3 * sum(times[a:b]) for a, b in itertools.pairwise(bounds)]
                return sum(sums) + (microbatches - 1) * max(sums)

            cuts = itertools.combinations(range(1, len(times)), stages - 1)
            self.assertEqual((found["status"], found["value_ns"]),
                             ("optimal", min(map(value, cuts))))
            self.assertEqual(value(found["first_unit"][1:-1]), found["value_ns"])
            self.assertEqual(found["recompute"], ["none"] * stages)

    def test_memory_asks_for_recompute_and_then_ends(self):
        units = [{"forward_ns": 10, "input_gradient_ns": 20, "recompute_full_ns": 10,
                  "activation_bytes": 100, "activation_full_bytes": 10}] * 4
        roomy = tributary.split_layers(units, 2, 8, memory_bytes=400)
        self.assertEqual(roomy["recompute"], ["none", "none"])
        tight = tributary.split_layers(units, 2, 8, memory_bytes=300)
        self.assertEqual(tight["recompute"], ["full", "none"])
        none = tributary.split_layers(units, 2, 8, memory_bytes=10)
        self.assertEqual((none["status"], none["first_unit"]), ("infeasible", []))
        self.assertIn("needs 20 B with full recompute, 10 B above the limit", none["limit"])

    def test_polishing_never_makes_it_longer(self):
        units = [{"forward_ns": time, "input_gradient_ns": 2 * time} for time in (9, 2, 7, 4, 5, 8)]
        plain = tributary.split_layers(units, 3, 4)
        polished = tributary.split_layers(units, 3, 4, polish=True)
        self.assertLessEqual(polished["lower_bound_ns"], polished["value_ns"])
        self.assertLessEqual(polished["value_ns"], plain["value_ns"])

    def test_what_is_wrong_is_named(self):
        def refused(where, *arguments, **named):
            with self.assertRaises(tributary.Error) as raised:
                tributary.split_layers(*arguments, **named)
            self.assertEqual(raised.exception.where, where)
            return raised.exception

        good = {"forward_ns": 5}
        refused("split_layers units.1.forward_ns", [good, {}], 1)
        error = refused('split_layers units.0."foward_ns"', [{**good, "foward_ns": 5}], 1)
        self.assertEqual(error.fix, "did you mean forward_ns?")
        refused("split_layers units", [], 1)
        refused("split_layers stages", [good], 0)
        refused("split_layers memory_bytes", [good], 1, memory_bytes=-1)
        self.assertIn("fewer units than stages", refused("", [good], 2).what)


class Stages(Beside):
    MODULES = [{"name": "vision", "times_ns": [[150, 100], [80, 60]]},
               {"name": "audio", "times_ns": [[150, 100], [80, 60]]},
               {"name": "backbone", "times_ns": [[400, 300], [220, 160]],
                "after": ["vision", "audio"]}]

    def test_the_answer_adds_up(self):
        found = tributary.group_stages(self.MODULES, 2, units=2)
        # Side by side: 100 on a device each, or 80 each on both with half of them; then 160.
        self.assertEqual((found["status"], found["value_ns"]), ("optimal", 240))
        self.assertEqual(found["value_ns"], sum(stage["time_ns"] for stage in found["stages"]))
        by_name = {module["name"]: module for module in self.MODULES}
        for stage in found["stages"]:
            taken = [0, 0]
            for placed in stage["modules"]:
                width = placed["devices"].bit_length() - 1
                time = by_name[placed["name"]]["times_ns"][width][placed["share_units"] - 1]
                self.assertEqual(time, placed["time_ns"])
                for device in range(placed["devices"]):
                    taken[placed["first_device"] + device] += placed["share_units"]
            self.assertLessEqual(max(taken), 2)
            self.assertEqual(stage["time_ns"],
                             max(placed["time_ns"] for placed in stage["modules"]))

    def test_no_system_is_better_and_all_are_there(self):
        exact = tributary.group_stages(self.MODULES, 2, units=2)["value_ns"]
        self.assertEqual(tributary.staging_methods()[0], "exact")
        self.assertGreaterEqual(len(tributary.staging_methods()), 5)
        for method in tributary.staging_methods():
            with self.subTest(method=method):
                found = tributary.group_stages(self.MODULES, 2, units=2, method=method)
                self.assertGreaterEqual(found["value_ns"], exact)
                names = {placed["name"] for stage in found["stages"] for placed in stage["modules"]}
                self.assertEqual(names, {"vision", "audio", "backbone"})
        temporal = tributary.group_stages(self.MODULES, 2, units=2, method="megatron_temporal")
        self.assertEqual(temporal["value_ns"], 60 + 60 + 160)

    def test_searches_for_stages_end_after_so_many(self):
        for method in ("exact", "mosaic"):
            found = tributary.group_stages(self.MODULES, 2, units=2, method=method, evaluations=1000)
            self.assertEqual(found, tributary.group_stages(self.MODULES, 2, units=2, method=method))

    def test_interference_slows_neighbours(self):
        modules = [{**module, "times_ns": [[150, 100]], "bandwidth": [0.5, 0.9]}
                   for module in self.MODULES[:2]]
        alone = tributary.group_stages(modules, 1, units=2, interference={"form": "none"})
        self.assertEqual(optimum(alone), 150)
        slowed = tributary.group_stages(modules, 1, units=2,
                                        interference={"form": "pairwise", "base": 1.0})
        self.assertEqual(optimum(slowed), 200)  # one after another

    def test_interference_is_fitted_to_what_was_measured(self):
        draw = random.Random(5)
        points = []
        for _ in range(30):
            bandwidth = [draw.random() for _ in range(draw.randint(2, 4))]
            slowed = 1 + 0.1 + 0.3 * sum(bandwidth) + 0.2 * bandwidth[0] * sum(bandwidth[1:])
            points.append({"alone_ns": 10**9, "together_ns": round(10**9 * slowed), "bandwidth": bandwidth})
        fit = tributary.fit_interference(points)
        self.assertEqual((fit["interference"]["form"], fit["held_out"]), ("pairwise", 10))
        for factor, planted in (("base", 0.1), ("sum", 0.3), ("pair", 0.2)):
            self.assertAlmostEqual(fit["interference"][factor], planted, places=6)
        self.assertLess(fit["error"], 1e-6)
        self.assertGreater(tributary.fit_interference(points, form="published")["error"], fit["error"])
        for where, wrong, named in (("fit_interference points.1.alone_ns", [points[0], {**points[1], "alone_ns": "x"}], {}),
                                    ("fit_interference form", points, {"form": "best"})):
            with self.assertRaises(tributary.Error) as raised:
                tributary.fit_interference(wrong, **named)
            self.assertEqual(raised.exception.where, where)

    def test_infeasible_and_wrong(self):
        heavy = [{**self.MODULES[0], "memory_bytes": [200, 100]}]
        found = tributary.group_stages(heavy, 2, units=2, memory_bytes=50)
        self.assertEqual((found["status"], found["stages"]), ("infeasible", []))
        self.assertIn("vision", found["limit"])
        for where, modules, named in [
                ("group_stages modules.0.after", self.MODULES[::-1], {}),
                ("group_stages modules.1.name", [self.MODULES[0]] * 2, {}),
                ("group_stages modules.0.times_ns", [{"name": "a", "times_ns": [[1, 0]]}], {}),
                ("group_stages method", self.MODULES, {"method": "best"}),
                ("group_stages evaluations", self.MODULES, {"evaluations": 0}),
                ("evaluations", self.MODULES, {"evaluations": 5, "method": "spindle"}),
                ("evaluations", self.MODULES, {"evaluations": 5, "method": "mosaic_unaware"}),
                ("group_stages interference.form", self.MODULES, {"interference": {"form": "x"}}),
                ("vision", self.MODULES, {"units": 3})]:
            with self.subTest(where=where):
                with self.assertRaises(tributary.Error) as raised:
                    tributary.group_stages(modules, 2, **{"units": 2, **named})
                self.assertEqual(raised.exception.where, where)


class WhatIsNoList(unittest.TestCase):
    def test_it_is_named(self):
        for value in (None, 5, "units", {"forward_ns": 1}):
            for where, call in (("units", lambda: tributary.split_layers(value, 2)),
                                ("modules", lambda: tributary.group_stages(value, 2)),
                                ("backbone", lambda: tributary.allocate_flow({}, value, 2)),
                                ("encoders vision", lambda: tributary.allocate_flow({"vision": value}, [], 2))):
                with self.subTest(where=where, value=value), self.assertRaises(tributary.Error) as raised:
                    call()
                self.assertEqual((raised.exception.what, raised.exception.where), ("python: not a list", where))
        with self.assertRaises(tributary.Error) as raised:
            tributary.allocate_flow([], [], 2)
        self.assertEqual(raised.exception.where, "encoders")


def optimum(found):
    assert found["status"] == "optimal", found
    return found["value_ns"]


if __name__ == "__main__":
    unittest.main()
