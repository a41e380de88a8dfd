"""Runs `tributary simulate` and draws its trace, as a user does: answers, exit codes, words.

Usage: simulate_test.py TRIBUTARY ROOT
"""

import json
import os
import subprocess
import unittest

from demo_profile import profile_of_demo
from verb_case import ROOT, TRIBUTARY, VerbCase

PLAN = os.path.join(ROOT, "configs/plans/demo_pipeline.json")


class SimulateCase(VerbCase):
    def answer(self, *words):
        code, out, err = self.run_verb("simulate", *words, "--json")
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def refused(self, words, *arguments):
        code, out, err = self.run_verb("simulate", *arguments)
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(words, err)


class Simulate(SimulateCase):
    def changed_plan(self, change):
        with open(PLAN) as file:
            plan = json.load(file)
        plan["model"] = os.path.join(ROOT, "configs/demo_model")
        change(plan)
        return self.path("plan.json", json.dumps(plan))

    def test_a_step_is_between_its_bound_and_the_sum_of_its_parts(self):
        found = self.answer(PLAN)
        self.assertGreater(found["lower_bound_ns"], 0)
        self.assertLessEqual(found["lower_bound_ns"], found["step_ns"])
        self.assertEqual(sum(found["critical_path_ns"].values()), found["step_ns"])
        self.assertEqual(found["ranks"], 6)
        self.assertEqual(set(found["modules"]), {"vision", "backbone"})
        for module in found["modules"].values():
            spent = sum(module[key] for key in module if key.endswith("_rank_ns"))
            self.assertAlmostEqual(spent, module["ranks"] * found["step_ns"])

    @staticmethod
    def colocate(plan):
        vision = plan["modules"]["vision"]
        vision.update(placement="colocated", ranks="2-5", mesh={"dp_shard": 4})
        vision.pop("stages", None)

    def test_an_encoder_on_the_ranks_of_the_backbone(self):
        apart = self.answer(PLAN, "--lengths", self.path("lengths.csv", "300,400,1\n"))
        found = self.answer(self.changed_plan(self.colocate), "--lengths",
                            self.path("lengths.csv", "300,400,1\n"))
        self.assertEqual((apart["ranks"], found["ranks"]), (6, 4))
        self.assertGreater(found["step_ns"], found["lower_bound_ns"] - 1)
        self.assertEqual(sum(found["critical_path_ns"].values()), found["step_ns"])
        for module in found["modules"].values():
            self.assertEqual(module["ranks"], 4)
            spent = sum(module[key] for key in module if key.endswith("_rank_ns"))
            self.assertAlmostEqual(spent, 4 * found["step_ns"])
        # A rank works for one module at a time.
        busy = sum(module["busy_rank_ns"] for module in found["modules"].values())
        self.assertLess(busy, 4 * found["step_ns"])

    def test_the_same_seed_gives_the_same_steps(self):
        words = [PLAN, "--steps", "4", "--seed", "5", "--stragglers", "0.3",
                 "--straggler-factor", "2"]
        first = self.answer(*words)
        self.assertEqual(first, self.answer(*words))
        words[4] = "6"
        self.assertNotEqual(first["distribution_ns"], self.answer(*words)["distribution_ns"])

    def test_without_a_cluster_it_is_the_fitted_one_of_8_a100(self):
        default, named = (self.answer(PLAN, "--steps", "3", *words) for words in (
            [], ["--cluster", os.path.join(ROOT, "configs/clusters/a100_8.yaml")]))
        self.assertEqual(default, named)
        self.assertEqual(default["cluster"], "nodes of 8 A100-80 SXM")

    def test_recorded_lengths_and_histograms(self):
        lengths = self.path("lengths.csv", "300,400,1\n500,800,2\n200,0,0\n")
        histogram = self.path("shapes.json", json.dumps({
            "format": "tributary.shape_histogram/1", "source": "test",
            "bins": [{"samples": 2, "tokens": 300, "target_tokens": 10, "images": [[1, 20, 20]]},
                     {"samples": 1, "tokens": 200, "target_tokens": 10}]}))
        steps = [self.answer(PLAN, "--lengths", path)["step_ns"] for path in (lengths, histogram)]
        mixture = self.answer(PLAN)["step_ns"]
        for step in steps:
            self.assertGreater(step, 0)
            self.assertLess(step, mixture)  # samples of the mixture are ten times as long

    def test_sizes_that_no_module_encodes_are_refused(self):
        os.mkdir(self.path("model"))
        self.path("model/config.json", json.dumps({
            "model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4,
            "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 256}))
        plan = self.path("text.json", json.dumps({
            "format": "tributary.plan/1", "model": "model", "modules": {"backbone": {"ranks": "0"}},
            "batch": {"global_samples": 2, "microbatches": 1, "capacity_tokens": 1000}}))
        self.answer(plan, "--lengths", self.path("text.csv", "300,0,0\n"))
        self.refused("model encodes no patches; where: sizes of samples; found: 400 patches",
                     plan, "--lengths", self.path("images.csv", "300,400,1\n"))
        self.refused("does not encode sound beside images",
                     plan, "--lengths", self.path("sound.csv", "300,0,0,70,1\n"))

    def flow_plan(self):
        def encodes_ahead(plan):
            plan["modules"]["vision"].update(placement="flow", train="frozen")
            plan["edges"][0]["via"] = "pool"
        return self.changed_plan(encodes_ahead)

    def test_batches_ahead_of_frozen_encoders(self):
        plan = self.flow_plan()
        serial, double_buffered, flow = (
            self.answer(plan, "--steps", "3", *words)["distribution_ns"]["mean"]
            for words in (["--ahead", "0"], ["--ahead", "1"], []))
        self.assertGreater(serial, double_buffered)
        self.assertGreaterEqual(double_buffered, flow)
        self.assertEqual(self.answer(plan, "--steps", "3", "--ahead", "-1")["distribution_ns"]["mean"],
                         flow)
        self.refused("no module of the plan can work on later batches; where: --ahead; found: 0",
                     PLAN, "--ahead", "0")
        self.refused("where: --ahead; found: -2; expected: -1 to 1000 batches",
                     plan, "--ahead", "-2")

    def test_it_says_when_encoders_that_run_ahead_have_not_settled(self):
        plan = self.flow_plan()
        for pool, unsettled in (("1000000", True), ("2", False)):
            trace = self.path("trace.json")
            code, out, err = self.run_verb("simulate", plan, "--pool", pool, "-o", trace)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual("had not settled" in out, unsettled)
            self.assertIs(self.answer(plan, "--pool", pool)["unsettled"], unsettled)
            with open(trace) as file:
                self.assertIs(json.load(file)["summary"]["unsettled"], unsettled)

    def test_the_trace_is_drawn(self):
        trace = self.path("trace.json")
        code, out, err = self.run_verb("simulate", PLAN, "-o", trace)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("critical path:", out)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        self.assertTrue(any(event["ph"] == "X" for event in events))
        code, out, err = self.run_verb("report", trace)
        self.assertEqual((code, err), (0, ""))
        page = self.path("trace.html")
        self.assertEqual(out.strip(), page)
        with open(page) as file:
            text = file.read()
        for part in ("Timeline", "Use of time", "Memory", "backbone replica 0 stage 1", "k-forward"):
            self.assertIn(part, text)
        self.assertNotIn("http", text.replace("http-equiv", "").replace("http://www.w3.org", ""))

    def test_it_names_the_tables_of_a_profile_that_are_too_small(self):
        def on_two_ranks(plan):
            backbone = plan["modules"]["backbone"]
            backbone.update(ranks="0-1", mesh={"dp_shard": 2}, stages=[["embed", "0-2", "head"]])
            plan["modules"]["vision"] = {"placement": "inline"}
            plan["batch"].update(global_samples=4, microbatches=2, capacity_tokens=1024)
        plan = self.changed_plan(on_two_ranks)
        whole = profile_of_demo()
        for each in whole["collectives"]:  # the gradients of a layer are larger
            each["points"] = [*each["points"], {"ranks": 2, "bytes": 1 << 30, "ns": 1 << 31}]
        cut = whole | {key: [each if each.get("op") == "send" else each | {"points": each["points"][:1]}
                             for each in whole[key]] for key in ("layers", "collectives")}
        lengths = self.path("lengths.csv", "300,200,1\n500,300,2\n")
        words = [plan, "--threads", "1", "--lengths", lengths, "--profile"]
        for profile, tables in ((whole, 0), (cut, 9)):
            path = self.path("profile.json", json.dumps(profile))
            found = self.answer(*words, path)
            self.assertEqual(found["outside_grid"], tables > 0)
            self.assertNotIn("mfu", found)  # the profile does not say what the machine can do
            self.assertEqual(len(found["beyond_grid"]), tables, found["beyond_grid"])
            trace = self.path("trace.json")
            code, out, err = self.run_verb("simulate", *words, path, "-o", trace)
            self.assertEqual((code, err), (0, ""))
            page = self.path("trace.html")
            code, _, err = self.run_verb("report", trace, "-o", page)
            self.assertEqual((code, err), (0, ""))
            with open(page) as file:
                page = file.read()
            for each in found["beyond_grid"]:
                self.assertGreater(each["asked"], each["measured"])
                words_of_it = (f"{each['table']} at {each['asked']} {each['unit']} "
                               f"(measured to {each['measured']})")
                self.assertIn(words_of_it, out)
                self.assertIn(words_of_it, page)
            self.assertEqual("beyond what was measured" in out, tables > 0)
            self.assertEqual("Beyond what was measured" in page, tables > 0)

    def test_a_plan_that_does_not_fit_is_an_answer(self):
        plan = self.changed_plan(lambda plan: plan["batch"].update(
            microbatches=4, capacity_tokens=1 << 26))
        found = self.answer(plan, "--lengths", self.path("long.csv", "60000000,0,0\n"))
        self.assertIn("needs", found["out_of_memory"])
        self.assertIn("activations", found["out_of_memory"])

    def test_says_before_it_begins_that_much_takes_long(self):
        def enlarge(plan):
            plan["batch"].update(global_samples=64000, balance="lpt_2d")
        words = ["simulate", self.changed_plan(enlarge), "--mixture"]
        with subprocess.Popen([TRIBUTARY, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
            line = run.stderr.readline()
            run.kill()
        self.assertIn("simulate: 1 step of 64.0 k samples each, to be dealt and run: this may take minutes", line)

    def test_options_that_would_count_for_nothing_are_refused(self):
        lengths = self.path("lengths.csv", "300,400,1\n")
        for words, other in (
            (["--skip", "3"], "--run"),
            (["--straggler-factor", "2"], "--stragglers"), (["--anomaly-factor", "2"], "--anomalies"),
            (["--stragglers", "0.5"], "--straggler-factor"), (["--anomalies", "0.5"], "--anomaly-factor"),
            (["--restart-seconds", "2"], "--failure-hours"),
            (["--checkpoint-steps", "2"], "--failure-hours")):
            self.refused(f"option would count for nothing; where: {words[0]}; found: no {other}; "
                         f"expected: {other} beside it; fix: leave it out", PLAN, *words)
        for words in (["--steps", "2"], ["--lengths", lengths], ["--mixture"]):
            self.refused(f"where: {words[0]}; found: --run", PLAN, "--run", self.folder, *words)
        self.refused("option would count for nothing; where: --pool; found: a plan without a module of placement "
                     "flow; expected: a module of placement flow that gives single microbatches", PLAN, "--pool", "3")
        self.refused("where: --pool; found: --ahead, which takes whole batches",
                     self.flow_plan(), "--pool", "3", "--ahead", "1")
        self.refused("option would count for nothing; where: --no-sequence-parallel; found: a backbone of tp 1; "
                     "expected: tp above 1", PLAN, "--no-sequence-parallel")
        self.refused("where: --mixture; found: --lengths", PLAN, "--lengths", lengths, "--mixture")
        self.refused("where: --threads; found: a cluster that says no cores", PLAN, "--threads", "3")
        for option in ("--profile", "--cluster", "--lengths", "--run", "--workload", "--reduce-dtype", "-o"):
            self.refused("an empty text; leave the option out for its default", PLAN, option, "")
        for value in ("9999999999999999999", "-9999999999999999999", "0xffffffffffffffffffff"):
            self.refused("number out of range: " + value, PLAN, f"--seed={value}")

    def test_the_model_of_a_plan_that_is_not_there_is_named(self):
        plan = self.changed_plan(lambda plan: plan.update(model="../nowhere"))
        place = os.path.join(os.path.dirname(self.folder), "nowhere")
        self.refused(f"model of the plan is not there; where: {plan} model; found: ../nowhere; expected: a directory with "
                     f"a config.json, or a module graph, at {place}; fix: correct the key, or give --model", plan)

    def test_an_output_is_checked_first_and_stays_what_it_is(self):
        for output, found in ((self.folder, "a directory; fix: name a file in it"),
                              (self.path("none/a"), "No such file or directory; fix: correct the path")):
            code, out, err = self.run_verb("simulate", "nowhere.json", "-o", output)
            self.assertEqual((code, out), (5, ""))
            self.assertIn(f"app: file cannot be written; where: {output}; found: {found}", err)
        link = self.path("link")
        os.symlink("trace.json", link)
        self.answer(PLAN, "-o", link)
        self.assertTrue(os.path.islink(link))
        with open(self.path("trace.json")) as file:
            self.assertEqual(json.load(file)["format"], "tributary.trace/1")

    def test_threads_count_where_a_cluster_says_its_cores(self):
        with open(os.path.join(ROOT, "configs/clusters/a100_8.yaml")) as file:
            cluster = self.path("cores.yaml", file.read() + "cores: 2\n")
        steps = [self.answer(PLAN, "--cluster", cluster, "--threads", each)["step_ns"] for each in ("1", "2")]
        self.assertLess(steps[0], steps[1])

    def test_what_is_wrong_is_named(self):
        def without_model(plan):
            del plan["model"]
        self.refused("plan.json model; found: no such key", self.changed_plan(without_model))
        self.refused("where: batch.capacity_tokens; found: 8192 tokens; expected: at least the 8193",
                     PLAN, "--lengths", self.path("long.csv", "8193\n"))
        self.refused("does not encode sound beside images; where: sizes of samples; found: 5",
                     PLAN, "--lengths", self.path("sound.csv", "30,4,1,5,1\n"))
        def sliced(plan):
            plan["modules"]["vision"].update(placement="sliced", share_percent=50)
        self.refused("modules.vision.placement", self.changed_plan(sliced))
        def put_off(plan):
            self.colocate(plan)
            plan["modules"]["vision"].update(mesh={"dp_replicate": 4}, passes=2, turns=True)
            plan["modules"]["backbone"].update(schedule="zb_h1")
        self.refused("puts weight gradients off beside a module that takes turns; where: backbone",
                     self.changed_plan(put_off))
        def wrong_layers(plan):
            plan["modules"]["backbone"]["stages"] = [["embed", "0-1"], ["2-3", "head"]]
        self.refused("modules.backbone.stages", self.changed_plan(wrong_layers))
        def circle(plan):
            plan["edges"].append({"from": "backbone", "to": "vision"})
        self.refused("edges go round in a circle", self.changed_plan(circle))
        def text_alone(plan):
            plan["modules"] = {"backbone": plan["modules"]["backbone"]}
            plan["edges"] = []
        self.refused("module of the model has no place; where: modules.projector",
                     self.changed_plan(text_alone))
        def offloads(plan):
            plan["modules"]["backbone"]["offload"] = "optimizer"
        self.refused("modules.backbone.offload", self.changed_plan(offloads))
        self.refused('where: --reduce-dtype; found: "half"', PLAN, "--reduce-dtype", "half")
        self.refused("where: --pool; found: 0", PLAN, "--pool", "0")
        beside = {"--stragglers": ["--straggler-factor", "2"], "--anomalies": ["--anomaly-factor", "2"],
                  "--straggler-factor": ["--stragglers", "0.5"], "--anomaly-factor": ["--anomalies", "0.5"],
                  "--restart-seconds": ["--failure-hours", "1"],
                  "--checkpoint-steps": ["--failure-hours", "1"]}
        for option, value, found, expected in (
            ("--stragglers", "nan", "nan", "0 to 1"),
            ("--straggler-factor", "inf", "inf", "1 to 1000"),
            ("--anomalies", "-0.1", "-0.1", "0 to 1"),
            ("--anomaly-factor", "1e300", "1e+300", "1 to 1000"),
            ("--failure-hours", "-1", "-1", "0 to 1e+09"),
            ("--restart-seconds", "nan", "nan", "0 to 1e+09"),
            ("--checkpoint-steps", "0", "0", "1 to 1000000000"),
        ):
            words = f"where: {option}; found: {found}; expected: {expected}"
            self.refused(words, PLAN, f"{option}={value}", *beside.get(option, []))
        self.refused("where: --steps; found: 0; expected: 1 to 1000000", PLAN, "--steps", "0")
        self.refused("lengths.csv:2", PLAN, "--lengths", self.path("lengths.csv", "3,1\nx,1\n"))


WORKLOAD = os.path.join(ROOT, "configs/workloads/experts_16.txt")
CLUSTER = os.path.join(ROOT, "configs/clusters/h100_8.yaml")


class SimulateWorkload(SimulateCase):
    def workload(self, old="", new=""):
        with open(WORKLOAD) as file:
            text = file.read()
        self.assertIn(old, text)
        return self.path("workload.txt", text.replace(old, new, 1))

    def test_a_step_is_at_least_the_work_of_a_device(self):
        with open(WORKLOAD) as file:
            rows = [line.split() for line in file.readlines()[2:]]
        work = sum(int(row[column]) for row in rows for column in (2, 5, 8))
        found = self.answer("--workload", WORKLOAD, "--cluster", CLUSTER)
        self.assertGreaterEqual(found["lower_bound_ns"], work)
        self.assertLessEqual(found["lower_bound_ns"], found["step_ns"])
        self.assertLess(found["step_ns"], 2 * work)
        self.assertEqual(sum(found["critical_path_ns"].values()), found["step_ns"])
        self.assertEqual(found["ranks"], 16)
        self.assertEqual(found, self.answer("--workload", WORKLOAD, "--cluster", CLUSTER))

    def test_reductions_are_in_the_lower_bound(self):
        # With a million ranks the reductions take 20 times as long as the passes.
        found = self.answer("--workload", self.workload("all_gpus: 16", "all_gpus: 1048576"),
                            "--cluster", CLUSTER)
        self.assertEqual(found["ranks"], 1 << 20)
        self.assertLessEqual(found["lower_bound_ns"], found["step_ns"])
        self.assertLess(found["step_ns"], 1.01 * found["lower_bound_ns"])

    def test_what_the_file_does_not_say_is_not_answered(self):
        found = self.answer("--workload", WORKLOAD)
        self.assertEqual(found["unknown"], ["memory", "mfu"])
        for key in ("mfu", "mfu_formula", "out_of_memory"):
            self.assertNotIn(key, found)
        self.assertNotIn("peak_bytes", found["modules"]["backbone"])
        code, out, err = self.run_verb("simulate", "--workload", WORKLOAD)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("tp 2, ep 2, dp 4, pp 2 of 2 chunks; 4 microbatches of 7 rows, 6 rows once a "
                      "step", out)
        self.assertIn("mfu unknown", out)
        self.assertIn("peak unknown", out)

    def test_more_bytes_fewer_chunks_and_slow_ranks_cost(self):
        step = self.answer("--workload", WORKLOAD)["step_ns"]
        gathered = self.workload("268435456", "2684354560")
        self.assertGreater(self.answer("--workload", gathered)["step_ns"], step)
        one_chunk = self.workload("vpp: 2", "vpp: 1")
        self.assertGreater(self.answer("--workload", one_chunk)["step_ns"], step)
        slow = self.answer("--workload", WORKLOAD, "--stragglers", "1", "--straggler-factor", "2")["step_ns"]
        self.assertGreater(slow, 1.5 * step)

    def test_the_trace_is_drawn_without_memory(self):
        trace = self.path("trace.json")
        code, out, err = self.run_verb("simulate", "--workload", WORKLOAD, "-o", trace)
        self.assertEqual((code, err), (0, ""))
        code, out, err = self.run_verb("report", trace)
        self.assertEqual((code, err), (0, ""))
        with open(self.path("trace.html")) as file:
            text = file.read()
        for part in ("Timeline", "Use of time", "unknown", "backbone replica 0 stage 1"):
            self.assertIn(part, text)
        self.assertNotIn("<h2>Memory</h2>", text)

    def test_what_is_wrong_is_named(self):
        def workload_refused(words, *change):
            path = self.workload(*change)
            self.refused(words, "--workload", path)
        workload_refused("do not multiply to its ranks; where: " + self.path("workload.txt:1:96"),
                         "all_gpus: 16", "all_gpus: 18")
        workload_refused("workload.txt:7:20; found: \"-5\"", "180000", "-5")
        workload_refused("workload.txt:3:36; found: \"GATHER\"", "ALLGATHER", "GATHER")
        workload_refused("found: 34 rows to the end; expected: 35, as line 2 says", "\n34\n",
                         "\n35\n")
        self.refused("workload cannot be read; where: " + self.path("none.txt"), "--workload",
                     self.path("none.txt"))
        self.refused("nothing to simulate")
        for option, value in (("--model", ROOT), ("--lengths", "x.csv"), ("--ahead", "1")):
            self.refused(f"option would count for nothing; where: {option}; found: --workload", "--workload",
                         WORKLOAD, option, value)
        self.refused("option would count for nothing; where: PLAN.json; found: --workload", PLAN, "--workload",
                     WORKLOAD)


if __name__ == "__main__":
    unittest.main()
