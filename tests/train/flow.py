"""Trains with encoders that are processes beside the run, as users start it, and lets them die.

usage: flow.py TRIBUTARY [unittest arguments]
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess

import beside_one_process
import families
import placements
import tiny_run


MANY = 200  # steps, so that there is time to strike


def flow(**backbone):
    return backbone | {"vision": {"placement": "flow"}}


class Flow(beside_one_process.BesideOneProcess):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.frozen = cls.train_alone("frozen", **cls.values())

    @classmethod
    def values(cls, **values):
        return {"model": {"freeze": ["vision"]}} | values

    def command(self, name, ranks, encoders, *arguments, **values):
        return [self.program, "launch", "-n", str(ranks), "--encoders", str(encoders), "--",
                "train", str(self.config(name, **self.values(**values))), *arguments]

    def flow_run(self, name, ranks, encoders, *arguments, **values):
        result = subprocess.run(self.command(name, ranks, encoders, *arguments, **values),
                                env=tiny_run.environment(), text=True, capture_output=True,
                                timeout=240)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.shared / name

    @contextlib.contextmanager
    def started(self, name, ranks, encoders, **values):
        """A launcher under way; gives it and the processes of its encoders."""
        launcher = subprocess.Popen(self.command(name, ranks, encoders, **values),
                                    env=tiny_run.environment(), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            yield launcher
        finally:
            launcher.kill()
            launcher.communicate()

    def encoders_of(self, launcher):
        listed = subprocess.run(["pgrep", "-f", "-P", str(launcher.pid), " encoder "],
                                capture_output=True, text=True)
        return [int(word) for word in listed.stdout.split()]

    def use(self, run):
        return [line["flow"] for line in tiny_run.read_lines(run / "metrics.jsonl")]

    def sum_of(self, run, key):
        return sum(line[key] for line in self.use(run))

    def expect_like_one(self, run, one=None):
        one = one or self.frozen
        self.expect_losses(run, one, loss=1e-5, grad_norm=1e-4)
        self.expect_held_out(run, one, loss=1e-5)
        self.expect_parameters(run, one)

    def test_features_of_encoders_train_like_one_process(self):
        for name, ranks, encoders, parallel in (
                ("one-rank", 1, 1, flow()), ("replicas", 2, 2, flow(dp_shard=2)),
                ("tensor", 2, 1, flow(tp=2)), ("pipeline", 2, 1, flow(pp=2))):
            with self.subTest(name):
                run = self.flow_run(name, ranks, encoders, parallel=parallel)
                self.expect_like_one(run)
                self.assertGreater(self.sum_of(run, "objects"), 0)
                self.assertEqual(list((run / "pool").glob("controller.json")), [])

    def test_pictures_clips_and_sounds_train_like_one_process(self):
        omni = self.shared / "omni-model"
        shutil.copytree(self.shared / "model", omni)
        families.write_family(omni, "qwen2_5_omni_thinker")
        families.write_sounds(self.shared / "data")
        placements.write_clips(self.shared / "data")
        values = {"model": {"path": str(omni), "freeze": ["vision", "audio"]}, "data": {"sources": [
            {"name": name, "path": str(self.shared / f"data/{name}.train.jsonl"),
             "held_out": str(self.shared / f"data/{name}.held_out.jsonl")}
            for name in ("colours", "clips", "sounds", "words")]}}
        one = self.train_alone("one-omni", **json.loads(json.dumps(values)))
        run = self.flow_run("omni", 2, 1, parallel=flow(dp_shard=2) | {
            "audio": {"placement": "flow"}}, **json.loads(json.dumps(values)))
        self.expect_like_one(run, one)
        self.assertGreater(self.sum_of(run, "objects"), 0)

    def test_features_on_disk_have_the_same_bits(self):
        kept = self.shared / "kept"
        values = {"parallel": flow(), "run": {"steps": 30}}  # more than an epoch
        first = self.flow_run("first", 1, 1, pool={"cache": str(kept)}, **json.loads(json.dumps(values)))
        files = sorted(kept.glob("*/*.safetensors"))
        self.assertGreater(len(files), 10)
        files[0].write_bytes(files[0].read_bytes()[:-1])
        dates = {file: file.stat().st_mtime_ns for file in files[1:]}
        again = self.flow_run("second", 1, 1, pool={"cache": str(kept)}, **json.loads(json.dumps(values)))
        self.expect_same_bits(again, first)
        self.assertEqual({file: file.stat().st_mtime_ns for file in files[1:]}, dates, "used, not made")

    def test_bits_do_not_depend_on_who_encodes(self):
        alone = self.flow_run("nobody", 2, 0, parallel=flow(dp_shard=2), run={"steps": MANY})
        self.assertEqual(self.sum_of(alone, "objects"), 0)
        self.assertGreater(self.sum_of(alone, "encoded_here"), 0)
        with self.started("killed", 2, 2, parallel=flow(dp_shard=2), run={"steps": MANY}) as launcher:
            self.wait_for_steps("killed", 3)
            first, *_ = self.encoders_of(launcher)
            os.kill(first, signal.SIGKILL)
            _, err = launcher.communicate(timeout=120)
            self.assertEqual(launcher.returncode, 0, err)
        self.expect_same_bits(self.shared / "killed", alone)
        self.assertLessEqual({1, 2}, {line["encoders"] for line in self.use(self.shared / "killed")})

    def test_a_stopped_encoder_holds_up_no_step_for_long(self):
        alone = self.flow_run("nobody-1", 1, 0, parallel=flow(), run={"steps": MANY})
        with self.started("stopped", 1, 1, parallel=flow(), run={"steps": MANY},
                          pool={"patience_seconds": 1}) as launcher:
            self.wait_for_steps("stopped", 3)
            (only,) = self.encoders_of(launcher)
            os.kill(only, signal.SIGSTOP)
            _, err = launcher.communicate(timeout=120)
            self.assertEqual(launcher.returncode, 0, err)
        run = self.shared / "stopped"
        self.expect_same_bits(run, alone)
        self.assertLess(max(line["starved"] for line in self.use(run)), 2.5)
        self.assertGreater(self.use(run)[0]["objects"], 0)
        self.assertGreater(sum(line["encoded_here"] for line in self.use(run)[-20:]), 0)

    def test_an_encoder_may_come_late_and_goes_with_the_run(self):
        alone = self.flow_run("nobody-2", 1, 0, parallel=flow(), run={"steps": MANY})
        config = self.config("late", **self.values(parallel=flow(), run={"steps": MANY}))
        with self.started("late", 1, 0, parallel=flow(), run={"steps": MANY}) as launcher:
            self.wait_for_steps("late", 2)
            encoder = subprocess.Popen([self.program, "encoder", str(config)], text=True,
                                       env=tiny_run.environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            _, err = launcher.communicate(timeout=120)
            self.assertEqual(launcher.returncode, 0, err)
            out, err = encoder.communicate(timeout=60)
            self.assertEqual(encoder.returncode, 0, err)
        self.expect_same_bits(self.shared / "late", alone)
        self.assertEqual(self.use(self.shared / "late")[0]["encoders"], 0)
        self.assertGreater(self.sum_of(self.shared / "late", "objects"), 0)
        self.assertIn("waiting for the run", out)

    def test_encoders_go_on_with_a_run_that_starts_again(self):
        alone = self.flow_run("nobody-3", 2, 0, parallel=flow(dp_shard=2), run={"steps": MANY})
        with self.started("again", 2, 1, parallel=flow(dp_shard=2), run={"steps": MANY}) as launcher:
            self.wait_for_steps("again", 5)
            encoders = set(self.encoders_of(launcher))
            listed = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True,
                                    text=True)
            ranks = [int(word) for word in listed.stdout.split() if int(word) not in encoders]
            os.kill(ranks[-1], signal.SIGKILL)
            _, err = launcher.communicate(timeout=120)
            self.assertEqual(launcher.returncode, 0, err)
            self.assertIn("restart 1", err)
        self.expect_same_bits(self.shared / "again", alone)
        self.assertGreater(sum(line["objects"] for line in self.use(self.shared / "again")[-20:]), 0)

    def test_an_encoder_of_another_run_is_refused(self):
        with self.started("own", 1, 0, parallel=flow(), run={"steps": 100000}):
            self.wait_for_steps("own", 1)
            other = self.config("other", run={"dir": str(self.shared / "own"), "seed": 6},
                                **self.values(parallel=flow()))
            result = subprocess.run([self.program, "encoder", str(other)], text=True,
                                    env=tiny_run.environment(), capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        for word in ("encoder does not belong to the run", "run.seed"):
            self.assertIn(word, result.stderr)

    def test_what_cannot_flow_is_refused(self):
        for name, ranks, values, words in (
                ("trains", 1, {"parallel": flow()}, ["modules.vision.train", "model.freeze"]),
                ("rings", 2, self.values(parallel=flow(cp=2)), ["modules.backbone.mesh", "cp"]),
                ("lists", 1, self.values(parallel={"vision": {"placement": "flow", "tp": 2}}),
                 ["parallel.vision.tp", "placement flow"])):
            with self.subTest(name):
                result = self.launch(f"refused-{name}", ranks, **values)
                self.assertEqual(result.returncode, 2, result.stderr)
                for word in words:
                    self.assertIn(word, result.stderr)
        result = subprocess.run([self.program, "encoder", str(self.config("no-flow"))], text=True,
                                env=tiny_run.environment(), capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("placement flow", result.stderr)


if __name__ == "__main__":
    beside_one_process.main()
