"""Runs published methods by `tributary plan`, on cost tables and on models: answers, plans that simulate, words.

Usage: published_plan_test.py TRIBUTARY ROOT
"""

import json
import os
import re
import unittest

from demo_profile import profile_of_demo
from plan_case import A100, CPU, MODEL, TABLE, PlanCase
from verb_case import ROOT

EIGHT = [MODEL, "--cluster", A100, "--devices", "8", "--global-samples", "64"]


class PublishedPlan(PlanCase):
    def test_every_method_says_by_how_much_memory_is_short(self):
        with open(A100) as file:
            text = file.read().replace("memory_bytes: 85899345920", "memory_bytes: 4302000000")
        words = [MODEL, "--cluster", self.path("small.yaml", text), "--devices", "16", "--method"]
        answers = self.answer(*words, "all")
        for answer in answers:
            with self.subTest(answer["method"]):
                self.assertEqual(answer["status"], "infeasible")
                self.assertRegex(answer["limit"], r"^memory: .*\d+ .*above the .*7032704")
                code, out, err = self.run_verb("plan", *words, answer["method"])
                self.assertEqual((code, out), (5, ""))
                self.assertIn(f"where: method {answer['method']}, 16 devices; found: {answer['limit']}", err)
        code, out, err = self.run_verb("plan", *words, "dflop", "--json")
        self.assertEqual(code, 5)
        self.assertEqual(json.loads(out)[0]["status"], "infeasible")

    def test_says_which_form_a_number_of_devices_lacks(self):
        words = [MODEL, "--cluster", A100, "--method"]
        self.refused(5, "no plan of 1 devices for 512 samples", *words, "dflop", "--devices", "1")
        self.refused(5, "at least a sample for each device", *words, "fsdp", "--devices", "16", "--global-samples", "8")

    def test_the_guide_shows_the_words_of_the_program(self):
        with open(os.path.join(ROOT, "docs/guides/plan.md")) as file:
            guide = file.read()
        (before, after, method, shown), = re.findall(
            r"```sh\nsed 's/(.*)/(.*)/' configs/studies/synthetic_8b.json > small.json\n"
            r"build/release/tributary plan small.json --method (.*)\n```\n\n```text\n(.*)\n```", guide)
        with open(TABLE) as file:
            table = file.read()
        self.assertIn(before, table)
        code, _, err = self.run_verb("plan", self.path("small.json", table.replace(before, after)), "--method", method)
        self.assertEqual(code, 5)
        self.assertEqual(err.split(" [")[0], shown)

    def test_published_methods_refuse_the_options_of_the_search(self):
        for words in (("--axes", "tp"), ("--schedules", "1f1b"), ("--runnable",), ("--candidates", "9"),
                      ("--keep", "3")):
            self.refused(2, f"where: {words[0]}; found: method dflop", MODEL, "--cluster", CPU, "--method", "dflop",
                         *words)

    def test_a_table_without_batches_is_named_with_the_key(self):
        with open(TABLE) as file:
            table = json.load(file)
        del table["batches"]
        path = self.path("no_batches.json", json.dumps(table))
        for method in ("fsdp", "all"):
            self.refused(2, f"no batch to judge plans by; where: {path} batches", path, "--method", method)
        self.assertEqual(self.run_verb("plan", path, "--method", "published_objective")[0], 0)

    def test_published_methods_run_on_a_model(self):
        words = [MODEL, "--cluster", A100, "--devices", "16", "--global-samples", "64"]
        answers = {each["method"]: each for each in self.answer(*words, "--method", "all")}
        for method in ("published_objective", "megatron_uniform", "dflop", "flowtrain", "fsdp"):
            self.assertGreater(answers[method]["value"], 0)
        trains = [answer.get("trainer_plan", {}).get("trains", False) for answer in answers.values()]
        self.assertEqual(trains, sorted(trains, reverse=True))
        self.assertTrue(trains[0] and not trains[-1], trains)
        alone = self.answer(*words, "--method", "megatron_uniform")
        self.assertEqual([each["value"] for each in alone], [answers["megatron_uniform"]["value"]])

    def test_the_published_objective_has_the_best_plans_of_all_levels_of_recompute(self):
        words = [MODEL, "--cluster", A100, "--devices", "4", "--global-samples", "8", "--method", "published_objective"]
        answer, = self.answer(*words, "--keep", "1000")
        plans = [(each["step_s"], each["plan"]) for each in answer["plans"]]
        self.assertEqual([step for step, _ in plans], sorted(step for step, _ in plans))
        texts = [text for _, text in plans]
        for text in texts:
            if ", nothing recomputed" in text:
                degrees = text.rsplit(", ", 2)[0]  # microbatches may differ
                self.assertTrue(any(degrees in each and "layers recomputed" in each for each in texts), text)
        best, = self.answer(*words, "--keep", "3")
        self.assertEqual([each["plan"] for each in best["plans"]], texts[:3])

    def test_plans_of_published_methods_are_written_and_simulate_as_told(self):
        for method, words in (("dflop", ()), ("fsdp", ()), ("disttrain_microbatch", ()), ("loongforge_3", ()),
                              ("megatron_first_stage", ()), ("megascale_omni", ()),
                              ("published_objective", ()), ("flowtrain", ("--freeze", "vision,projector")), ("flowtrain", ("--freeze", "vision"))):
            with self.subTest(method):
                output = self.path(f"{method}.json")
                answer, = self.answer(*EIGHT, "--method", method, "-o", output, *words)
                trainer = answer["trainer_plan"]
                self.assertLess(abs(trainer["step_s"] / answer["plans"][0]["step_s"] - 1), 0.25)
                code, out, err = self.run_verb("simulate", output, "--cluster", A100, "--steps", "8", "--json")
                self.assertEqual((code, err), (0, ""))
                self.assertAlmostEqual(1e-9 * json.loads(out)["distribution_ns"]["mean"], trainer["step_s"], places=9)
                code, out, err = self.run_verb("plan", *EIGHT, "--method", method, *words)
                self.assertEqual((code, err), (0, ""))
                self.assertIn(trainer["plan"], " ".join(out.split()))
                refused = f"{method}: for simulation alone: `train` refuses its plan: {trainer['refusal']}"
                self.assertEqual(refused in out, not trainer["trains"], out)

    def test_says_why_a_method_has_no_plan_of_the_trainer(self):
        output = self.path("none.json")
        for method, reason in (("optimus", "it has the encoder in idle time of all stages"),
                               ("best_of_methods", "its best one is of a family that those lack: encoder "),
                               ("flowtrain", "vision trains, and an encoder is ahead")):
            for words in (("-o", output), ("--explain",)):
                self.refused(5, f"where: {words[0].replace('-o', '--output')}; found: method {method}: {reason}",
                             *EIGHT, "--method", method, *words)
            self.assertFalse(os.path.exists(output))
            answer, = self.answer(*EIGHT, "--method", method)
            self.assertEqual(list(answer["trainer_plan"]), ["reason"])
            self.assertIn(reason, answer["trainer_plan"]["reason"])
        self.refused(2, "where: --output; found: method all; ", *EIGHT, "--method", "all", "-o", output)

    def test_explains_the_plan_of_a_published_method_beside_the_default_search(self):
        answer, = self.answer(*EIGHT, "--method", "dflop", "--explain")
        explanation = answer["trainer_plan"]["explanation"]
        better, = [each for each in explanation["remedies"] if each["change"].startswith("the default search: ")]
        self.assertLess(better["step_s"], explanation["step_s"])
        self.assertIn("what limits", self.run_verb("plan", *EIGHT, "--method", "dflop", "--explain")[1])

    def test_published_methods_run_on_measured_costs(self):
        words = self.measured("--devices", "2", "--method")
        for method in ("dflop", "megatron_uniform", "fsdp"):
            answer, = self.answer(MODEL, *words, method)
            self.assertLess(abs(answer["trainer_plan"]["step_s"] / answer["value"] - 1), 0.4)
        self.assertIn("measured are tp 1 on 1 thread", self.run_verb("plan", MODEL, *words, "dflop")[1])
        profile = profile_of_demo()
        profile["layers"] = [each for each in profile["layers"] if each["module"] != "vision"]
        self.path("profile.json", json.dumps(profile))
        self.refused(2, "costs of a module are not known; where: module vision", MODEL, *self.measured_by("profile.json"),
                     "--devices", "2", "--method", "dflop")

    def test_names_what_is_no_method_of_a_model(self):
        for method, words in (("dflopp", "did you mean dflop?"), ("nosuch", "one of search (of models), all, published"),
                              ("mosaic", "with a study of kind sharing"), ("spindle", "for modules that share devices"),
                              ("veomni", "tributary compare, docs/formats/study.md")):
            self.refused(2, f"where: --method; found: {method}; ", MODEL, "--cluster", CPU, "--method", method)
            self.refused(2, words, MODEL, "--cluster", CPU, "--method", method)
        self.refused(2, "search plans a model, not a cost table; where: --method", TABLE, "--method", "exact")


if __name__ == "__main__":
    unittest.main()
