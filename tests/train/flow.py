"""Trains with encoders that are processes beside the run, as users start it.

usage: flow.py TRIBUTARY [unittest arguments]
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import bad_pictures
import beside_one_process
import families
import flow_case
import placements
import tiny_run
from flow_case import CONSTANT_RATE, MANY, flow


class Flow(flow_case.FlowCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.frozen = cls.train_alone("frozen", **cls.values())

    def expect_like_one(self, run, one=None):
        one = one or self.frozen
        self.expect_losses(run, one, loss=1e-5, grad_norm=1e-4)
        self.expect_held_out(run, one, loss=1e-5)
        self.expect_parameters(run, one)

    def test_features_of_encoders_train_like_one_process(self):
        for name, ranks, encoders, parallel in (
                ("one-rank", 1, 1, flow()), ("replicas", 2, 2, flow(dp_shard=2)),
                ("tensor", 2, 1, flow(tp=2)), ("pipeline", 2, 1, flow(pp=2)),
                ("split", 4, 1, flow(cp=2, ulysses=2))):
            with self.subTest(name):
                run = self.flow_run(name, ranks, encoders, parallel=parallel)
                self.expect_like_one(run)
                self.assertGreater(self.sum_of(run, "objects"), 0)
                self.assertEqual(sum(self.decoded(run)), 0, "encoders read the pictures")
                self.assertEqual((self.sum_of(run, "joined"), self.sum_of(run, "lost")), (encoders, 0))
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

    @unittest.skipUnless(os.environ.get("TRIB_TEST_FULL") == "1", "takes some 20 s")
    def test_a_step_of_thousands_of_pictures_has_the_same_bits(self):
        # Its PLAN and both ASSIGNs fill more than one frame.
        path = self.shared / "data/many.train.jsonl"
        path.write_text((self.shared / "data/colours.train.jsonl").read_text() * 110)
        values = lambda: {
            "parallel": flow(), "run": {"steps": 2}, "checkpoint": {"every": 2},
            "data": {"sources": [{"name": "many", "path": str(path)}], "max_pixels": 784},
            "batch": {"global_samples": 5000, "capacity_tokens": 4000}}
        alone = self.flow_run("thousands-alone", 1, 0, **values())
        run = self.flow_run("thousands", 1, 2, pool={"encoders": 2, "ahead": 1}, **values())
        self.expect_same_bits(run, alone)
        self.assertEqual(self.sum_of(run, "objects") + self.sum_of(run, "encoded_here"), 10000)
        self.assertGreater(self.sum_of(run, "objects"), 5000)

    def test_ucx_moves_the_same_bits(self):
        if not (pathlib.Path(self.program).parent / "libtributary_ucx.so").exists():
            self.skipTest("this build has no UCX")
        values = {"parallel": flow(), "run": {"steps": 10}}
        alone = self.flow_run("nobody-4", 1, 0, **json.loads(json.dumps(values)))
        result = subprocess.run(self.command("ucx", 1, 1, pool={"engines": ["ucx"]}, **values),
                                env=tiny_run.environment(), text=True, capture_output=True, timeout=240)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("is read by ucx", result.stderr)
        self.expect_same_bits(self.shared / "ucx", alone)
        self.assertGreater(self.sum_of(self.shared / "ucx", "objects"), 0)

    def test_pictures_that_only_encoders_read_may_be_bad(self):
        shutil.copytree(self.shared / "data", self.shared / "bad")
        for i in range(0, 48, 6):
            bad_pictures.damage(self.shared / f"bad/images/train-{i}.png")
        sources = [{"name": name, "path": str(self.shared / f"bad/{name}.train.jsonl"),
                    "held_out": str(self.shared / f"bad/{name}.held_out.jsonl")}
                   for name in ("colours", "words")]
        values = lambda: {"data": {"sources": sources, "bad_at_least": 20}, "run": {"steps": 30}}
        for name, parallel, ahead in (("replicas", flow(dp_shard=2), 1), ("stages", flow(pp=2), 4)):
            with self.subTest(name):
                alone = self.flow_run(f"bad-{name}-alone", 2, 0, parallel=parallel, **values())
                run = self.flow_run(f"bad-{name}", 2, 1, parallel=parallel, pool={"ahead": ahead}, **values())
                self.expect_same_bits(run, alone)
                quarantined = [sorted(line["key"] for file in each.glob("quarantine*.jsonl")
                                      for line in tiny_run.read_lines(file)) for each in (run, alone)]
                self.assertEqual(*quarantined)
                self.assertGreater(len(quarantined[0]), 3)
                self.assertLess(2 * sum(self.decoded(run)), sum(self.decoded(alone)))
                if ahead == 1:  # nothing is made before its step
                    self.assertGreater(self.sum_of(run, "repeated"), 0)

    def test_an_encoder_may_come_late_and_goes_with_the_run(self):
        alone = self.flow_run("nobody-2", 1, 0, parallel=flow(), run={"steps": MANY})
        config = self.config("late", **self.values(parallel=flow(), run={"steps": MANY}))
        with self.started("late", 1, 0, parallel=flow(), run={"steps": MANY}) as launcher:
            self.wait_for_steps("late", 2)
            encoder = subprocess.Popen([self.program, "encoder", str(config)], text=True,
                                       env=tiny_run.environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            self.assertIn("until some come (tributary encoder), the ranks encode", self.expect_good_end(launcher))
            out, err = encoder.communicate(timeout=60)
            self.assertEqual(encoder.returncode, 0, err)
        self.expect_same_bits(self.shared / "late", alone)
        self.assertEqual(self.use(self.shared / "late")[0]["encoders"], 0)
        self.assertGreater(self.sum_of(self.shared / "late", "objects"), 0)
        self.assertIn("waiting for the run", out)

    def test_a_run_does_not_wait_for_an_encoder_that_has_left_again(self):
        (self.shared / "no-folder").write_text("")
        command = self.command("no-cache", 1, 1, parallel=flow(), run={"steps": 2},
                               pool={"cache": str(self.shared / "no-folder")})
        result = subprocess.run(command, env=tiny_run.environment(), text=True, capture_output=True,
                                timeout=100)  # less than parallel.bootstrap_timeout_seconds
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("directory of features cannot be made", "0 of 1 encoders are there after"):
            self.assertIn(words, result.stderr)

    def test_encoders_go_on_with_a_run_that_starts_again(self):
        alone = self.flow_run("nobody-3", 2, 0, parallel=flow(dp_shard=2), run={"steps": MANY})
        with self.started("again", 2, 1, parallel=flow(dp_shard=2), run={"steps": MANY}) as launcher:
            self.wait_for_steps("again", 60)
            os.kill(self.children_of(launcher, " train ")[-1], signal.SIGKILL)
            self.assertIn("restart 1", self.expect_good_end(launcher))
        self.expect_same_bits(self.shared / "again", alone)
        self.assertGreater(sum(line["objects"] for line in self.use(self.shared / "again")[-20:]), 0)

    def test_a_run_goes_on_with_another_look_ahead(self):
        values = lambda steps, **pool: CONSTANT_RATE | {"parallel": flow(), "run": {"steps": steps}, "pool": pool}
        with self.started("ahead", 1, 1, **values(100000, ahead=1, encoders=1)) as launcher:
            self.wait_for_steps("ahead", 10)
            launcher.send_signal(signal.SIGTERM)
            launcher.communicate(timeout=60)
        before = len(tiny_run.read_lines(self.shared / "ahead/metrics.jsonl"))
        alone = self.train_alone("ahead-alone", **self.values(**values(before + 40)))
        again = subprocess.run([*self.command("ahead", 1, 1, **values(before + 40, ahead=4, encoders=1)),
                                "--resume", "auto"],
                               env=tiny_run.environment(), text=True, capture_output=True, timeout=240)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.expect_same_bits(self.shared / "ahead", alone)
        self.assertGreater(sum(line["objects"] for line in self.use(self.shared / "ahead")[before:]), 0)

    def test_an_encoder_of_another_run_is_refused(self):
        with self.started("own", 1, 0, parallel=flow(), run={"steps": 100000}):
            self.wait_for_steps("own", 1)
            for key in ("run.seed=6", "data.max_pixels=3136"):
                config = self.config("other", run={"dir": str(self.shared / "own")},
                                     **self.values(parallel=flow()))
                result = subprocess.run([self.program, "encoder", str(config), key], text=True,
                                        env=tiny_run.environment(), capture_output=True, timeout=60)
                self.assertEqual(result.returncode, 2, result.stderr)
                for word in ("encoder does not belong to the run", key.partition("=")[0]):
                    self.assertIn(word, result.stderr)

    def test_what_cannot_flow_is_refused(self):
        result = self.launch("refused", 1, **self.values(
            parallel={"vision": {"placement": "flow", "tp": 2}}))
        self.assertEqual(result.returncode, 2, result.stderr)
        for word in ("parallel.vision.tp", "placement flow"):
            self.assertIn(word, result.stderr)
        plain = str(self.config("no-flow"))
        for words in (["encoder", plain], ["launch", "-n", "1", "--encoders", "1", "--", "train", plain]):
            result = subprocess.run([self.program, *words], text=True, env=tiny_run.environment(),
                                    capture_output=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("placement is flow" if "launch" in words else "placement flow", result.stderr)


if __name__ == "__main__":
    beside_one_process.main()
