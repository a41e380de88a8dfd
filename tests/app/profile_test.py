"""Runs `tributary profile`, and `simulate` with its file, as a user does.

Usage: profile_test.py TRIBUTARY
"""

import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import run_case  # noqa: E402
import tiny_run  # noqa: E402

TRIBUTARY = sys.argv.pop(1)
CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "configs/clusters/cpu_2.yaml"


class Profile(run_case.Workplace):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = tiny_run.write_config(cls.shared / "run.yaml", cls.shared)
        cls.whole = cls.shared / "whole.json"
        cls.whole.symlink_to(cls.shared / "linked.json")
        done = cls.run_verb("profile", cls.config, "-o", cls.whole, "--ranks", "2")
        assert done.returncode == 0, done.stderr

    @staticmethod
    def run_verb(*words):
        return subprocess.run([TRIBUTARY, *map(str, words)], env=tiny_run.environment(), text=True,
                              capture_output=True, timeout=300)

    def printed(self, *words):
        done = self.run_verb(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def read(self, path):
        return json.loads(path.read_text())

    def tables(self, profile):
        return {(each["module"], each["layer"], each["tp"]): each for each in profile["layers"]}

    def test_a_link_to_a_profile_stays_a_link(self):
        self.assertTrue(self.whole.is_symlink())
        self.assertTrue((self.shared / "linked.json").is_file())

    def test_every_kind_of_layer_has_times_and_bytes(self):
        profile = self.read(self.whole)
        tables = self.tables(profile)
        kinds = [("backbone", "embedding"), ("backbone", "block"), ("backbone", "head"),
                 ("projector", "projector"), ("vision", "patch_embedding"), ("vision", "block"),
                 ("vision", "window_block")]
        for module, layer in kinds:
            table = tables[module, layer, 1]
            self.assertEqual(table["dtype"], "float32")
            tokens = [point["tokens"] for point in table["points"]]
            self.assertEqual(tokens, sorted(set(tokens)))
            for point in table["points"]:
                self.assertGreater(point["forward_ns"], 0)
                self.assertGreater(point["input_gradient_ns"] + point["weight_gradient_ns"], 0)
                self.assertGreaterEqual(point["spread"], 0)
        block = tables["backbone", "block", 1]
        for point in block["points"]:
            self.assertGreater(point["weight_gradient_ns"], 0)
            self.assertGreater(point["input_gradient_ns"], 0)
            # A layer keeps more than its input; with recompute it keeps only the input.
            self.assertGreaterEqual(point["activation_recomputed_bytes"], 4 * 32 * point["tokens"])
            self.assertGreater(point["activation_bytes"], point["activation_recomputed_bytes"])
        self.assertGreater(block["points"][-1]["activation_bytes"], block["points"][0]["activation_bytes"])
        # Two layers of 32 values, 64 in the MLP, two heads over one of keys: norms, biases, matrices.
        self.assertGreater(block["parameter_bytes"], 4 * (32 * 64 + 32 * 32 + 3 * 32 * 64))

    def test_attention_is_apart_and_grows_with_the_length_at_equal_tokens(self):
        for (module, layer, tp), table in self.tables(self.read(self.whole)).items():
            self.assertEqual("attention" in table, layer in ("block", "window_block"), (module, layer, tp))
        long = self.shared / "long.json"
        done = self.run_verb("profile", self.config, "batch.capacity_tokens=2048", "batch.global_samples=64",
                             "-o", long, "--ranks", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        attention = self.tables(self.read(long))["backbone", "block", 1]["attention"]
        by_length = {each["attended"]: each for each in attention if each["tokens"] == 2048}
        self.assertLessEqual({2048, 1024, 512, 256, 128, 64, 32, 16}, set(by_length))
        self.assertGreater(by_length[2048]["forward_ns"], 3 * by_length[64]["forward_ns"])
        self.assertGreater(by_length[2048]["gradient_ns"], 3 * by_length[64]["gradient_ns"])

    def test_layers_measured_with_their_attention_are_measured_again(self):
        profile = self.read(self.whole)
        for table in profile["layers"]:
            table.pop("attention", None)
        for each in profile["passes"]:
            each["forward_ns"] = 1
        old = self.shared / "old.json"
        old.write_text(json.dumps(profile))
        done = self.run_verb("profile", self.config, "-o", old, "--ranks", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("they are measured again", done.stdout)
        again = self.read(old)
        self.assertIn("attention", self.tables(again)["backbone", "block", 1])
        self.assertEqual({each["ranks"] for each in again["passes"]}, {1})
        self.assertGreater(min(each["forward_ns"] for each in again["passes"]), 1)
        self.assertEqual(again["collectives"], profile["collectives"])

    def test_every_tp_that_divides_processes_and_heads_is_measured(self):
        root = self.shared / "four"
        (root / "data").parent.mkdir()
        shutil.copytree(self.shared / "data", root / "data")
        shutil.copytree(self.shared / "model", root / "model")
        model = json.loads((root / "model/config.json").read_text())
        model.update(num_attention_heads=4, num_key_value_heads=2)
        model["rope_scaling"]["mrope_section"] = [2, 1, 1]
        model["vision_config"].update(hidden_size=48, num_heads=6)
        (root / "model/config.json").write_text(json.dumps(model))
        out = root / "four.json"
        done = self.run_verb("launch", "-n", "4", "--", "profile", tiny_run.write_config(root / "run.yaml", root),
                             "-o", out, "--here")
        self.assertEqual(done.returncode, 0, done.stderr)
        tables = self.tables(self.read(out))
        for module, layer, degrees in (("backbone", "block", {1, 2, 4}), ("projector", "projector", {1, 2, 4}),
                                       ("vision", "block", {1, 2}), ("vision", "window_block", {1, 2})):
            self.assertEqual({tp for *key, tp in tables if key == [module, layer]}, degrees)
            for tp in degrees:
                table = tables[module, layer, tp]
                self.assertEqual(table["ranks"], 4)
                self.assertEqual("attention" in table, module != "projector")
        sizes = [tables["backbone", "block", tp]["parameter_bytes"] for tp in (1, 2, 4)]
        self.assertGreater(sizes[0], 1.5 * sizes[1])
        self.assertGreater(sizes[1], 1.5 * sizes[2])
        # Six heads do not divide over four ranks, but the tower may have degrees of its own.
        plan = root / "plan.json"
        plan.write_text(self.printed("config", root / "run.yaml", "parallel.tp=4", "--plan",
                                     "parallel.vision.placement=colocated", "parallel.vision.dp_shard=4"))
        (root / "sizes.csv").write_text("40,32,1\n" * 8)
        step = self.printed("simulate", plan, "--profile", out, "--lengths", root / "sizes.csv")
        self.assertRegex(step, r"(?s)^step .*backbone replica 0 stage 0, 4 ranks.*vision replica 3 stage 0, 1 rank")

    def test_tp_of_two_holds_half_of_a_layer(self):
        tables = self.tables(self.read(self.whole))
        if ("backbone", "block", 2) not in tables:
            self.skipTest("fewer than two cores")
        whole, half = (tables["backbone", "block", tp]["parameter_bytes"] for tp in (1, 2))
        self.assertLess(half, 0.7 * whole)
        self.assertGreater(half, 0.4 * whole)

    def test_collectives_messages_and_steps_are_there(self):
        profile = self.read(self.whole)
        ops = {table["op"]: table["points"] for table in profile["collectives"]}
        self.assertEqual(set(ops), {"all_reduce", "all_gather", "reduce_scatter", "send"})
        for points in ops.values():
            self.assertEqual({point["ranks"] for point in points}, {2})
            self.assertGreater(points[-1]["ns"], points[0]["ns"])
        step = profile["steps"][0]
        self.assertGreater(step["process_bytes"], 50 << 20)
        self.assertGreater(step["optimizer_ns"], 0)
        self.assertGreater(profile["noise"], 0)
        # The time of a whole pass is the sum of its layers': the tables lose nothing.
        for whole in profile["passes"]:
            self.assertGreater(whole["forward_ns"], 0)
            self.assertGreater(whole["backward_ns"], 0)

    def test_a_second_run_measures_nothing_and_changes_nothing(self):
        before = self.whole.read_bytes()
        done = self.run_verb("profile", self.config, "-o", self.whole, "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.whole.read_bytes(), before)
        self.assertIn("1 process: nothing is missing", done.stdout)
        self.assertIn("2 processes: nothing is missing", done.stdout)
        self.assertIn("noise", done.stdout)

    def test_only_what_is_missing_is_measured(self):
        profile = self.read(self.whole)
        part = self.shared / "part.json"
        gone = profile["passes"].pop(0)
        for table in profile["collectives"]:
            if table["op"] == "send":
                last = table["points"].pop()
        part.write_text(json.dumps(profile))
        done = self.run_verb("profile", self.config, "-o", part, "--ranks", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        again = self.read(part)
        key = lambda each: (each["tp"], each["threads"], each["capacity_tokens"])
        self.assertIn(key(gone), map(key, again["passes"]))
        for kept in profile["passes"]:
            self.assertIn(kept, again["passes"])
        before = {table["op"]: table["points"] for table in profile["collectives"]}
        for table in again["collectives"]:
            kept = [point for point in table["points"] if table["op"] != "send" or point["bytes"] != last["bytes"]]
            self.assertEqual(kept, before[table["op"]])
        self.assertEqual(again["steps"], profile["steps"])

    def test_a_profile_of_another_model_is_refused_by_its_key(self):
        for key, value in (("model", "other 0"), ("device", "another"), ("libraries", "torch 0")):
            profile = self.read(self.whole)
            profile[key] = value
            other = self.shared / "other.json"
            other.write_text(json.dumps(profile))
            before = other.read_bytes()
            done = self.run_verb("profile", self.config, "-o", other, "--ranks", "1")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f'other.json {key}; found: "{value}"', done.stderr)
            self.assertEqual(other.read_bytes(), before)

    def test_ctrl_c_keeps_what_was_measured(self):
        part = self.shared / "stopped.json"
        process = subprocess.Popen([TRIBUTARY, "profile", str(self.config), "-o", str(part), "--ranks", "1"],
                                   env=tiny_run.environment(), text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while not part.exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        if process.returncode == 0:
            self.skipTest("it was faster than the signal")
        self.assertEqual(process.returncode, 15, err)
        self.assertIn("stopping after this measurement", err)
        self.assertNotIn("checkpoint", err)
        kept = self.read(part)
        self.assertEqual(kept["format"], "tributary.profile/1")
        self.assertEqual(len(kept["steps"]), 1)
        done = self.run_verb("profile", self.config, "-o", part, "--ranks", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read(part)["steps"], kept["steps"])

    def test_ranks_that_share_a_core_are_measured_by_the_time_they_have_it(self):
        shared = self.shared / "shared.json"
        core = str(min(os.sched_getaffinity(0)))
        done = subprocess.run(["taskset", "-c", core, TRIBUTARY, "profile", str(self.config), "run.threads=1", "-o",
                               str(shared), "--ranks", "2"], env=tiny_run.environment(), text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = self.read(shared)
        self.assertEqual(profile["cores"], 1)
        self.assertEqual([step["ranks"] for step in profile["steps"]], [1, 2])
        self.assertEqual({table["tp"] for table in profile["layers"]}, {1, 2})
        ratios = []
        passes = {(each["ranks"], each["capacity_tokens"]): each for each in profile["passes"]}
        for (ranks, capacity), each in passes.items():
            if ranks == 2:
                ratios.append(each["backward_ns"] / passes[1, capacity]["backward_ns"])
        # By the clock each would be two or more; another process on the core only adds to some.
        self.assertLess(min(ratios), 1.6, ratios)

    def test_a_run_is_simulated_from_its_own_profile(self):
        run = self.shared / "trained"
        shutil.rmtree(run, ignore_errors=True)
        done = self.run_verb("launch", "-n", "2", "--", "train", self.config, f"run.dir={run}", "run.steps=6")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_verb("simulate", run / "plan.json", "--profile", self.whole, "--run", run, "--skip", "2",
                             "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual(summary["steps"], 4)
        self.assertEqual(summary["ranks"], 2)
        self.assertGreater(summary["step_ns"], 0)
        self.assertEqual(summary["out_of_memory"], "")
        done = self.run_verb("simulate", run / "plan.json", "--profile", self.whole, "--cluster", CLUSTER, "--run", run)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_measured_step_is_drawn_over_its_prediction(self):
        for name, key in (("stages", "parallel.pp=2"), ("replicas", "parallel.dp_shard=2")):
            run = self.shared / name
            shutil.rmtree(run, ignore_errors=True)
            done = self.run_verb("launch", "-n", "2", "--", "train", self.config, f"run.dir={run}", "run.steps=4",
                                 "schedule.warmup_steps=0", key)
            self.assertEqual(done.returncode, 0, done.stderr)
            trace = self.shared / f"{name}.json"
            done = self.run_verb("simulate", run / "plan.json", "--profile", self.whole, "--run", run, "-o", trace)
            self.assertEqual(done.returncode, 0, done.stderr)
            measured, predicted = self.read(run / "trace.json"), self.read(trace)
            self.assertEqual(measured["summary"]["source"], "measured")
            lanes = measured["summary"]["lanes"]
            self.assertEqual([lane["name"] for lane in lanes],
                             [lane["name"] for lane in predicted["summary"]["lanes"]])
            seconds = self.last_line(run / "metrics.jsonl")["seconds"]
            # Each of them is rounded to 1 us.
            self.assertGreaterEqual(1e-9 * measured["summary"]["step_ns"], sum(seconds.values()) - 1e-6 * len(seconds))
            for number, lane in enumerate(lanes):
                passes = [span for span in measured["traceEvents"]
                          if span["ph"] == "X" and span["pid"] == number and span["name"] != "OPT0.0"]
                drawn = [span["name"] for span in predicted["traceEvents"]
                         if span["ph"] == "X" and span["pid"] == number and span["tid"] == 0 and
                         span["name"] != "OPT0.0"]
                # In the order of the schedule, which both run. A simulation leaves out passes of length 0.
                self.assertEqual([span["name"] for span in passes if span["name"] in drawn], drawn)
                for first, second in zip(passes, passes[1:]):
                    self.assertLessEqual(first["ts"] + first["dur"], second["ts"] + 0.002)
                spent = sum(span["dur"] for span in passes) * 1e3
                uses = lane["uses_ns"]
                self.assertAlmostEqual(spent, uses["compute"] + uses.get("collective", 0), delta=20 * len(passes))
                self.assertEqual(sum(uses.values()), lane["busy_ns"] + lane["communication_ns"] + lane["idle_ns"])
                self.assertEqual(sum(uses.values()), measured["summary"]["step_ns"])
            page = self.shared / f"{name}.html"
            done = self.run_verb("report", run, "--predicted", trace, "-o", page)
            self.assertEqual(done.returncode, 0, done.stderr)
            text = page.read_text()
            self.assertEqual(text.count(">  measured</text>"), len(lanes))
            self.assertIn("Measured over predicted", text)

    @staticmethod
    def last_line(path):
        return json.loads(path.read_text().splitlines()[-1])

    def test_a_plan_from_the_profile_is_trained(self):
        sizes = self.shared / "sizes.csv"
        run = self.shared / "single"
        shutil.rmtree(run, ignore_errors=True)
        done = self.run_verb("train", self.config, f"run.dir={run}", "run.steps=6", "batch.packing=none")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (run / "shapes.jsonl").read_text().splitlines()
        samples = [each for line in lines for each in json.loads(line)["microbatches"]]
        sizes.write_text("".join(f"{each[0]},{each[3]},{each[5]}\n" for each in samples))
        plan = self.shared / "plan.json"
        done = self.run_verb("plan", self.config, "--profile", self.whole, "--devices", "2", "--lengths", sizes,
                             "--runnable", "--json", "-o", plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertLessEqual(answer["lower_bound"], answer["value"])
        planned = self.shared / "planned"
        shutil.rmtree(planned, ignore_errors=True)
        done = self.run_verb("launch", "-n", "2", "--", "train", self.config, "--plan", plan, f"run.dir={planned}",
                             "run.steps=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        most = self.read(plan)["batch"]["microbatches"]
        for line in (planned / "shapes.jsonl").read_text().splitlines():
            self.assertLessEqual(len(json.loads(line)["microbatches"]), most + 1)

    def balance_by(self, name, *keys):
        """Mean imbalance of two replicas, by dimension."""
        run = self.shared / name
        shutil.rmtree(run, ignore_errors=True)
        done = self.run_verb("launch", "-n", "2", "--", "train", self.config, f"run.dir={run}", "run.steps=8",
                             "parallel.dp_replicate=2", "parallel.dp_shard=1", "batch.balance=lpt",
                             "batch.global_samples=10", *keys)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line)["balance"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        return {key: statistics.mean(line[key] for line in lines) for key in lines[0] if key != "gap"}

    def test_samples_are_balanced_by_the_times_of_the_profile(self):
        found = {}
        for heavy in ("vision", "backbone"):
            profile = self.read(self.whole)
            for table in profile["layers"]:
                if table["module"] != heavy:
                    continue
                for point in table["points"] + table.get("attention", []):
                    for key in point:
                        point[key] *= 10000 if key.endswith("_ns") else 1
            costs = self.shared / f"{heavy}.json"
            costs.write_text(json.dumps(profile))
            found[heavy] = self.balance_by(f"heavy_{heavy}", f"batch.costs={costs}")
        self.assertLess(found["backbone"]["tokens"], found["vision"]["tokens"])
        self.assertLess(found["vision"]["patches"], found["backbone"]["patches"])
        self.assertNotEqual(self.balance_by("by_profile", f"batch.costs={self.whole}")["time"],
                            self.balance_by("by_flops")["time"])

    def test_costs_that_the_run_cannot_take_times_from_are_refused(self):
        def refusal(profile, *words):
            costs = self.shared / "costs.json"
            costs.write_text(json.dumps(profile))
            done = self.run_verb("train", self.config, f"run.dir={self.shared / 'refused'}", f"batch.costs={costs}",
                                 "run.steps=1")
            self.assertEqual(done.returncode, 2, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)

        profile = self.read(self.whole)
        refusal({**profile, "model": "other 0123456789abcdef"}, "profile is of another model", "batch.costs")
        profile["layers"] = [each for each in profile["layers"] if each["layer"] != "window_block"]
        refusal(profile, "expected: vision.window_block, tp 1, threads 1")
        done = self.run_verb("train", self.config, "batch.costs=none.json", "run.steps=1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("batch.costs = none.json", done.stderr)

    def test_a_degree_that_was_not_measured_is_no_candidate(self):
        run = self.shared / "one"
        shutil.rmtree(run, ignore_errors=True)
        done = self.run_verb("train", self.config, f"run.dir={run}", "run.steps=4", "schedule.warmup_steps=0")
        self.assertEqual(done.returncode, 0, done.stderr)
        profile = self.read(self.whole)
        profile["layers"] = [each for each in profile["layers"] if each["layer"] != "head"]
        part = self.shared / "headless.json"
        part.write_text(json.dumps(profile))
        done = self.run_verb("simulate", run / "plan.json", "--profile", part, "--run", run)
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected: backbone.head, tp 1, threads 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
