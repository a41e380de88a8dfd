"""simulate and action_lists of the module against the program and against each other."""

import inspect
import json
import os
import re
import unittest
from pathlib import Path

import tributary
import yaml
from executable import CLUSTER, MODEL, PLAN, ROOT, Beside, profile_of_demo, read_json

WORKLOAD = os.path.join(ROOT, "configs/workloads/experts_16.txt")


class SimulateCase(Beside):
    def compare(self, words, *arguments, **named):
        """The trace and its summary, both as the program gives them."""
        trace = self.path("trace.json")
        theirs = json.loads(self.command("simulate", *words, "--json", "-o", trace))
        ours = tributary.simulate(*arguments, **named)
        self.assertEqual(ours, {"summary": theirs, "trace": read_json(trace)})
        return ours["summary"]

    def same_refusal(self, words, *arguments, **named):
        """The message of the program, with its options renamed to the module's arguments."""
        with self.assertRaises(tributary.Error) as raised:
            tributary.simulate(*arguments, **named)
        theirs = re.sub(r" \[[^ ]*\]\s*$", "", self.complaint("simulate", *words))
        ours = re.sub(r" \[[^ ]*\]\s*$", "", str(raised.exception))
        self.assertEqual(ours, re.sub(r"--([a-z][a-z-]*)", lambda each: each[1].replace("-", "_"), theirs))


