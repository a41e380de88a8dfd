"""Runs `tributary compare --run` as a user does: methods train on two processes, in turn.

Usage: compare_run_test.py TRIBUTARY
"""

import html
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "train"))
import run_case  # noqa: E402
import tiny_run  # noqa: E402
from find_browser import find_browser, open_in_browser  # noqa: E402

TRIBUTARY = os.path.abspath(sys.argv.pop(1))
ROOT = HERE.parents[2]
METHODS = ["megatron_uniform", "dflop", "disttrain_microbatch", "loongforge_3", "optimus", "flowtrain", "search"]
NOT_RUN = {"optimus": "the trainer has no such form: the encoder in idle time of all stages",
           "flowtrain": "vision trains, and an encoder is ahead of its step only where it is frozen"}
STEPS, ROUNDS = 4, 2
LATE = 900  # s, on a busy machine


class CompareRun(run_case.Workplace):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = tiny_run.write_config(cls.shared / "run.yaml", cls.shared, data={"max_tokens": 150})
        cls.study = cls.write_study("study")
        cls.page = cls.shared / "compare.html"
        cls.done = cls.compare(cls.study, "--run", "--rounds", ROUNDS, "--work", cls.shared / "work", "--json",
                               "-o", cls.page)
        assert cls.done.returncode == 0, cls.done.stderr
        cls.found = json.loads(cls.done.stdout)
        cls.profile = cls.shared / "work/setting-1/profile.json"

    @classmethod
    def write_study(cls, name, methods=METHODS, cluster=None, **changes):
        """Writes a study of two settings, of which one runs; `changes` are keys of that one."""
        run = {"config": str(cls.config), "steps": STEPS, "warm_up_steps": 1, "values": ["run.threads=1"]}
        runs = {"name": "here", "model": "tiny", "devices": 2, "global_samples": 8, "run": run, **changes}
        path = cls.shared / f"{name}.yaml"
        path.write_text(json.dumps({
            "format": "tributary.study/1", "name": "tiny methods", "against": "megatron_uniform", "methods": methods,
            "models": {"tiny": str(cls.shared / "model"), "demo": str(ROOT / "configs/demo_model")},
            "defaults": {"cluster": str(ROOT / "configs/clusters/cpu_2.yaml")},
            "settings": [{"name": "elsewhere", "model": "demo", "devices": 4, "global_samples": 16},
                         {key: value for key, value in runs.items() if value is not None}],
            "figures": [{"where": "figure 1", "setting": "here", "method": "dflop", "against": "megatron_uniform",
                         "value": [1.2, 3.6]}],
            "orders": [{"where": "figure 2", "setting": "here", "methods": ["dflop", "megatron_uniform"]}]}))
        return path

    @staticmethod
    def compare(*words):
        return subprocess.run([TRIBUTARY, "compare", *map(str, words)], capture_output=True, text=True,
                              env=tiny_run.environment(), timeout=LATE)

    def methods(self, found=None):
        (setting,) = (found or self.found)["settings"]
        return {method["method"]: method for method in setting["methods"]}

    def test_methods_run_in_turn_each_with_its_own_plan(self):
        methods = self.methods()
        self.assertEqual(list(methods), METHODS)
        ran = [name for name in METHODS if name not in NOT_RUN and not methods[name]["run"]["same_as"]]
        said = re.findall(r"round (\d) of 2: (\w+)", self.done.stderr)
        self.assertEqual(said, [(str(round_), name) for round_ in range(1, ROUNDS + 1) for name in ran])
        digests, placements = set(), set()
        for name in ran:
            run = methods[name]["run"]
            plan = json.loads(pathlib.Path(run["plan_file"]).read_text())
            placements.add(plan["modules"]["vision"]["placement"])
            in_order = name in ("megatron_uniform", "disttrain_microbatch", "loongforge_3")
            self.assertEqual(plan["batch"]["balance"], "none" if in_order else "lpt_2d", name)
            used = json.loads((pathlib.Path(run["directory"]) / "plan.json").read_text())
            self.assertEqual(used["modules"]["vision"], plan["modules"]["vision"], name)
            digests.add(json.dumps([plan["modules"], plan["batch"]], sort_keys=True))
        self.assertEqual(len(digests), len(ran))
        self.assertEqual(placements, {"inline", "separate", "colocated"})

    def test_measured_steps_are_those_of_the_runs(self):
        for name, method in self.methods().items():
            run = method["run"]
            if name in NOT_RUN or run["same_as"]:
                continue
            self.assertEqual(len(run["rounds_s"]), ROUNDS)
            self.assertGreater(method["step_s"], 0)
            for round_, step in enumerate(run["rounds_s"], 1):
                lines = tiny_run.read_lines(self.shared / f"work/setting-1/{name}-{round_}/metrics.jsonl")
                self.assertEqual(len(lines), STEPS)
                self.assertAlmostEqual(step, statistics.median(sum(line["seconds"].values()) for line in lines[1:]))
            self.assertAlmostEqual(run["median_s"], statistics.median(run["rounds_s"]))
            # All trained on the samples that they were planned for, so they have one loss.
            self.assertLess(run["loss_difference"], 1e-5, name)

    def test_the_simulator_had_the_samples_of_the_run(self):
        """The batches that plans were simulated on are those that the run had."""
        (setting,) = self.found["settings"]
        lines = tiny_run.read_lines(self.shared / "work/setting-1/megatron_uniform-1/metrics.jsonl")
        tokens = sum(line["tokens"] for line in lines)
        self.assertAlmostEqual(setting["tokens_per_sample"], tokens / (8 * STEPS))

    def test_a_run_records_the_pictures_that_encoders_of_their_own_get(self):
        """`simulate --run` deals them as the trainer did; inline encoders need no such record."""
        folder = self.shared / "work/setting-1"
        self.assertNotIn("media", tiny_run.read_lines(folder / "megatron_uniform-1/shapes.jsonl")[0])
        for name in ("dflop", "loongforge_3"):
            for line in tiny_run.read_lines(folder / f"{name}-1/shapes.jsonl"):
                self.assertEqual(len(line["media"]), len(line["microbatches"]))
                for media, sums in zip(line["media"], line["microbatches"]):
                    self.assertEqual(sum(t * rows * columns for t, rows, columns in media), sums[3])
                    self.assertEqual(sum(t for t, _, _ in media), sums[5])
            done = subprocess.run(
                [TRIBUTARY, "simulate", folder / f"{name}-1/plan.json", "--profile", self.profile,
                 "--run", folder / f"{name}-1", "--json"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(json.loads(done.stdout)["distribution_ns"]["median"], 0)

    def test_methods_without_a_form_are_listed_with_the_reason(self):
        methods = self.methods()
        for name, reason in NOT_RUN.items():
            run = methods[name]["run"]
            self.assertEqual((run["not_run"], run["rounds_s"], methods[name]["step_s"]), (reason, [], 0))
            self.assertIn("not run: " + reason, html.unescape(self.page.read_text()))

    def test_pairs_in_order_are_counted(self):
        (setting,) = self.found["settings"]
        pairs = setting["run"]["pairs"]
        steps = [(method["step_s"], method["run"]["median_s"]) for method in setting["methods"]
                 if method["run"]["rounds_s"] and not method["run"]["same_as"]]
        signs = [(a[0] - b[0]) * (a[1] - b[1]) > 0 for i, a in enumerate(steps) for b in steps[:i]]
        self.assertEqual((pairs["all"], pairs["right"]), (len(signs), sum(signs)))
        self.assertIn(f"The simulator has {pairs['right']} of {pairs['all']} pairs", self.page.read_text())

    def test_published_simulated_and_measured_stand_side_by_side(self):
        methods = self.methods()
        (figure,), (order,) = self.found["figures"], self.found["orders"]
        uniform, dflop = methods["megatron_uniform"], methods["dflop"]
        self.assertEqual(figure["published"], [1.2, 3.6])
        self.assertAlmostEqual(figure["found"], uniform["step_s"] / dflop["step_s"])
        self.assertAlmostEqual(figure["measured"], uniform["run"]["median_s"] / dflop["run"]["median_s"])
        self.assertEqual(order["measured"], [dflop["run"]["median_s"], uniform["run"]["median_s"]])
        page = html.unescape(self.page.read_text())
        for value in (figure["found"], figure["measured"]):
            self.assertIn(f"{value:.3f}x", page)
        self.assertIn("1.200x to 3.600x", page)

    @unittest.skipIf(os.environ.get("TRIB_SKIP_BROWSER") == "1", "the page was not opened in a browser")
    def test_the_page_opens_in_a_browser(self):
        """A bar for what was measured and one for what was simulated, for every method with a plan."""
        dom = open_in_browser(find_browser(), self.page, "--window-size=1280,1600", "--dump-dom")
        self.assertEqual(dom.count('class="bar-row"'), len(METHODS))
        for kind in ("bar", "bar blind"):
            self.assertEqual(dom.count(f'class="{kind}"'), len(METHODS) - len(NOT_RUN))
        for words in (*METHODS, "Measured: min / median / max", "simulated</th>", "of plans in the order that was"):
            self.assertIn(words.replace("_", "_<wbr>") if words in METHODS else words, dom)
        if folder := os.environ.get("TRIB_SCREENSHOTS"):  # for a person to look at
            open_in_browser(find_browser(), self.page, "--window-size=1280,1600",
                            f"--screenshot={folder}/compare-run.png")

    def test_a_run_that_fails_is_recorded_and_the_others_go_on(self):
        work = self.shared / "failing"
        (work / "setting-1").mkdir(parents=True)
        (work / "setting-1/dflop-1").write_text("a file where the run's directory would be")
        study = self.write_study("failing", methods=["megatron_uniform", "dflop", "search"])
        page = self.shared / "failing.html"
        done = self.compare(study, "--run", "--rounds", "2", "--profile", self.profile, "--work", work, "-o", page)
        self.assertIn(done.returncode, (2, 5), done.stderr)
        self.assertIn("compare: dflop failed in round 1: rank ", done.stderr)
        self.assertNotIn("round 2 of 2: dflop", done.stderr)
        self.assertIn("round 2 of 2: megatron_uniform", done.stderr)
        self.assertIn("dflop-1", done.stdout)
        self.assertIn("; failed: ", html.unescape(page.read_text()))
        self.assertIn("The simulator has ", done.stdout)
        (work / "setting-1/dflop-1").unlink()
        again = self.compare(study, "--run", "--rounds", "1", "--profile", self.profile, "--work", work)
        self.assertEqual(again.returncode, 0, "runs of an earlier comparison are replaced: " + again.stderr)
        self.assertIn("1 round of 4 steps", again.stdout)

    def test_a_signal_ends_all_processes(self):
        study = self.write_study("endless", methods=["megatron_uniform", "dflop"],
                                 run={"config": str(self.config), "steps": 300, "values": ["run.threads=1"]})
        process = subprocess.Popen(
            [TRIBUTARY, "compare", study, "--run", "--profile", self.profile, "--work", self.shared / "endless"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=tiny_run.environment())
        metrics = self.shared / "endless/setting-1/megatron_uniform-1/metrics.jsonl"
        end = time.monotonic() + LATE
        while not (metrics.exists() and metrics.read_text().count("\n") > 2):
            self.assertLess(time.monotonic(), end)
            self.assertIsNone(process.poll(), "it ended before the first steps")
            time.sleep(0.02)
        ranks = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self.assertEqual(len(ranks), 2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=LATE)
        self.assertEqual((process.returncode, output), (15, ""), errors)
        self.assertIn("a signal ended the comparison", errors)
        for rank in ranks:
            self.assertFalse(pathlib.Path(f"/proc/{rank}").exists())

    def test_bad_input_is_refused_before_anything_starts(self):
        here = self.write_study
        used = ("--run", "--profile", self.profile, "--work", self.shared / "refused")
        cases = [
            ((ROOT / "configs/studies/flowtrain_scale.yaml", *used), ["study does not run on this machine",
                                                                      "no setting with `run`", "leave out --run"]),
            ((here("many", devices=4000, cluster=None), *used), ["devices; found: 4000"]),
            ((here("other", model="demo"), *used), ["setting and its run have different models"]),
            ((here("no_config", run={"config": "none.yaml"}), *used), ["settings.1.run.config", "none.yaml"]),
            ((here("key", run={"config": str(self.config), "values": ["run.thread=1"]}), *used),
             ["run.thread", "did you mean run.threads"]),
            ((here("data", run={"config": str(self.config), "values": ["data.sources.0.path=none.jsonl"]}), *used),
             ["none.jsonl"]),
            ((self.study, *used, "--rounds", "0"), ["--rounds; found: 0"]),
            ((self.study, *used, "--quick"), ["--quick", "--run"]),
            ((self.study, "--rounds", "2"), ["--rounds", "--run"]),
            ((self.study, "--run", "--profile", self.shared / "none.json", "--work", self.shared / "refused"),
             ["none.json"]),
            ((self.study, *used, "-o", self.shared / "no/page.html"), ["file cannot be written"]),
            ((self.study, "--run", "--work", self.config / "work"), ["run directory cannot be made"]),
        ]
        for words, expected in cases:
            with self.subTest(words[0]):
                refused = self.compare(*words)
                self.assertEqual(refused.returncode, 5 if "file cannot" in expected[0] else 2, refused.stderr)
                self.assertEqual(refused.stdout, "")
                for text in expected:
                    self.assertIn(text, refused.stderr)
                self.assertNotIn("round 1", refused.stderr)


if __name__ == "__main__":
    unittest.main()
