"""Trains a tower in processes beside the run: weights go there, and gradients come back.

usage: flow_training.py TRIBUTARY [unittest arguments]
"""

import os
import signal

import beside_one_process
import flow_case
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
