"""Runs that must leave the bits of one that nothing disturbed."""

import rank_job
import run_case


class SameBits(run_case.Workplace):
    """A workplace `shared`, in which `run_straight` of the test class makes the run `straight`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_straight()
        cls.losses = rank_job.losses_of(cls.shared / "straight")
        cls.tensors = rank_job.tensors_of(cls.shared / "straight")

    def expect_same_bits(self, name):
        self.assertEqual(rank_job.losses_of(self.shared / name), self.losses)
        self.assertEqual(rank_job.tensors_of(self.shared / name), self.tensors)
