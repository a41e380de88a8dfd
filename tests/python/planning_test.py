"""plan of the module against the program; models, clusters and profiles as dictionaries."""

import inspect
import json
import os
import unittest

import tributary
from executable import CLUSTER, MODEL, ROOT, Beside, profile_of_demo, read_json

CPU = os.path.join(ROOT, "configs/clusters/cpu_2.yaml")
SMALL = {"devices": 2, "global_samples": 8, "batches": 2}


class Planning(Beside):
    def words(self):
        return [word for key, value in SMALL.items() for word in (f"--{key.replace('_', '-')}", value)]

    def test_it_is_the_answer_of_the_program(self):
        output = self.path("plan.json")
        theirs = json.loads(self.command("plan", MODEL, "--cluster", CPU, *self.words(), "--explain", "--json",
                                         "-o", output))
        ours = tributary.plan(MODEL, CPU, explain=True, **SMALL)
        best = ours.pop("plan")
        self.assert_equal_but_for_time(ours, theirs)
        written = read_json(output)
        self.assertEqual(best.pop("model"), MODEL)
        written.pop("model")
        self.assertEqual(best, written)

    def test_its_arguments_are_the_options_of_the_program(self):
        arguments = set(inspect.signature(tributary.plan).parameters)
        self.assertEqual(arguments | {"method", "output", "json"}, self.options_of("plan") | {"model"})

    def test_the_best_plan_simulates(self):
        sizes = [[64, 32, 2], [120, 0, 0], [300, 120, 1]]
        found = tributary.plan(MODEL, CPU, lengths=sizes, seed=3, runnable=True, **SMALL)
        simulated = tributary.simulate(found["plan"], cluster=CPU, lengths=sizes, seed=3, steps=2, trace=False)
        self.assertEqual(simulated["summary"]["ranks"], found["plans"][0]["devices"])
        self.assertAlmostEqual(1e-9 * simulated["summary"]["distribution_ns"]["mean"], found["value"],
                               delta=0.25 * found["value"])

    def test_sizes_with_sound(self):
        omni = os.path.join(ROOT, "configs/models/qwen2_5_omni_7b")
        small = {"devices": 8, "global_samples": 8, "batches": 2}
        sizes = [[900, 400, 1, 500, 1], [700, 0, 0, 1500, 2]]
        found = tributary.plan(omni, lengths=sizes, seed=3, **small)
        simulated = tributary.simulate(found["plan"], lengths=sizes, seed=3, steps=2, trace=False)
        self.assertAlmostEqual(1e-9 * simulated["summary"]["distribution_ns"]["mean"], found["value"], places=8)
        with self.assertRaisesRegex(tributary.Error, "model does not encode sound beside images"):
            tributary.plan(MODEL, CPU, lengths=sizes, **SMALL)

    def test_measured_costs(self):
        path = self.path("profile.json", json.dumps(profile_of_demo()))
        sizes = self.path("sizes.csv", "64,32,2\n120,0,0\n300,120,1\n")
        theirs = json.loads(self.command("plan", MODEL, "--profile", path, "--lengths", sizes, *self.words(),
                                         "--json"))
        ours = tributary.plan(MODEL, profile=profile_of_demo(), lengths=[[64, 32, 2], [120, 0, 0], [300, 120, 1]],
                              **SMALL)
        ours.pop("plan")
        self.assert_equal_but_for_time(ours, theirs)
        # With the encoder on its ranks only the backbone may be cut, which was not measured.
        self.assertEqual(ours["left_out"], {"cells": 16, "degrees": ["backbone tp 2"]})
        self.assertTrue(all(plan["devices"] == 2 for plan in ours["plans"]))

    def test_axes_and_schedules_narrow_the_space(self):
        found = tributary.plan(MODEL, CPU, axes=["pp"], schedules=["gpipe"], **SMALL)
        for plan in found["plans"]:
            self.assertRegex(plan["plan"], r"^backbone tp 1, pp \d, dp 1.*gpipe")

    def test_infeasible_is_an_answer(self):
        cluster = {"format": "tributary.cluster/1", "name": "small", "devices": 2,
                   "device": {"name": "d", "memory_bytes": 1000000, "matrix_flops_per_s": 1e12,
                              "memory_bytes_per_s": 1e11},
                   "levels": [{"name": "l", "ranks": 2, "bytes_per_s": 1e9}]}
        found = tributary.plan(MODEL, cluster, **SMALL)
        self.assertEqual((found["status"], found["plans"], found["plan"]), ("infeasible", [], None))
        self.assertIn("memory", found["limit"])

    def test_what_is_wrong_is_named(self):
        for where, arguments in {"devices": {"devices": 9}, "axes": {"axes": ["dp", "tq"]},
                                 "schedules": {"schedules": ["2f2b"]}, "freeze": {"freeze": ["audio"]},
                                 "threads": {"threads": 2}, "seed": {"seed": -1},
                                 "keep": {"keep": 0}}.items():
            with self.subTest(where=where), self.assertRaises(tributary.Error) as raised:
                tributary.plan(MODEL, CPU, **{**SMALL, **arguments})
            self.assertEqual(raised.exception.where, where)
        with self.assertRaises(tributary.Error) as raised:
            tributary.plan(MODEL, CPU, keep=11, **SMALL)
        self.assertEqual((raised.exception.where, raised.exception.found, raised.exception.expected),
                         ("keep", "11", "1 to 10"))

    def test_of_a_cluster_without_an_end_one_node_is_planned_for(self):
        named = {"global_samples": 8, "batches": 2, "axes": ["dp"]}
        for cluster in (None, CLUSTER):
            found = tributary.plan(MODEL, cluster, **named)
            self.assertEqual(max(plan["devices"] for plan in found["plans"]), 8)
            self.assert_equal_but_for_time(found, tributary.plan(MODEL, cluster, devices=8, **named))

    def test_arguments_that_would_count_for_nothing_are_refused(self):
        text = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 64,
                "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
                "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 32768,
                "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                "tie_word_embeddings": True, "use_sliding_window": False}
        for found, model, more in (("lengths, which says it of each sample", text, {"lengths": [64, 128]}),
                                   ("a model with an encoder", MODEL, {})):
            with self.subTest(found=found), self.assertRaises(tributary.Error) as raised:
                tributary.plan(model, CPU, tokens=4096, **more, **SMALL)
            self.assertEqual((raised.exception.where, raised.exception.found), ("tokens", found))
        tributary.plan(text, CPU, tokens=64, **SMALL)

    def test_arguments_of_another_type_are_named(self):
        for where, value in [("axes", "dp"), ("axes", 5), ("axes", ["dp", 2]), ("schedules", 1.5), ("freeze", {"a": 1}),
                             ("freeze", b"vision"), ("devices", "2"), ("devices", None), ("tokens", 1.5),
                             ("threads", [1]), ("keep", "all"), ("candidates", object()), ("runnable", "no"),
                             ("explain", [True]), ("seed", 2**70), ("lengths", 5), ("cluster", 7), ("profile", [1])]:
            with self.subTest(where=where, value=value), self.assertRaises(tributary.Error) as raised:
                tributary.plan(MODEL, **{"cluster": CPU, **SMALL, where: value})
            self.assertIn(where, raised.exception.where)
            self.assertTrue(raised.exception.found and raised.exception.expected)
        with self.assertRaises(tributary.Error) as raised:
            tributary.plan(5)
        self.assertEqual(raised.exception.where, "model")

    def test_a_list_that_names_nothing_is_refused(self):
        for name in ("axes", "schedules"):
            with self.assertRaises(tributary.Error) as raised:
                tributary.plan(MODEL, CPU, **SMALL, **{name: []})
            self.assertEqual((raised.exception.what, raised.exception.where), ("python: list names nothing", name))
        tributary.plan(MODEL, CPU, freeze=[], **SMALL)

    def test_words_may_come_from_any_iterable(self):
        listed = tributary.plan(MODEL, CPU, axes=["pp"], **SMALL)
        given = tributary.plan(MODEL, CPU, axes=(axis for axis in ["pp"]), **SMALL)
        self.assert_equal_but_for_time(given, listed)


if __name__ == "__main__":
    unittest.main()
