"""Strikes encoders beside a run, and the launcher: the run goes on to the same bits without a long step, and
nothing is left behind.

usage: lost_encoders.py TRIBUTARY [unittest arguments]; TRIB_TEST_FULL=1: five trials of each strike, with the
figures of docs/results/faults.md
"""

import os
import pathlib
import signal
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import beside_one_process  # noqa: E402
import flow_case  # noqa: E402
import tiny_run  # noqa: E402
from flow_case import MANY, flow  # noqa: E402

FULL = os.environ.get("TRIB_TEST_FULL") == "1"
FENCED_AFTER = 3.0  # s, an encoder that is silent
# The longest step after the strike; the rest is for a machine that is busy.
LIMITS = {"killed": 2.0, "stopped": FENCED_AFTER * 1.1 + 2.0, "paused": 1.0 + 2.0}


def seconds_of(line):
    return sum(line["seconds"].values())


class LostEncoders(flow_case.FlowCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = cls.train_alone("alone", **cls.values(parallel=flow(), run={"steps": MANY}))

    def strike(self, name, how):
        """Strikes one of two encoders. Returns the longest step afterwards [s]."""
        with self.started(name, 1, 2, parallel=flow(), run={"steps": MANY}) as launcher:
            self.wait_for_steps(name, 20)
            first, _ = self.encoders_of(launcher)
            os.kill(first, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            if how == "paused":
                time.sleep(1)
                os.kill(first, signal.SIGCONT)
            self.expect_good_end(launcher)
        run = self.shared / name
        self.expect_same_bits(run, self.alone)
        lines = tiny_run.read_lines(run / "metrics.jsonl")
        self.assertGreater(lines[-1]["flow"]["encoders"], 0, "the other goes on")
        return max(seconds_of(line) for line in lines[20:])

    def test_a_struck_encoder_costs_no_bit_and_no_long_step(self):
        for how, limit in LIMITS.items():
            with self.subTest(how):
                longest = [self.strike(f"{how}-{trial}", how) for trial in range(5 if FULL else 1)]
                self.assertLess(max(longest), limit)
                if FULL:
                    print(f"{how}: {len(longest)} trials, longest step {min(longest):.2f} / "
                          f"{statistics.median(longest):.2f} / {max(longest):.2f} s", file=sys.stderr)

    def test_an_only_encoder_that_is_killed_leaves_its_work_to_the_rank(self):
        with self.started("only", 1, 1, parallel=flow(), run={"steps": MANY}) as launcher:
            self.wait_for_steps("only", 20)
            (only,) = self.encoders_of(launcher)
            os.kill(only, signal.SIGKILL)
            self.assertIn("another one takes its place", self.expect_good_end(launcher))
        self.expect_same_bits(self.shared / "only", self.alone)
        self.assertGreater(self.sum_of(self.shared / "only", "encoded_here"), 0)

    def test_nothing_is_left_of_a_job_whose_launcher_is_killed(self):
        before = set(os.listdir("/dev/shm"))
        with self.started("orphans", 2, 2, parallel=flow(dp_shard=2), run={"steps": 100000}) as launcher:
            self.wait_for_steps("orphans", 2)
            children = self.children_of(launcher)
            self.assertEqual(len(children), 4)
            launcher.kill()
            launcher.communicate()
            end = time.monotonic() + 5
            while any(os.path.exists(f"/proc/{child}") for child in children):
                self.assertLess(time.monotonic(), end, "a process of the job is still there")
                time.sleep(0.05)
        self.assertEqual(set(os.listdir("/dev/shm")) - before, set())
        # The directory serves the next start, whose pool replaces what the killed one has left.
        with self.started("orphans", 1, 1, parallel=flow(), run={"steps": MANY}) as launcher:
            self.expect_good_end(launcher)


if __name__ == "__main__":
    beside_one_process.main()
