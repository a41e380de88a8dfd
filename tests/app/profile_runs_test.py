"""Profiles runs that hear and runs with adapters, plans by the profiles, trains and simulates the plans.

usage: profile_runs_test.py TRIBUTARY [unittest arguments]
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
import families  # noqa: E402
import run_case  # noqa: E402
import tiny_run  # noqa: E402

LORA = {"kind": "lora", "rank": 4, "targets": ["q_proj", "v_proj"]}


class ProfileRuns(families.FamilyCase):
    def run_verb(self, *words, code=0):
        done = subprocess.run([self.program, *map(str, words)], env=tiny_run.environment(), text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def profile(self, config, ranks):
        out = config.with_suffix(".profile.json")
        self.run_verb("profile", config, "-o", out, "--ranks", ranks)
        return out

    def tables(self, profile):
        return {(each["module"], each["layer"], each["tp"]): each
                for each in json.loads(profile.read_text())["layers"]}

    def sizes_of(self, config):
        out = config.with_suffix(".sizes.json")
        self.run_verb("data", "inspect", config, "--histogram", out)
        return out

    def plan(self, config, profile, ranks):
        out = config.with_suffix(".plan.json")
        done = self.run_verb("plan", config, "--profile", profile, "--devices", ranks, "--threads", 1,
                             "--lengths", self.sizes_of(config), "--runnable", "--json", "-o", out)
        answer = json.loads(done.stdout)
        self.assertLessEqual(answer["lower_bound"], answer["value"])
        return out

    def simulate(self, plan, *words):
        return json.loads(self.run_verb("simulate", plan, "--json", *words).stdout)

    def train(self, config, name, ranks, *words):
        run = self.shared / name
        self.run_verb("launch", "-n", ranks, "--", "train", config, f"run.dir={run}", "run.steps=3",
                      "schedule.warmup_steps=0", *words)
        return run

    def test_models_that_hear(self):
        for family, encoders in (("qwen2_audio", ("audio",)),
                                 ("qwen2_5_omni_thinker", ("vision", "audio"))):
            with self.subTest(family):
                values = self.workplace(family)
                config = self.config(f"{family}-hears", batch={"capacity_tokens": 200}, **values)
                profile = self.profile(config, 1)
                tables = self.tables(profile)
                hears = tables["audio", "window_block" if len(encoders) == 2 else "block", 1]
                lengths = [each["attended"] for each in hears["attention"]]
                self.assertGreater(max(lengths), 1.5 * min(lengths))
                self.assertGreater(tables["audio", "patch_embedding", 1]["points"][-1]["weight_gradient_ns"], 0)
                self.plan(config, profile, 1)
                run = self.train(config, f"{family}-run", 1)
                first = json.loads((run / "shapes.jsonl").read_text().splitlines()[0])["microbatches"][0]
                self.assertEqual(len(first), 3 + 3 * len(encoders))
                self.assertGreater(first[-3], 0)
                predicted = self.simulate(run / "plan.json", "--profile", profile, "--run", run)
                self.assertEqual(predicted["steps"], 3)
                # Sounds take time: without them a step is shorter.
                lines = [json.loads(line) for line in (run / "shapes.jsonl").read_text().splitlines()]
                for line in lines:
                    line["microbatches"] = [[*each[:-3], 0, 0, 0] for each in line["microbatches"]]
                tiny_run.write_lines(run / "shapes.jsonl", lines)
                silent = self.simulate(run / "plan.json", "--profile", profile, "--run", run)
                self.assertLess(silent["step_ns"], predicted["step_ns"])
                balanced = self.train(config, f"{family}-balanced", 2, f"batch.costs={profile}",
                                      "batch.balance=lpt", "parallel.dp_replicate=2", "parallel.dp_shard=1")
                self.assertIn("audio", tiny_run.read_lines(balanced / "metrics.jsonl")[0]["balance"])

    def test_runs_with_adapters(self):
        config = self.config("adapted", adapter=LORA)
        profile = self.profile(config, 2)
        key = json.loads(profile.read_text())["adapter"]
        self.assertEqual(key, "lora, rank 4, on q_proj, v_proj; frozen projector, vision")
        tables = self.tables(profile)
        # A block has 32 values, and two heads over one of keys.
        self.assertEqual(tables["backbone", "block", 1]["adapter_bytes"], 4 * 4 * (32 + 32 + 32 + 16))
        self.assertNotIn("adapter_bytes", tables["vision", "block", 1])
        plan = self.plan(config, profile, 2)
        written = json.loads(plan.read_text())
        self.assertEqual(written["modules"]["backbone"]["train"], "lora")
        self.assertEqual(written["modules"]["vision"]["train"], "frozen")
        self.assertEqual(written["training"]["adapter"], LORA)
        run = self.train(config, "planned", 2, "--plan", plan)
        predicted = self.simulate(run / "plan.json", "--profile", profile, "--run", run)
        self.assertEqual((predicted["steps"], predicted["ranks"]), (3, 2))
        self.train(config, "balanced", 2, f"batch.costs={profile}", "batch.balance=lpt")

        # By a cluster's description, without a profile.
        cluster = pathlib.Path(__file__).resolve().parents[2] / "configs/clusters/cpu_2.yaml"
        adapted = self.simulate(run / "plan.json", "--cluster", cluster, "--run", run)
        whole = json.loads((run / "plan.json").read_text())
        del whole["training"]
        for module in whole["modules"].values():
            module["train"] = "full"
        (run / "whole.json").write_text(json.dumps(whole))
        full = self.simulate(run / "whole.json", "--cluster", cluster, "--run", run)
        self.assertLess(adapted["step_ns"], full["step_ns"])
        peak = lambda summary: max(module["peak_bytes"] for module in summary["modules"].values())
        self.assertLess(peak(adapted), peak(full))

        other = self.config("other", adapter={**LORA, "rank": 8})
        for words in (("profile", other, "-o", profile, "--ranks", "1"),
                      ("plan", other, "--profile", profile, "--devices", "2", "--threads", "1"),
                      ("simulate", run / "whole.json", "--profile", profile),
                      ("train", other, f"batch.costs={profile}", "run.steps=1")):
            self.assertIn("rank 4", self.run_verb(*words, code=2).stderr, words[0])


if __name__ == "__main__":
    run_case.main()
