"""Cuts the network between the two nodes of a run: both leave in time, each naming the other.

usage: network_cut.py TRIBUTARY [unittest arguments]
"""

import pathlib
import sys
import tempfile
import time
import unittest

import rank_job
import tiny_run
import two_nodes

PROGRAM = None
LOST_AFTER = 2.0  # s, parallel.lost_after_seconds
LIMIT = LOST_AFTER * 1.1 + 6.0


class NetworkCut(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.shared = pathlib.Path(folder.name)
        tiny_run.make_workplace(self.shared)

    def command(self, *arguments):
        config = tiny_run.write_config(
            self.shared / "run.yaml", self.shared, checkpoint={"every": 3},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            parallel={"heartbeat_seconds": 0.1, "lost_after_seconds": LOST_AFTER})
        return [PROGRAM, "train", str(config), *arguments]

    @staticmethod
    def variables(rank, world, port):
        return rank_job.torch_variables(rank, world, port, two_nodes.NAMES[0], local=False)

    def wait_for_checkpoint(self):
        checkpoints, end = self.shared / "run/checkpoints", time.monotonic() + rank_job.LATE
        while not any(path.name[5:].isdigit() for path in checkpoints.glob("step-*")):
            self.assertLess(time.monotonic(), end, "no checkpoint")
            time.sleep(0.01)

    def test_both_sides_leave_in_time_and_name_the_other(self):
        with two_nodes.TwoNodes() as nodes:
            commands = [nodes.on(rank, self.command("run.steps=100000")) for rank in range(2)]
            with rank_job.Job(commands, self.variables) as job:
                self.wait_for_checkpoint()
                cut_at = time.monotonic()
                nodes.cut()
                ends = job.wait_for(range(2), cut_at)
            for rank, (code, seconds, words) in ends.items():
                print(f"rank {rank} left {seconds:.2f} s after the cut", flush=True)
                self.assertEqual(code, 10, words)
                self.assertLess(seconds, LIMIT)
                (line,) = rank_job.causes_in(words)
                self.assertIn(f"rank lost: rank {1 - rank} on {two_nodes.NAMES[1 - rank]}", line)
                self.assertIn("none for 2 s (parallel.lost_after_seconds)", line)
        # A network that is whole again: the run goes on.
        newest = rank_job.tensors_of(self.shared / "run")[0]
        steps = int(newest.removeprefix("step-")) + 2
        with two_nodes.TwoNodes() as nodes:
            rank_job.run_to_the_end(
                [nodes.on(rank, self.command(f"run.steps={steps}", "--resume", "auto"))
                 for rank in range(2)], self.variables)
        self.assertEqual(rank_job.losses_of(self.shared / "run")[-1][0], steps)


if __name__ == "__main__":
    two_nodes.enter_or_skip()
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