class Simulate(SimulateCase):
    def test_files_give_the_answer_of_the_program(self):
        self.compare([PLAN], PLAN)
        self.compare([PLAN, "--steps", 3, "--seed", 5, "--cluster", CLUSTER, "--model", MODEL],
                     PLAN, MODEL, CLUSTER, steps=3, seed=5)

    def test_its_arguments_are_the_options_of_the_program(self):
        arguments = set(inspect.signature(tributary.simulate).parameters)
        self.assertEqual(arguments | {"output", "json"}, self.options_of("simulate") | {"plan", "trace"})

    def test_every_option_does_what_it_does_there(self):
        lengths = [[300, 400, 1], [500, 800, 2], [200, 0, 0]]
        table = self.path("lengths.csv", "".join(",".join(map(str, row)) + "\n" for row in lengths))
        words = [PLAN, "--lengths", table]
        for given in (lengths, table):
            self.compare(words, PLAN, lengths=given)
        plain = tributary.simulate(PLAN, lengths=lengths, trace=False)
        self.assertIsNone(plain["trace"])
        for more, named in [
                (["--unfused-attention"], {"unfused_attention": True}),
                (["--scheduler-ms", 1000], {"scheduler_ms": 1000.0}),
                (["--stragglers", 0.4, "--straggler-factor", 2.5],
                 {"stragglers": 0.4, "straggler_factor": 2.5}),
                (["--anomalies", 0.1, "--anomaly-factor", 3],
                 {"anomalies": 0.1, "anomaly_factor": 3.0}),
                (["--failure-hours", 0.001, "--restart-seconds", 7, "--checkpoint-steps", 3,
                  "--steps", 20],
                 {"failure_hours": 0.001, "restart_seconds": 7.0, "checkpoint_steps": 3,
                  "steps": 20})]:
            with self.subTest(**named):
                self.compare([*words, *more], PLAN, lengths=lengths, **named)

    def flow_plan(self):
        plan = read_json(PLAN)
        plan["model"] = MODEL
        plan["modules"]["vision"].update(placement="flow", train="frozen")
        plan["edges"][0]["via"] = "pool"
        return self.path("flow.json", json.dumps(plan))

    def tp_plan(self):
        """A plan of only the backbone, at tp 2, and its model."""
        plan = read_json(PLAN)
        plan["modules"] = {"backbone": {"ranks": "0-1", "mesh": {"tp": 2}}}
        plan["edges"] = []
        return self.path("tp.json", json.dumps(plan)), self.text_model()

    def test_options_of_some_plans(self):
        flow = self.flow_plan()
        self.compare([flow, "--pool", 2], flow, pool=2)
        plan, model = self.tp_plan()
        path = self.path("model.json", json.dumps(model))
        folder = os.path.join(self.folder, "model")
        os.makedirs(folder)
        os.rename(path, os.path.join(folder, "config.json"))
        whole = self.compare([plan, "--model", folder, "--no-sequence-parallel"], plan, folder,
                             sequence_parallel=False)
        self.assertNotEqual(whole["step_ns"], self.compare([plan, "--model", folder], plan, folder)["step_ns"])

    def test_batches_ahead(self):
        path = self.flow_plan()
        serial = self.compare([path, "--ahead", 0], path, ahead=0)
        self.assertGreater(serial["step_ns"], self.compare([path], path)["step_ns"])

    def test_dictionaries_are_files(self):
        plan = read_json(PLAN)
        plan["model"] = MODEL
        cluster = self.cluster()
        config = read_json(os.path.join(MODEL, "config.json"))
        files = tributary.simulate(PLAN, MODEL, CLUSTER, seed=3)
        for arguments in ((plan, None, cluster), (plan, config, cluster), (plan, MODEL, CLUSTER)):
            found = tributary.simulate(*arguments, seed=3)
            self.assertEqual(found["summary"].pop("plan"), "plan")
            self.assertEqual(found["summary"], {key: value for key, value
                                                in files["summary"].items() if key != "plan"})
            self.assertEqual(found["trace"]["traceEvents"], files["trace"]["traceEvents"])

    def test_a_histogram_and_the_mixture(self):
        histogram = {"format": "tributary.shape_histogram/1", "source": "test",
                     "bins": [{"samples": 2, "tokens": 300, "target_tokens": 10,
                               "images": [[1, 20, 20]]},
                              {"samples": 1, "tokens": 200, "target_tokens": 10}]}
        path = self.path("shapes.json", json.dumps(histogram))
        for given in (histogram, path):
            self.compare([PLAN, "--lengths", path], PLAN, lengths=given)
        alone = read_json(PLAN)
        alone["modules"] = {"backbone": {"ranks": "0-1", "mesh": {"dp_shard": 2}}}
        alone["edges"] = []
        with self.assertRaises(tributary.Error) as raised:  # of images
            tributary.simulate(alone, self.text_model(), mixture=True)
        self.assertEqual(raised.exception.what, "simulate: model encodes no patches")
        self.compare([PLAN, "--mixture"], PLAN, mixture=True)

    @staticmethod
    def text_model():
        return {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 64,
                "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
                "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 32768,
                "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                "tie_word_embeddings": True, "use_sliding_window": False}

    def test_a_plan_that_does_not_fit_is_an_answer(self):
        plan = read_json(PLAN)
        plan["model"] = MODEL
        plan["batch"].update(microbatches=4, capacity_tokens=1 << 26)
        found = tributary.simulate(plan, lengths=[6 * 10**7], trace=False)
        self.assertIn("needs", found["summary"]["out_of_memory"])

    def test_what_is_wrong_is_named(self):
        def refused(where, *arguments, **named):
            with self.assertRaises(tributary.Error) as raised:
                tributary.simulate(*arguments, **named)
            self.assertEqual(raised.exception.where, where)

        plan = read_json(PLAN)
        refused("plan model", {key: value for key, value in plan.items() if key != "model"})
        refused("plan batch.global_samples",
                {**plan, "batch": {**plan["batch"], "global_samples": 0}})
        refused('cluster "nam"', PLAN, None, {**self.cluster(), "nam": 1})
        refused("nowhere.json", "nowhere.json")
        refused("steps", PLAN, steps=0)
        refused("simulate steps", PLAN, steps=1.5)
        refused("seed", PLAN, seed=-1)
        refused("simulate scheduler_ms", PLAN, scheduler_ms=float("nan"))
        refused("simulate stragglers", PLAN, stragglers=float("nan"), straggler_factor=2.0)
        refused("simulate steps", PLAN, steps={1})
        refused("plan modules.vision.mesh.dp_shard", {"modules": {"vision": {"mesh": {"dp_shard": float("inf")}}}})
        refused("plan edges.1", {"edges": [0, {1}]})
        circle = {}
        circle["edges"] = [circle]
        refused("plan", circle)
        refused("stragglers", PLAN, stragglers=2.0, straggler_factor=2.0)
        refused("lengths[1][0]", PLAN, lengths=[[3, 1], ["x", 1]])
        refused("lengths[0]", PLAN, lengths=[[3, 1, 1, 1, 1, 1]])
        refused("plan", 5)
        refused("simulate run", PLAN, run=5)
        refused("trace", PLAN, trace="no")
        refused("model", PLAN, "")
        refused("plan", b"plan.json")
        refused("plan", "\ud800.json")
        refused("simulate threads", PLAN, threads=1.5)

    def test_arguments_that_would_count_for_nothing_are_refused(self):
        for where, other, value in (("straggler_factor", "stragglers", 2.0), ("anomaly_factor", "anomalies", 2.0),
                                    ("stragglers", "straggler_factor", 1.0), ("anomalies", "anomaly_factor", 1.0),
                                    ("restart_seconds", "failure_hours", 2.0),
                                    ("checkpoint_steps", "failure_hours", 2)):
            with self.subTest(where=where):
                with self.assertRaises(tributary.Error) as raised:
                    tributary.simulate(PLAN, **{where: value})
                found = raised.exception
                self.assertEqual((found.where, found.found, found.expected),
                                 (where, f"no {other}", f"{other} beside it"))
                self.assertIn("option would count for nothing", str(found))
                none = 1 if other.endswith("factor") else 0
                tributary.simulate(PLAN, **{where: value, other: none}, trace=False)  # as on the command line
        with self.assertRaises(tributary.Error) as raised:
            tributary.simulate(PLAN, lengths=[300], mixture=True)
        self.assertEqual((raised.exception.where, raised.exception.found), ("mixture", "lengths"))
        flow = self.flow_plan()
        for plan, named, found in ((PLAN, {"pool": 3}, "a plan without a module of placement flow"),
                                   (flow, {"pool": 3, "ahead": 1}, "ahead, which takes whole batches"),
                                   (PLAN, {"sequence_parallel": False}, "a backbone of tp 1")):
            with self.subTest(**named), self.assertRaises(tributary.Error) as raised:
                tributary.simulate(plan, **named)
            self.assertEqual((raised.exception.where, raised.exception.found), (next(iter(named)), found))

    @staticmethod
    def cluster():
        """The cluster file; PyYAML takes 1e-05, which has no point, for a text."""
        with open(CLUSTER) as file:
            text = re.sub(r"(?<![\d.])(\d+)(e-\d+)\b", r"\1.0\2", file.read())
        return yaml.safe_load(text)


class SimulateWhatWasMeasured(SimulateCase):
    """A profile, a run, a cluster that says its cores."""

    def setUp(self):
        super().setUp()
        plan = read_json(PLAN)
        plan["model"] = MODEL
        plan["modules"]["vision"] = {"placement": "inline"}
        plan["modules"]["backbone"] = {"ranks": "0-1", "mesh": {"dp_shard": 2}}
        plan["batch"].update(global_samples=8, microbatches=2)
        self.plan = self.path("plan.json", json.dumps(plan))
        self.profile = self.path("profile.json", json.dumps(profile_of_demo()))

    def run_of(self, replicas, threads=1):
        folder = self.path("run")
        os.makedirs(folder, exist_ok=True)
        for replica in range(replicas):
            name = f"run/shapes-{replica}.jsonl" if replica else "run/shapes.jsonl"
            lines = [{"step": step + 1, "microbatches": [[500 + 10 * step, 130000, 2, 200, 20000, 2 + replica]] * 2}
                     for step in range(5)]
            self.path(name, "".join(json.dumps(line) + "\n" for line in lines))
        self.path("run/environment.json", json.dumps({"threads": threads}))
        return folder

    def test_a_profile_gives_the_answer_of_the_program(self):
        lengths = [[300, 200, 1], [500, 300, 2]]
        table = self.path("lengths.csv", "300,200,1\n500,300,2\n")
        words = [self.plan, "--lengths", table, "--profile", self.profile]
        found = self.compare(words, self.plan, lengths=lengths, profile=self.profile)
        self.assertNotEqual(found["step_ns"], tributary.simulate(self.plan, lengths=lengths)["summary"]["step_ns"])
        self.compare([*words, "--threads", 1], self.plan, lengths=lengths, profile=read_json(self.profile), threads=1)
        self.compare([*words, "--cluster", CLUSTER], self.plan, None, CLUSTER, lengths=lengths, profile=self.profile)
        self.same_refusal([*words, "--threads", 2], self.plan, lengths=lengths, profile=self.profile, threads=2)

    def test_a_run_gives_the_answer_of_the_program(self):
        run = self.run_of(replicas=2)
        for words, named, steps in ([], {}, 5), (["--skip", 2], {"skip": 2}, 3):
            found = self.compare([self.plan, "--profile", self.profile, "--run", run, *words], self.plan,
                                 profile=self.profile, run=run, **named)
            self.assertEqual(found["steps"], steps)
            self.assertEqual(found["samples"], "microbatches of the run")
        for words, named in ((["--steps", 2], {"steps": 2}), (["--mixture"], {"mixture": True}),
                             (["--skip", -1], {"skip": -1}), (["--skip", 9], {"skip": 9})):
            with self.subTest(**named):
                self.same_refusal([self.plan, "--run", run, *words], self.plan, run=run, **named)
        self.same_refusal([self.plan, "--skip", 1], self.plan, skip=1)
        self.same_refusal([self.plan, "--run", self.path("none")], self.plan, run=self.path("none"))
        run = self.run_of(replicas=2, threads="one")
        self.same_refusal([self.plan, "--run", run], self.plan, run=run)

    def test_threads_count_where_a_cluster_says_its_cores(self):
        with open(os.path.join(ROOT, "configs/clusters/a100_8.yaml")) as file:
            cluster = self.path("cores.yaml", file.read() + "cores: 2\n")
        steps = [self.compare([self.plan, "--cluster", cluster, "--threads", threads], self.plan, None, cluster,
                              threads=threads)["step_ns"] for threads in (1, 2)]
        self.assertLess(*steps)
        self.same_refusal([self.plan, "--threads", 3], self.plan, threads=3)
        self.same_refusal([self.plan, "--profile", self.profile, "--threads", -1], self.plan, profile=self.profile,
                          threads=-1)

    def test_a_profile_of_another_model_is_refused(self):
        profile = {**profile_of_demo(), "model": "other 0123456789abcdef"}
        path = self.path("other.json", json.dumps(profile))
        self.same_refusal([self.plan, "--profile", path], self.plan, profile=path)
        with self.assertRaises(tributary.Error) as raised:
            tributary.plan(MODEL, profile=path)
        self.assertEqual((raised.exception.what, raised.exception.where),
                         ("app: profile is of another model", f"{path} model"))


class SimulateWorkload(SimulateCase):
    def test_a_workload_gives_the_answer_of_the_program(self):
        self.compare(["--workload", WORKLOAD], workload=WORKLOAD)
        words = ["--workload", WORKLOAD, "--cluster", CLUSTER, "--steps", 3, "--seed", 5, "--scheduler-ms", 9,
                 "--stragglers", 0.5, "--straggler-factor", 2]
        self.compare(words, cluster=CLUSTER, workload=Path(WORKLOAD), steps=3, seed=5, scheduler_ms=9.0,
                     stragglers=0.5, straggler_factor=2.0)

    def test_what_a_workload_says_itself_is_refused(self):
        for where, named in (("plan", {"plan": PLAN}), ("model", {"model": MODEL}), ("profile", {"profile": {}}),
                             ("lengths", {"lengths": [3]}), ("mixture", {"mixture": True}), ("run", {"run": "here"}),
                             ("ahead", {"ahead": -1}), ("sequence_parallel", {"sequence_parallel": False})):
            with self.subTest(**named), self.assertRaises(tributary.Error) as raised:
                tributary.simulate(workload=WORKLOAD, **named)
            self.assertEqual((raised.exception.where, raised.exception.what),
                             (where, "app: option would count for nothing"))
        self.same_refusal(["--workload", WORKLOAD, "--pool", 2], workload=WORKLOAD, pool=2)
        self.same_refusal(["--workload", WORKLOAD, "--threads", 2], workload=WORKLOAD, threads=2)
        self.same_refusal(["--workload", self.path("none")], workload=self.path("none"))
        with self.assertRaises(tributary.Error) as raised:
            tributary.simulate()
        self.assertEqual((raised.exception.what, raised.exception.expected),
                         ("app: nothing to simulate", "plan or workload"))


class ActionLists(Beside):
    def test_lists_are_those_that_are_simulated(self):
        lanes = tributary.action_lists(PLAN)
        self.assertEqual(lanes, tributary.action_lists(read_json(PLAN)))
        self.assertEqual(sorted(rank for lane in lanes for rank in lane["ranks"]), list(range(6)))
        trace = tributary.simulate(PLAN)["trace"]
        self.assertEqual([lane["name"] for lane in lanes],
                         [lane["name"] for lane in trace["summary"]["lanes"]])
        for number, lane in enumerate(lanes):
            ran = [event["name"] for event in trace["traceEvents"]
                   if event["ph"] == "X" and event["pid"] == number and event["tid"] == 0]
            listed = [f"{action['op']}{action['chunk']}.{action['microbatch']}"
                      for action in lane["actions"] if action["op"] in ("F", "B", "W", "BW")]
            self.assertEqual([name for name in ran if name in set(listed)], listed)
            self.assertEqual(lane["actions"][-1]["op"], "OPT")

    def test_backbone_stages_run_1f1b(self):
        first, last = [lane for lane in tributary.action_lists(PLAN)
                       if lane["module"] == "backbone" and lane["replica"] == 0]
        passes = [[f"{action['op']}{action['microbatch']}" for action in lane["actions"]
                   if action["op"] in ("F", "BW")] for lane in (first, last)]
        self.assertEqual(passes[1], [each for i in range(8) for each in (f"F{i}", f"BW{i}")])
        self.assertEqual(passes[0][:5], ["F0", "F1", "BW0", "F2", "BW1"])
        self.assertEqual((first["in_flight"], last["in_flight"]), (2, 1))

    def test_every_send_has_its_receive(self):
        lanes = tributary.action_lists(PLAN)
        ends = {"SF": "RF", "SB": "RB"}
        for number, lane in enumerate(lanes):
            for action in lane["actions"]:
                if action["op"] in ends:
                    other = [each for each in lanes[action["peer"]]["actions"]
                             if (each["op"], each["microbatch"], each.get("peer")) ==
                             (ends[action["op"]], action["microbatch"], number)]
                    self.assertEqual(len(other), 1)

    def test_what_has_no_lists_is_named(self):
        plan = read_json(PLAN)
        plan["modules"]["vision"].update(placement="sliced", share_percent=50)
        with self.assertRaises(tributary.Error) as raised:
            tributary.action_lists(plan)
        self.assertEqual(raised.exception.where, "modules.vision.placement")


if __name__ == "__main__":
    unittest.main()
