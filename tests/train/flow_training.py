"""Trains a tower in processes beside the run: weights go there, and gradients come back.

usage: flow_training.py TRIBUTARY [unittest arguments]
"""

import os
import shutil
import signal

import bad_pictures
import beside_one_process
import families
import flow_case
import tiny_run
from flow_case import flow


class FlowTraining(flow_case.FlowCase):
    """Nothing is frozen. A step has several microbatches, some with two pictures and some without any."""

    @classmethod
    def values(cls, **values):
        return {"checkpoint": {"every": 50}, "batch": {"global_samples": 12, "capacity_tokens": 130}} | values

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.inline = cls.train_alone("inline", **cls.values())

    def expect_like_inline(self, run):
        self.expect_losses(run, self.inline, loss=1e-5, grad_norm=1e-4)
        self.expect_held_out(run, self.inline, loss=1e-5)
        self.expect_parameters(run, self.inline)

    def flow_run(self, name, ranks, encoders, **values):
        """With encoders, these make everything."""
        run = super().flow_run(name, ranks, encoders, pool={"encoders": encoders}, **values)
        if encoders > 0:
            self.assertGreater(self.sum_of(run, "gradients"), 0)
            self.assertEqual(self.sum_of(run, "gradients_here"), 0)
            self.assertEqual(self.sum_of(run, "encoded_here"), 0)
        return run

    def test_encoders_train_the_tower_like_one_process(self):
        for name, ranks, parallel in (("one-rank", 1, flow()), ("replicas", 2, flow(dp_shard=2))):
            with self.subTest(name):
                alone = self.flow_run(f"{name}-alone", ranks, 0, parallel=parallel)
                self.expect_like_inline(alone)
                self.expect_same_bits(self.flow_run(name, ranks, 2, parallel=parallel), alone)

    def test_stages_train_like_one_process(self):
        self.expect_like_inline(self.flow_run("stages", 2, 1, parallel=flow(pp=2)))

    def test_one_tower_trains_beside_one_that_is_frozen(self):
        omni = self.shared / "omni-model"
        shutil.copytree(self.shared / "model", omni)
        families.write_family(omni, "qwen2_5_omni_thinker")
        families.write_sounds(self.shared / "data")
        values = lambda: {"model": {"path": str(omni), "freeze": ["vision"]}, "data": {"sources": [
            {"name": name, "path": str(self.shared / f"data/{name}.train.jsonl"),
             "held_out": str(self.shared / f"data/{name}.held_out.jsonl")}
            for name in ("colours", "sounds", "words")]}}
        parallel = lambda: flow(dp_shard=2) | {"audio": {"placement": "flow"}}
        alone = self.flow_run("towers-alone", 2, 0, parallel=parallel(), **values())
        run = self.flow_run("towers", 2, 1, parallel=parallel(), **values())
        self.expect_same_bits(run, alone)
        self.expect_losses(run, self.train_alone("towers-inline", **self.values(**values())), loss=1e-5,
                           grad_norm=1e-4)
        norms = [set(line["norms"]["gradient"]) for line in tiny_run.read_lines(run / "metrics.jsonl")]
        self.assertTrue(all("audio" in each and "vision" not in each for each in norms), norms)
        self.assertGreater(self.sum_of(run, "objects"), self.sum_of(run, "gradients"), "pictures have none")

    def test_bad_pictures_cost_no_bit(self):
        bad = self.shared / "bad"
        shutil.copytree(self.shared / "data", bad)
        for i in range(0, 48, 6):
            bad_pictures.damage(bad / f"images/train-{i}.png")
        values = lambda: {"data": {"sources": [
            {"name": name, "path": str(bad / f"{name}.train.jsonl"), "held_out": str(bad / f"{name}.held_out.jsonl")}
            for name in ("colours", "words")], "bad_at_least": 20}}
        alone = self.flow_run("bad-alone", 1, 0, parallel=flow(), **values())
        # What takes more room than the header of the bad picture says, the rank makes.
        run = flow_case.FlowCase.flow_run(self, "bad", 1, 1, parallel=flow(), pool={"encoders": 1}, **values())
        self.assertGreater(self.sum_of(run, "gradients"), self.sum_of(run, "gradients_here"))
        self.expect_same_bits(run, alone)
        keys = [sorted(line["key"] for file in each.glob("quarantine*.jsonl") for line in tiny_run.read_lines(file))
                for each in (run, alone)]
        self.assertEqual(*keys)
        self.assertGreater(len(keys[0]), 3)

    def test_a_killed_encoder_costs_no_bit(self):
        alone = self.train_alone("alone", **self.values(parallel=flow(), run={"steps": 80}))
        with self.started("killed", 1, 2, parallel=flow(), run={"steps": 80}) as launcher:
            self.wait_for_steps("killed", 10)
            os.kill(self.encoders_of(launcher)[0], signal.SIGKILL)
            self.assertIn("another one takes its place", self.expect_good_end(launcher))
        self.expect_same_bits(self.shared / "killed", alone)
        self.assertGreater(sum(line["gradients"] for line in self.use(self.shared / "killed")[20:]), 0)

    def test_what_cannot_train_beside_the_run_is_refused(self):
        for name, ranks, values, words in (
                ("tensor", 2, {"parallel": flow(tp=2)}, ["modules.backbone.mesh", "that trains"]),
                ("pairs", 1, {"parallel": flow(), "objective": {"kind": "dpo"}},
                 ["parallel.vision.placement", "dpo"])):
            with self.subTest(name):
                result = self.launch(f"refused-{name}", ranks, **self.values(**values))
                self.assertEqual(result.returncode, 2, result.stderr)
                for word in words:
                    self.assertIn(word, result.stderr)


if __name__ == "__main__":
    beside_one_process.main()
