"""Trains beside a range of encoders, which are slow at first and fast later.

usage: encoder_range.py TRIBUTARY [unittest arguments]
"""

import contextlib
import os
import signal
import subprocess
import threading
import time

import beside_one_process
import flow_case
import tiny_run
from flow_case import CONSTANT_RATE, flow


class EncoderRange(flow_case.FlowCase):
    @classmethod
    def values(cls, **values):
        return super().values(**CONSTANT_RATE, **values)

    def lines(self, name):
        metrics = self.shared / name / "metrics.jsonl"
        return tiny_run.read_lines(metrics) if metrics.exists() else []

    def wait_for(self, name, condition):
        """Waits until the lines of a run fulfil a condition."""
        end = time.monotonic() + 120
        while not condition(self.lines(name)):
            self.assertLess(time.monotonic(), end, f"{name}: {[line['flow'] for line in self.lines(name)][-1:]}")
            time.sleep(0.1)

    @contextlib.contextmanager
    def slowed(self, launcher, verb):
        """Lets the processes of a verb run for a tenth of the time, from when they start."""
        done = threading.Event()

        def tell(signal_):
            for process in self.children_of(launcher, f" {verb} "):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal_)

        def slow():
            while not done.is_set():
                tell(signal.SIGSTOP)
                done.wait(0.09)
                tell(signal.SIGCONT)
                done.wait(0.01)

        thread = threading.Thread(target=slow)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def test_encoders_come_and_leave_as_the_ranks_need_them(self):
        # Nobody reads the console meanwhile, so it must fit into a pipe.
        values = {"parallel": flow(), "pool": {"window_seconds": 1}, "metrics": {"console_every": 1000}}
        with self.started("range", 1, "1-2", run={"steps": 100000}, **values) as launcher:
            with self.slowed(launcher, "encoder"):  # before the first step: at full speed noise may ask for 2
                self.wait_for("range", lambda lines: any(line["flow"]["wanted"] == 2 for line in lines))
            self.wait_for("range", lambda lines: any(line["flow"]["encoders"] == 2 for line in lines))
            with self.slowed(launcher, "train"):
                self.wait_for("range", lambda lines: sum(line["flow"]["left"] for line in lines) >= 1)
            self.wait_for_steps("range", len(self.lines("range")) + 5)
            launcher.send_signal(signal.SIGTERM)
            out, err = launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, 15, err)
        steps = len(self.lines("range"))
        alone = self.train_alone("alone", **self.values(parallel=flow(), run={"steps": steps}))
        self.expect_same_bits(self.shared / "range", alone)

        # Later a noisy window may ask for the second one again.
        self.assertGreaterEqual(self.sum_of(self.shared / "range", "joined"), 2)
        self.assertGreaterEqual(self.sum_of(self.shared / "range", "left"), 1)
        self.assertEqual(self.sum_of(self.shared / "range", "lost"), 0)
        reasons = [line["reallocation"] for line in self.lines("range") if "reallocation" in line]
        for wanted, reason in zip((2, 1), reasons[:2], strict=True):
            self.assertIn("ranks lacked features for", reason)
            self.assertRegex(out, rf"encoders   {wanted} from step \d+ on: {reason}")
        self.assertNotIn("takes its place", err)

    def test_a_range_begins_with_the_number_of_the_plan(self):
        run = self.flow_run("planned", 1, "1-3", run={"steps": 2},
                            parallel={"vision": {"placement": "flow", "dp_replicate": 2}})
        self.assertEqual([(line["wanted"], line["encoders"]) for line in self.use(run)], [(2, 2)] * 2)

    def test_a_range_that_nobody_serves_is_refused(self):
        trained = subprocess.run(
            [self.program, "launch", "-n", "1", "--encoders", "1-2", "--", "train",
             str(self.config("trained", parallel=flow()))],
            env=tiny_run.environment(), text=True, capture_output=True, timeout=60)
        self.assertEqual(trained.returncode, 2, trained.stderr)
        self.assertIn("fixed number of encoders", trained.stderr)
        alone = tiny_run.train(self.program, self.config("no-launcher", **self.values(parallel=flow())),
                               "pool.max_encoders=2")
        self.assertEqual(alone.returncode, 2, alone.stderr)
        self.assertIn("nobody starts encoders", alone.stderr)


if __name__ == "__main__":
    beside_one_process.main()
