"""Trains the plans that `tributary plan` writes: what the planner recommends, the trainer runs.

Usage: trained_plans_test.py TRIBUTARY
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import families  # noqa: E402
import run_case  # noqa: E402
import tiny_run  # noqa: E402

TRIBUTARY = os.path.abspath(sys.argv.pop(1))
CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "configs/clusters/cpu_2.yaml"
RANKS = 4
# What `plan` is asked, and how the vision tower must lie; none: anyhow.
ASKED = {
    "search": ((), None),
    "runnable": (("--runnable",), None),
    "stages": (("--axes", "pp", "--runnable"), None),
    "tensors": (("--axes", "tp,dp", "--schedules", "1f1b"), None),
    "frozen": (("--freeze", "vision", "--schedules", "zb_h1"), None),
    "dflop": (("--method", "dflop"), "separate"),
    "disttrain": (("--method", "disttrain_microbatch"), "separate"),
    "first_stage": (("--method", "megatron_first_stage"), "inline"),
    "loongforge_1": (("--method", "loongforge_1"), "inline"),
    "loongforge_2": (("--method", "loongforge_2"), None),
    "loongforge_3": (("--method", "loongforge_3"), "colocated"),
    "loongforge_3_frozen": (("--method", "loongforge_3", "--freeze", "vision"), "colocated"),
    "flowtrain": (("--method", "flowtrain", "--freeze", "vision"), "flow"),
}


def lanes_of(trace):
    return [lane["name"] for lane in json.loads(trace.read_text())["summary"]["lanes"]]


class TrainedPlans(run_case.Workplace):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = tiny_run.write_config(
            cls.shared / "run.yaml", cls.shared, run={"steps": 3}, checkpoint={"every": 0},
            schedule={"warmup_steps": 1}, batch={"global_samples": 8}, data={"max_tokens": 150})
        cls.shapes = cls.shared / "shapes.json"
        cls.done("data", "inspect", cls.config, "--histogram", cls.shapes)
        cls.alone = {}
        for freeze in ("", "vision"):
            run = cls.shared / f"alone-{freeze}"
            cls.done("train", cls.config, f"run.dir={run}", f"model.freeze=[{freeze}]")
            cls.alone[freeze] = cls.losses(run)

    @staticmethod
    def run_verb(*words):
        return subprocess.run([TRIBUTARY, *map(str, words)], capture_output=True, text=True,
                              env=tiny_run.environment(), timeout=300)

    @classmethod
    def done(cls, *words):
        result = cls.run_verb(*words)
        assert result.returncode == 0, f"{words}: {result.stderr}"
        return result.stdout

    @staticmethod
    def losses(run):
        return [line["loss"] for line in tiny_run.read_lines(run / "metrics.jsonl")]

    def plan(self, name, *words):
        path = self.shared / f"{name}.json"
        answer = self.done("plan", self.config, "--cluster", CLUSTER, "--lengths", self.shapes,
                           "--batches", "2", *words, "-o", path)
        self.assertNotIn("for simulation", answer)
        self.assertNotIn("refuses", answer)
        return path

    def ranks_of(self, path):
        ranks = [module.get("ranks", "0") for module in json.loads(path.read_text())["modules"].values()]
        return 1 + max(int(rank) for each in ranks for rank in each.replace("-", ",").split(","))

    def encoders_of(self, path):
        """Processes beside the ranks."""
        degrees = [module.get("mesh", {}) for module in json.loads(path.read_text())["modules"].values()
                   if module["placement"] == "flow"]
        return sum(math.prod(mesh.values()) for mesh in degrees)

    def launch(self, plan, ranks, run, encoders=0):
        return self.run_verb("launch", "-n", ranks, "--encoders", encoders, "--", "train", self.config, f"run.dir={run}",
                             f"parallel.plan={plan}")

    def test_a_plan_trains_as_one_process_does(self):
        placements = set()
        for name, (words, placement) in ASKED.items():
            with self.subTest(name):
                plan = self.plan(name, *words)
                found = json.loads(plan.read_text())["modules"]["vision"]["placement"]
                placements.add(found)
                self.assertIn(found, {placement or found})
                run = self.shared / f"run-{name}"
                encoders = self.encoders_of(plan)
                trained = self.launch(plan, self.ranks_of(plan) - encoders, run, encoders)
                self.assertEqual(trained.returncode, 0, trained.stderr)
                expected = self.alone["vision" if "--freeze" in words else ""]
                self.assertEqual(len(expected), 3)
                for ours, theirs in zip(self.losses(run), expected, strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)
                if encoders == 0:  # those beside the run are on no trace of it
                    self.expect_lanes_of_the_simulation(plan, run)
        self.assertEqual(placements, {"inline", "separate", "colocated", "flow"})

    def expect_lanes_of_the_simulation(self, plan, run):
        """A measured step and a simulated one name the same lanes; the report draws both."""
        for name, words in (("plan", (plan, "--lengths", self.shapes)), ("ran", (run / "plan.json", "--run", run))):
            trace = self.shared / f"{name}.trace.json"
            self.done("simulate", *words, "--cluster", CLUSTER, "--model", self.shared / "model", "-o", trace)
            self.assertEqual(lanes_of(run / "trace.json"), lanes_of(trace))
            self.done("report", run, "--predicted", trace)

    def test_each_of_two_towers_trains_where_the_plan_says(self):
        """The search gives each tower of Qwen2.5-Omni a rank of its own here; both may also be beside
        the backbone."""
        model = self.shared / "omni"
        shutil.copytree(self.shared / "model", model)
        families.write_family(model, "qwen2_5_omni_thinker")
        families.write_sounds(self.shared / "data")
        sources = [{"name": name, "path": str(self.shared / f"data/{name}.train.jsonl"),
                    "held_out": str(self.shared / f"data/{name}.held_out.jsonl")}
                   for name in ("colours", "sounds")]
        config = tiny_run.write_config(
            self.shared / "omni.yaml", self.shared, run={"steps": 3}, model={"path": str(model)},
            checkpoint={"every": 0}, data={"sources": sources}, batch={"global_samples": 8})
        plan = self.shared / "omni.json"
        gpus = CLUSTER.with_name("a100_8.yaml")
        self.done("plan", config, "--cluster", gpus, "--devices", RANKS, "--batches", "2", "-o", plan)
        modules = json.loads(plan.read_text())["modules"]
        self.assertEqual([modules[name]["placement"] for name in ("vision", "audio")],
                         ["separate", "separate"])
        alone = self.shared / "omni-alone"
        self.done("train", config, f"run.dir={alone}")
        beside = ("parallel.pp=2", "parallel.vision.placement=colocated", "parallel.vision.tp=2",
                  "parallel.audio.placement=colocated", "parallel.audio.passes=2")
        for name, ranks, words in (("apart", RANKS, ("--plan", plan)), ("beside", 2, beside)):
            run = self.shared / f"omni-{name}"
            self.done("launch", "-n", ranks, "--", "train", config, *words, f"run.dir={run}")
            for ours, theirs in zip(self.losses(run), self.losses(alone), strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)
            found = json.loads(self.done("simulate", run / "plan.json", "--run", run, "--cluster", gpus,
                                         "--model", model, "--json"))
            self.assertEqual(found["ranks"], ranks)
            self.assertGreaterEqual(found["step_ns"], found["lower_bound_ns"])

    def test_an_idle_rank_of_a_pack_sends_the_gradients_of_a_frozen_projector(self):
        """Two ranks share packs of one picture, so one of them has no features."""
        config = ("parallel.ulysses=2", "parallel.vision.placement=separate", "parallel.vision.dp_shard=2",
                  "parallel.step_deadline_seconds=60", "model.freeze=[projector]", "batch.balance=lpt",
                  "batch.packing=level", "batch.microbatches=6")
        runs = self.shared / "idle-alone", self.shared / "idle"
        self.done("train", self.config, f"run.dir={runs[0]}", *config[-4:])
        self.done("launch", "-n", "4", "--", "train", self.config, f"run.dir={runs[1]}", *config)
        for ours, theirs in zip(self.losses(runs[1]), self.losses(runs[0]), strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)

    def test_another_number_of_processes_is_refused_with_both_numbers(self):
        for name in ("dflop", "loongforge_3"):
            plan = self.plan(f"refused-{name}", "--method", name)
            self.assertEqual(self.ranks_of(plan), RANKS)
            for started in (1, 3):
                refused = self.launch(plan, started, self.shared / "refused")
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn(f"plan is for {RANKS} ranks, {started} were started", refused.stderr)

    def test_what_has_no_form_of_the_trainer_says_so_at_its_head(self):
        answer = self.done("plan", self.config, "--cluster", CLUSTER, "--lengths", self.shapes,
                           "--batches", "2", "--method", "optimus")
        self.assertIn("optimus: for simulation by tables alone: no plan file has its form: ",
                      answer.splitlines()[1])


if __name__ == "__main__":
    unittest.main()
