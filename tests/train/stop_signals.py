"""Signals to a real `tributary train`: in the middle, in the last step, in the last validation, and
while it is stuck.

usage: stop_signals.py TRIBUTARY [unittest arguments]
"""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tiny_run

PROGRAM = None
SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of fcntl.h


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it never came to that")
        time.sleep(0.002)


class StopSignals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.shared = pathlib.Path(cls.folder.name)
        tiny_run.write_data(cls.shared / "data", held_out=60)
        tiny_run.write_model(cls.shared / "model", cls.shared / "data")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def config(self, name, **values):
        values["run"] = {"dir": str(self.shared / name), "steps": 8, **values.get("run", {})}
        values.setdefault("batch", {"global_samples": 24, "capacity_tokens": 160})
        values.setdefault("checkpoint", {"every": 100})
        return tiny_run.write_config(self.shared / f"{name}.yaml", self.shared, **values)

    def expect_stopped(self, process, run, config):
        """Exit 15 with a checkpoint, no accuracy, and a run that goes on from there to its end."""
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 15, errors)
        self.assertIn(f"tributary train {config} --resume auto", output)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["stopped"], "terminated")
        self.assertNotIn("accuracy", summary)
        self.assertTrue((run / summary["checkpoint"] / "MANIFEST.json").is_file())
        self.assertFalse((run / "validation.jsonl").exists())
        result = tiny_run.train(PROGRAM, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        steps = [line["step"] for line in tiny_run.read_lines(run / "metrics.jsonl")]
        self.assertEqual(steps, list(range(1, 9)))
        self.assertEqual(json.loads((run / "summary.json").read_text())["stopped"], "done")
        return summary

    def test_sigint_and_sigterm_in_the_middle(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                config = self.config(f"middle-{number}")
                process, run = tiny_run.start(PROGRAM, config, 2)
                process.send_signal(number)
                summary = self.expect_stopped(process, run, config)
                self.assertLess(summary["steps"], 8)

    def test_sigterm_in_the_last_step(self):
        config = self.config("last-step")
        process, run = tiny_run.start(PROGRAM, config, 7)
        time.sleep(0.02)  # step 7 is over; step 8 takes longer than that
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.expect_stopped(process, run, config)["steps"], 8)

    def test_sigterm_in_the_last_validation(self):
        config = self.config("last-validation", validation={"max_new_tokens": 200})
        process, run = tiny_run.start(PROGRAM, config, 8)
        wait_until((run / "checkpoints/step-8").is_dir)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.expect_stopped(process, run, config)["steps"], 8)

    def start_and_get_stuck(self, name, grace, **options):
        """A run whose output nobody reads: it hangs in a write for ever."""
        config = self.config(name, run={"steps": 100_000}, stability={"stop_grace_seconds": grace},
                             batch={"global_samples": 2, "capacity_tokens": 160})
        ours, theirs = os.pipe()
        self.addCleanup(os.close, ours)
        fcntl.fcntl(theirs, SET_PIPE_SIZE, 4096)
        process, run = tiny_run.start(PROGRAM, config, 2, stdout=theirs, **options)
        os.close(theirs)
        last = [0, time.monotonic()]

        def is_stuck():
            size = (run / "metrics.jsonl").stat().st_size
            if size != last[0]:
                last[:] = [size, time.monotonic()]
            return time.monotonic() - last[1] > 2

        wait_until(is_stuck)
        return process

    def test_stuck_run_ends_with_its_grace(self):
        process = self.start_and_get_stuck("stuck", grace=2)
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        self.assertIn("the time that SIGTERM leaves is over", errors)
        self.assertGreater(time.monotonic() - begin, 0.9)
        self.assertLess(time.monotonic() - begin, 10)

    def test_second_sigterm_ends_a_stuck_run_at_once(self):
        process = self.start_and_get_stuck("stuck-twice", grace=600, stderr=subprocess.STDOUT)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=10), 128 + signal.SIGTERM)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
