"""Runs that must leave the bits of one that nothing disturbed."""

import pathlib
import tempfile
import unittest

import rank_job
import tiny_run


class SameBits(unittest.TestCase):
    """A workplace `shared`, in which `run_straight` of the test class makes the run `straight`."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.shared = pathlib.Path(cls.folder.name)
        tiny_run.make_workplace(cls.shared)
        cls.run_straight()
        cls.losses = rank_job.losses_of(cls.shared / "straight")
        cls.tensors = rank_job.tensors_of(cls.shared / "straight")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def expect_same_bits(self, name):
        self.assertEqual(rank_job.losses_of(self.shared / name), self.losses)
        self.assertEqual(rank_job.tensors_of(self.shared / name), self.tensors)
