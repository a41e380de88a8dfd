"""Runs `tributary plan` on models, as a user does: answers, plans that simulate, exit codes, words.

Usage: plan_test.py TRIBUTARY ROOT
"""

import json
import os
import pathlib
import re
import subprocess
import unittest

from demo_profile import profile_of_demo
from plan_case import A100, CPU, MODEL, PlanCase
from verb_case import ROOT, TRIBUTARY

OMNI = os.path.join(ROOT, "configs/models/qwen2_5_omni_7b")
SMALL = ["--global-samples", "8", "--batches", "3", "--devices", "4"]


class Plan(PlanCase):
    def test_the_step_is_close_to_what_simulating_the_plan_gives(self):
        output = self.path("plan.json")
        found = self.answer(MODEL, "--cluster", CPU, *SMALL, "-o", output)
        self.assertLessEqual(found["lower_bound"], found["value"])
        self.assertAlmostEqual(found["gap"], found["value"] / found["lower_bound"] - 1, places=9)
        self.assertEqual(found["value"], found["plans"][0]["step_s"])
        steps = [(not plan["trains"], plan["step_s"]) for plan in found["plans"]]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(found["global_samples"], 8)
        best = found["plans"][0]
        self.assertAlmostEqual(best["tokens_per_s"], found["tokens"] / best["step_s"], places=3)
        with open(output) as file:
            predicted = json.load(file)["predicted"]
        self.assertAlmostEqual(1e-9 * predicted["step_ns"], found["value"], places=8)
        code, out, err = self.run_verb("simulate", output, "--cluster", CPU, "--steps", "3", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["step_ns"], predicted["step_ns"])
        self.assertEqual(json.loads(out)["distribution_ns"]["mean"], predicted["step_ns"])
        code, out, err = self.run_verb("simulate", output, "--cluster", CPU, "--steps", "3")
        step, plans = (re.search(text + r" ([0-9.]+ m?s)", out)[1]
                       for text in ("^step", "the plan predicts"))
        self.assertEqual(step, plans)

    def simulated(self, output, *words):
        code, out, err = self.run_verb("simulate", output, "--cluster", A100, *words)
        self.assertEqual((code, err), (0, ""))
        return out

    def test_a_model_of_images_and_sound(self):
        output = self.path("omni.json")
        small = ["--cluster", A100, "--devices", "8", "--global-samples", "16", "--batches", "2"]
        found = self.answer(OMNI, *small, "--explain", "-o", output)
        self.assertLessEqual(found["lower_bound"], found["value"])
        self.assertEqual(found["explanation"]["step_s"], found["value"])
        for module in ("audio", "vision"):
            self.assertIn(module, found["plans"][0]["plan"])
        self.assertIn("documents and videos, with sound", self.simulated(output, "--steps", "2"))
        summary = json.loads(self.simulated(output, "--steps", "2", "--json"))
        self.assertAlmostEqual(1e-9 * summary["distribution_ns"]["mean"], found["value"], places=8)
        # Sizes with sound, as a table and as a histogram.
        table = self.path("sizes.csv", "900,400,1,500,1\n2000,800,4,0,0\n700,0,0,1500,2\n300,0,0,0,0\n")
        bins = [{"samples": 1, "tokens": 900, "images": [[1, 20, 20]], "clips": [500]},
                {"samples": 1, "tokens": 2000, "videos": [[4, 10, 20]]},
                {"samples": 1, "tokens": 700, "clips": [1000, 500]}, {"samples": 1, "tokens": 300}]
        histogram = self.path("sizes.json", json.dumps({"format": "tributary.shape_histogram/1", "bins": bins}))
        by_table = self.answer(OMNI, *small, "--lengths", table, "-o", output)
        by_bins = self.answer(OMNI, *small, "--lengths", histogram)
        self.assertEqual(by_table["plans"], by_bins["plans"])
        self.assertLess(by_table["value"], found["value"])
        summary = json.loads(self.simulated(output, "--steps", "2", "--lengths", table, "--json"))
        self.assertAlmostEqual(1e-9 * summary["distribution_ns"]["mean"], by_table["value"], places=8)
        # The published systems treat both as one encoder.
        (fsdp,) = json.loads(self.run_verb("plan", OMNI, *small, "--method", "fsdp", "--json")[1])
        self.assertGreater(fsdp["value"], 0)
        for words in ([], ["--method", "fsdp"]):
            self.refused(2, "model does not encode sound beside images", MODEL, *small, "--lengths", table, *words)

    def test_a_plan_is_worth_in_a_simulation_what_the_search_says(self):
        large = self.path("large")
        os.makedirs(large)
        with open(os.path.join(large, "config.json"), "w") as file:
            json.dump(json.loads(pathlib.Path(ROOT, "configs/models/qwen2_5_vl_7b/config.json").read_text()), file)
        whole = 0
        for devices, words in (("8", ()), ("16", ()), ("8", ("--runnable",)), ("8", ("--axes", "tp,dp", "--runnable"))):
            output = self.path("handed.json")
            found = self.answer(large, "--cluster", A100, "--devices", devices, "--freeze", "vision", *words,
                                "-o", output)["plans"][0]
            self.assertTrue(found["links_shared"])
            code, out, err = self.run_verb("simulate", output, "--cluster", A100, "--steps", "8", "--json")
            self.assertEqual((code, err), (0, ""))
            simulated = json.loads(out)
            mean = 1e-9 * simulated["distribution_ns"]["mean"]
            if found["simulated_batches"] == 8:
                whole += 1
                self.assertAlmostEqual(mean, found["step_s"], places=8)
            else:  # the other batches are judged with unshared links
                self.assertAlmostEqual(mean / found["step_s"], 1, delta=0.02)
            self.assertEqual(simulated["out_of_memory"], "")
        self.assertTrue(0 < whole < 4, whole)  # there are plans of both kinds

    def test_an_encoder_that_cannot_be_cut_as_the_backbone_is_trains_with_a_mesh_of_its_own(self):
        odd = json.loads(pathlib.Path(MODEL, "config.json").read_text())
        odd["vision_config"]["num_heads"] = 3
        os.mkdir(self.path("odd"))
        self.path("odd/config.json", json.dumps(odd))
        for words in ((), ("--runnable",)):
            found = self.answer(self.path("odd"), "--cluster", CPU, *SMALL, "--seed", "1", *words)
            self.assertTrue(all(plan["trains"] for plan in found["plans"]), found["plans"])
            self.assertTrue(any("vision inline" not in plan["plan"] for plan in found["plans"]))

    def test_text_is_for_a_person(self):
        output = self.path("plan.json")
        code, out, err = self.run_verb("plan", MODEL, "--cluster", CPU, *SMALL, "-o", output)
        self.assertEqual((code, err), (0, ""))
        head, step = out.splitlines()[:2]
        self.assertRegex(head, r"^\w+: 8 samples a step \([\d.]+ k tokens, mean of 3 batches\) on 4 devices \(")
        self.assertRegex(step, r"^step [\d.]{5} (s|ms); no plan that `train` runs is below [\d.]{5} (s|ms), gap ")
        self.assertRegex(out, r"(?m)^ 1\.  [\d.]+ (s|ms) \+- [\d.]+ (s|ms|us) +[\d.]+ % +[\d.]+(?: [kM])? +[\d.]+ %  ")
        written = out.splitlines()[-1]
        self.assertTrue(written.startswith(f"wrote {output}, to train with: "), written)
        self.assertTrue(written.endswith(f" launch -n 4 -- train RUN.yaml --plan {output}"), written)
        for line in out.splitlines()[:-1]:
            self.assertLessEqual(len(line), 120, line)

    def test_the_former_name_of_the_search_is_taken(self):
        words = [MODEL, "--cluster", A100, "--devices", "2", "--global-samples", "16", "--batches", "1"]
        found = self.answer(*words, "--method", "exact")
        self.assertEqual(found["method"], "search")
        self.assertEqual(found["value"], self.answer(*words, "--method", "search")["value"])

    def test_says_before_its_plans_that_the_trainer_does_not_take_the_model(self):
        output = self.path("plan.json")
        reason = 'model family is not known, found "qwen3_moe", expected one of qwen2'
        words = [self.text_model(), "--cluster", A100, "--devices", "8", "--global-samples", "16", "--batches", "1"]
        code, out, err = self.run_verb("plan", *words, "-o", output)
        self.assertEqual((code, err), (0, ""))
        self.assertIn(f"for simulation alone: `train` refuses all plans of this model: {reason}", out.splitlines()[1])
        self.assertIn(f"wrote {output}, for simulation alone: ", out)
        self.assertNotIn("to train with", out)
        for plan in self.answer(*words)["plans"]:
            self.assertFalse(plan["trains"])
            self.assertIn(reason, plan["refusal"])
        self.refused(2, "app: the trainer runs no plan of this model; where: --runnable", *words, "--runnable")

    def text_model(self):
        folder = self.path("text")
        os.makedirs(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"],
                       "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4,
                       "head_dim": 64, "intermediate_size": 2048, "num_hidden_layers": 8,
                       "vocab_size": 32000, "num_experts": 16, "num_experts_per_tok": 4,
                       "moe_intermediate_size": 512}, file)
        return folder

    def test_a_text_plan_is_simulated_with_the_samples_that_it_was_judged_with(self):
        output = self.path("plan.json")
        model = self.text_model()
        for tokens in ("2048", "4096"):
            self.answer(model, "--cluster", A100, "--devices", "16", "--global-samples", "64",
                        "--tokens", tokens, "--batches", "2", "-o", output)
            with open(output) as file:
                plan = json.load(file)
            predicted = plan["predicted"]
            self.assertEqual((predicted["samples"], predicted["sample_tokens"]),
                             ("equal", int(tokens)))
            words = [output, "--cluster", A100]
            code, out, err = self.run_verb("simulate", *words, "--json")
            self.assertEqual((code, err), (0, ""))
            found = json.loads(out)
            self.assertEqual(found["step_ns"], predicted["step_ns"])
            self.assertEqual(found["planned_step_ns"], predicted["step_ns"])
            code, out, err = self.run_verb("simulate", *words)
            self.assertIn("the plan predicts ", out)
            self.assertIn(f"samples: {tokens} tokens each, as the plan was judged with", out)
        # A plan that does not say so has full microbatches, as before.
        del predicted["samples"], predicted["sample_tokens"]
        self.path("plan.json", json.dumps(plan))
        code, out, err = self.run_verb("simulate", *words)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("samples: microbatches full with one sequence of ", out)

    def test_plans_say_which_samples_they_were_judged_with(self):
        output = self.path("plan.json")
        sizes = self.path("sizes.csv", "64,32,2\n120,0,0\n5000,120,1\n")
        for words, samples, said in (
            ([], "mixture", "drawn from the mixture of photos, documents and videos, as the plan"),
            (["--lengths", sizes], "recorded", "the plan was judged with recorded sizes: give them"),
        ):
            self.answer(MODEL, "--cluster", CPU, *SMALL, *words, "-o", output)
            with open(output) as file:
                self.assertEqual(json.load(file)["predicted"]["samples"], samples)
            code, out, err = self.run_verb("simulate", output, "--cluster", CPU)
            self.assertEqual((code, err), (0, ""))
            self.assertIn(said, out)
            self.assertIn("the plan predicts ", out)

    def test_the_answer_does_not_depend_on_the_run(self):
        first, second = (self.answer(MODEL, "--cluster", CPU, *SMALL) for _ in range(2))
        for key in ("milliseconds",):
            first.pop(key), second.pop(key)
        self.assertEqual(first, second)

    def test_without_a_cluster_it_is_the_fitted_one_of_8_a100(self):
        default, named = (self.answer(MODEL, *SMALL, *words) for words in ([], ["--cluster", A100]))
        self.assertEqual((default["value"], default["lower_bound"], default["plans"]),
                         (named["value"], named["lower_bound"], named["plans"]))

    def test_of_a_cluster_without_an_end_one_node_is_planned_for(self):
        small = ["--global-samples", "8", "--batches", "2", "--axes", "dp"]
        for words in ([], ["--cluster", os.path.join(ROOT, "configs/clusters/h100_8.yaml")]):
            node = self.answer(MODEL, *small, *words, "--devices", "8")
            found = self.answer(MODEL, *small, *words)
            self.assertEqual(max(plan["devices"] for plan in found["plans"]), 8)
            self.assertEqual((found["value"], found["plans"]), (node["value"], node["plans"]))
            note = "planned for one node, 8 of the cluster's 1048576 devices: --devices says how many\n"
            self.assertIn(note, self.run_verb("plan", MODEL, *small, *words)[1])
            self.assertNotIn("one node", self.run_verb("plan", MODEL, *small, *words, "--devices", "8")[1])
            method = [*words, "--global-samples", "8", "--method", "published_objective"]
            self.assertIn(note, self.run_verb("plan", MODEL, *method)[1])
        self.assertNotIn("one node", self.run_verb("plan", MODEL, *small, "--cluster", CPU)[1])
        with open(A100) as file:
            text = file.read()
        flat = self.path("flat.yaml", text[:text.index("  - name: \"nvlink\"")]
                         + "  - {name: all, ranks: 1048576, bytes_per_s: 1e9}\n")
        self.refused(2, "larger than a plan is likely meant for", MODEL, "--cluster", flat)

    def test_more_devices_are_not_slower(self):
        steps = [
            self.answer(MODEL, "--cluster", CPU, "--global-samples", "8", "--batches", "3",
                        "--devices", devices)["value"]
            for devices in ("1", "2", "4")
        ]
        self.assertEqual(steps, sorted(steps, reverse=True))

    def test_says_what_limits_a_plan_and_what_would_help(self):
        found = self.answer(MODEL, "--cluster", CPU, *SMALL, "--explain")["explanation"]
        shares = found["busy"] + found["communication"] + sum(found["idle"].values())
        self.assertAlmostEqual(shares, 1, places=6)
        gains = {each["change"]: each["gain"] for each in found["remedies"]}
        self.assertGreater(gains["devices with twice the arithmetic"], 0.2)
        self.assertIn("links of level loopback with twice the rate", gains)
        self.assertEqual(list(gains.values()), sorted(gains.values(), reverse=True))
        for batches, words in (("3", " on the first 2 of 3 batches:"), ("2", "s:")):
            code, out, err = self.run_verb("plan", MODEL, "--cluster", CPU, *SMALL[:2], "--devices", "4",
                                           "--batches", batches, "--explain")
            self.assertEqual((code, err), (0, ""))
            line = next(each for each in out.splitlines() if each.startswith("what limits"))
            self.assertTrue(line.endswith(words), line)

    def test_runnable_plans_are_of_the_trainer(self):
        found = self.answer(MODEL, "--cluster", CPU, *SMALL, "--runnable")
        for plan in found["plans"]:
            self.assertTrue(plan["trains"], plan)
            self.assertNotIn("ep ", plan["plan"])

    def test_a_run_configuration_gives_samples_and_frozen_modules(self):
        config = self.path("run.yaml", f"""
model: {{path: {MODEL}, freeze: [vision]}}
data: {{sources: [{{name: a, path: a.jsonl}}]}}
batch: {{global_samples: 6}}
""")
        output = self.path("plan.json")
        self.answer(config, "--cluster", CPU, "--devices", "2", "--batches", "2", "-o", output)
        with open(output) as file:
            plan = json.load(file)
        self.assertEqual(plan["batch"]["global_samples"], 6)
        self.assertEqual(plan["modules"]["vision"]["train"], "frozen")

    def test_says_by_how_much_memory_is_short(self):
        with open(CPU) as file:
            text = file.read().replace("memory_bytes: 4294967296", "memory_bytes: 560000000")
        self.refused(5, " above the 23129088 B that a plan may hold", MODEL, "--cluster", self.path("small.yaml", text),
                     *SMALL)

    def test_orders_that_do_not_run_are_said(self):
        for words in (("--devices", "1", "--schedules", "zb_v"),
                      ("--devices", "2", "--schedules", "interleaved", "--axes", "dp")):
            code, out, err = self.run_verb("plan", MODEL, "--cluster", CPU, "--global-samples", "8", *words)
            self.assertEqual(code, 5, err)
            self.assertIn("schedules: none of " + words[3] + " runs", err)
            self.assertIn(f"; {words[3]} needs 2 stages, 1 more than ", err)
            self.assertRegex(err, r"; the usual ones have a plan of [0-9.e+]+ ms: backbone tp 1, pp 1, .*1f1b")

    def test_what_asked_schedules_lack_is_said_by_how_much(self):
        with open(os.path.join(MODEL, "config.json")) as file:
            config = json.load(file)
        config["num_hidden_layers"] = 1
        folder = self.path("small")
        os.mkdir(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        words = [folder, "--devices", "2", "--global-samples", "8", "--schedules", "zb_v"]
        self.refused(5, "zb_v needs 4 units of the backbone for 2 stages, 1 more than its 3; the usual ones have a plan",
                     *words)
        long = self.path("long.csv", "9000000,0,0\n")  # 64 microbatches at most, which do not fit
        code, _, err = self.run_verb("plan", MODEL, "--devices", "2", "--lengths", long, "--schedules", "zb_v")
        self.assertEqual(code, 5)
        self.assertRegex(err, r"allow; the usual ones have a plan of [0-9.e+]+ ms: .*512 microbatches")

    def test_a_list_that_names_nothing_is_refused(self):
        for option in ("--axes", "--schedules", "--freeze"):
            self.refused(2, f'list names nothing; where: {option}; found: ", "', MODEL, "--cluster", CPU, option, ", ")

    def test_the_model_of_a_run_that_is_not_there_is_named(self):
        config = os.path.join(ROOT, "configs/demo.yaml")
        done = subprocess.run([TRIBUTARY, "plan", config], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"where: {config} model.path; found: configs/demo_model; expected: a directory with a config.json, "
                      f"or a module graph, at {os.path.realpath(self.folder)}/configs/demo_model; fix: ", done.stderr)

    def test_values_out_of_range_are_refused_by_option(self):
        for option, value in (("--global-samples", "-5"), ("--tokens", "-1"), ("--keep", "-1"), ("--keep", "11"),
                              ("--global-samples", "0"), ("--tokens", "0"), ("--devices", "0")):
            self.refused(2, f"where: {option}; found: {value}", MODEL, "--cluster", CPU, option, value)
        self.refused(2, "number out of range", MODEL, "--cluster", CPU, "--seed", "9999999999999999999")

    def test_options_that_would_count_for_nothing_are_refused(self):
        table = os.path.join(ROOT, "configs/studies/synthetic_8b.json")
        for words in (("--devices", "7"), ("--cluster", "/nowhere"), ("--freeze", "x"), ("--seed", "1"),
                      ("--profile", "/nowhere"), ("--lengths", "/nowhere"), ("--tokens", "5"), ("--candidates", "5"),
                      ("--explain",), ("-o", self.path("plan.json")), ("--runnable",)):
            option = {"-o": "--output"}.get(words[0], words[0])
            self.refused(2, f"option would count for nothing; where: {option}; found: a cost table", table, *words)
        self.assertEqual(self.run_verb("plan", table, "--keep", "2", "--json")[0], 0)
        sizes = self.path("sizes.csv", "64,32,2\n")
        self.refused(2, "where: --tokens; found: a model with an encoder", MODEL, "--cluster", CPU, "--tokens", "5")
        self.refused(2, "where: --tokens; found: --lengths", self.text_model(), "--cluster", CPU, "--tokens", "5",
                     "--lengths", sizes)

    def test_a_profile_of_another_model_is_refused(self):
        other = profile_of_demo() | {"model": "other 0123456789abcdef"}
        profile = self.path("other.json", json.dumps(other))
        self.refused(2, f"{profile} model; found: other 0123456789abcdef", MODEL, "--profile", profile,
                     "--devices", "2")

    def test_measured_costs_give_the_step_that_simulating_gives(self):
        output = self.path("plan.json")
        words = self.measured("--devices", "2")
        found = self.answer(MODEL, *words, "-o", output)
        self.assertLessEqual(found["lower_bound"], found["value"])
        # The profile has no backbone of tp 2, with the encoder cut alike or on a mesh of its own.
        self.assertEqual(found["left_out"], {"cells": 16, "degrees": ["backbone tp 2"]})
        self.assertEqual({plan["devices"] for plan in found["plans"]}, {2})
        code, out, err = self.run_verb("plan", MODEL, *words)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("left out", out)
        code, out, err = self.run_verb("simulate", output, *words[:4], "--steps", "3", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertAlmostEqual(1e-9 * json.loads(out)["distribution_ns"]["mean"], found["value"],
                               delta=1e-6 * found["value"])

    def test_names_the_tables_that_the_best_plan_is_too_large_for(self):
        words = self.measured("--devices", "2", "--axes", "dp", "--runnable")
        whole = profile_of_demo()
        for each in whole["collectives"]:
            each["points"] = [*each["points"], {"ranks": 2, "bytes": 1 << 30, "ns": 1 << 31}]
        cut = whole | {"layers": [each | {"points": each["points"][:1]} for each in whole["layers"]]}
        for profile, is_beyond in ((whole, False), (cut, True)):
            self.path("profile.json", json.dumps(profile))
            beyond = self.answer(MODEL, *words)["beyond_grid"]
            self.assertEqual("backbone.block tp 1" in [each["table"] for each in beyond], is_beyond)
            self.assertEqual(bool(beyond), is_beyond)
            code, out, err = self.run_verb("plan", MODEL, *words)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual("beyond what was measured" in out, is_beyond)
            for each in beyond:
                self.assertIn(f"{each['table']} at {each['asked']} {each['unit']} "
                              f"(measured to {each['measured']})", out)

    def test_says_what_was_measured_where_that_is_not_enough(self):
        self.refused(2, "measured are tp 1 on 1 thread; all_reduce of 2;", MODEL, *self.measured("--devices", "4"))
        self.refused(2, "where: --devices", MODEL, *self.measured())
        self.refused(2, "--threads", MODEL, "--cluster", CPU, "--threads", "1")

    def test_names_the_threads_that_were_measured(self):
        self.refused(2, "where: --threads; found: 2 of each rank: an equal part of 2 cores for 1 rank; expected: 1,",
                     MODEL, *self.measured("--devices", "1"))
        self.refused(2, "fix: give --threads 1, or measure", MODEL, *self.measured("--devices", "2", "--threads", "2"))
        self.assertGreater(self.answer(MODEL, *self.measured("--devices", "1", "--threads", "1"))["value"], 0)

    def test_links_of_a_cluster_do_for_messages_that_were_not_measured(self):
        profile = profile_of_demo()
        profile["collectives"] = [each for each in profile["collectives"] if each["op"] != "send"]
        words = ["--profile", self.path("no_send.json", json.dumps(profile)), "--global-samples", "8"]
        self.refused(2, "messages between 2 ranks", MODEL, *words, "--devices", "2")
        output = self.path("links.json")
        words += ["--cluster", CPU]
        found = self.answer(MODEL, *words, "--batches", "3", "--devices", "2", "--axes", "pp", "-o", output)
        self.assertGreater(found["value"], 0)
        code, out, err = self.run_verb("simulate", output, *words[:2], *words[4:], "--steps", "3", "--json")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(json.loads(out)["ranks"], 2)

    def test_axes_narrow_the_space(self):
        found = self.answer(MODEL, "--cluster", CPU, *SMALL, "--axes", "pp")
        for plan in found["plans"]:
            self.assertRegex(plan["plan"], r"^backbone tp 1, pp \d, dp 1")
        self.refused(2, "--axes", MODEL, "--cluster", CPU, "--axes", "dp,sp")

    def test_names_what_is_wrong(self):
        self.refused(2, "no such file", self.path("nothing.yaml"))
        self.refused(2, "cluster has not so many devices", MODEL, "--cluster", CPU, "--devices", "5")
        self.refused(2, "--schedules", MODEL, "--cluster", CPU, "--schedules", "2f2b")
        self.refused(2, "freeze", MODEL, "--cluster", CPU, "--freeze", "audio")
        broken = self.path("cluster.yaml", "format: tributary.cluster/1\ndevicess: 3\n")
        self.refused(2, "devicess", MODEL, "--cluster", broken)


if __name__ == "__main__":
    unittest.main()
