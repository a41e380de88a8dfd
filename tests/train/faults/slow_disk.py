"""A disk so slow that a save takes longer than its deadline, under a run of two ranks: it is waited
for as long as it goes on, and no longer.

usage: slow_disk.py TRIBUTARY SLOW_DISK_LIBRARY [unittest arguments]
"""

import signal
import subprocess
import sys
import time
import unittest

import rank_job
import run_case
import tiny_run

PROGRAM = None
LIBRARY = None
DEADLINE = 2.0  # s, parallel.checkpoint_deadline_seconds


class SlowDisk(run_case.Workplace):
    def commands(self, name, is_async):
        config = tiny_run.write_config(
            self.shared / f"{name}.yaml", self.shared,
            run={"dir": str(self.shared / name), "steps": 2},
            validation={"final_samples_per_source": 1, "max_new_tokens": 1},
            checkpoint={"every": 1, "async": is_async}, metrics={"tensorboard": False},
            parallel={"checkpoint_deadline_seconds": DEADLINE})
        return [[PROGRAM, "train", str(config)]] * 2

    @staticmethod
    def slow(seconds):
        """Only the disk of rank 0 is slow: the other rank waits for it."""
        def variables(rank, world, port):
            return rank_job.torch_variables(rank, world, port) | {
                "LD_PRELOAD": LIBRARY, "SLOW_DISK_SECONDS": seconds if rank == 0 else 0}
        return variables

    def test_a_save_that_goes_on_may_take_longer_than_its_deadline(self):
        for is_async in (False, True):
            with self.subTest(is_async=is_async):
                name = f"slow-{is_async}"
                began = time.monotonic()
                rank_job.run_to_the_end(self.commands(name, is_async), self.slow(0.03))
                seconds = time.monotonic() - began
                print(f"async {is_async}: two saves in {seconds:.1f} s, deadline {DEADLINE} s")
                self.assertGreater(seconds, 4 * DEADLINE)
                self.assertEqual(rank_job.tensors_of(self.shared / name)[0], "step-2")

    def test_a_save_that_stands_still_ends_the_run(self):
        for is_async in (False, True):
            with self.subTest(is_async=is_async):
                name = f"stuck-{is_async}"
                with rank_job.Job(self.commands(name, is_async), self.slow(1000)) as job:
                    for code, _, words in job.wait_for(range(2)).values():
                        self.assertEqual(code, 11, words)
                        (line,) = rank_job.causes_in(words)
                        self.assertRegex(line, "no progress: rank [01] on ")
                        self.assertIn("section checkpoint of step", line)
                        self.assertIn("deadline 2.0 s", line)


    # A stop beside a slow save: some 190 calls, each that much longer.

    def stop(self, name, seconds, grace, *launcher):
        """Asks a run to stop after some steps; returns its exit code, what it said, its steps saved."""
        config = tiny_run.write_config(
            self.shared / f"{name}.yaml", self.shared,
            run={"dir": str(self.shared / name), "steps": 100_000},
            checkpoint={"every": 100_000}, metrics={"tensorboard": False, "console_every": 1000},
            stability={"stop_grace_seconds": grace})
        environment = rank_job.environment({"LD_PRELOAD": LIBRARY, "SLOW_DISK_SECONDS": seconds})
        with subprocess.Popen([PROGRAM, *launcher, "train", str(config)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            metrics = self.shared / name / "metrics.jsonl"
            end = time.monotonic() + rank_job.LATE
            while not metrics.exists() or metrics.read_text().count("\n") < 2:
                self.assertIsNone(process.poll())
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=rank_job.LATE)
        saved = [path.name for path in (self.shared / name / "checkpoints").glob("step-*")
                 if path.name[5:].isdigit()]
        return process.returncode, said, saved

    def test_a_save_within_the_grace_is_committed(self):
        for name, launcher in (("alone", []), ("launched", ["launch", "-n", "2", "--"])):
            with self.subTest(name):
                code, said, saved = self.stop(f"grace-{name}", 0.02, 60, *launcher)
                self.assertEqual(code, 15, said)
                self.assertEqual(len(saved), 1)
                self.assertIn("stopped after step " + saved[0][5:], said)

    def test_the_launcher_leaves_the_ranks_the_grace_that_they_have(self):
        code, said, saved = self.stop("grace-long", 0.17, 200, "launch", "-n", "2", "--")
        self.assertEqual(code, 15, said)
        self.assertEqual(len(saved), 1)

    def test_a_save_longer_than_the_grace_is_lost_and_the_last_line_says_so(self):
        for name, launcher in (("alone", []), ("launched", ["launch", "-n", "2", "--"])):
            with self.subTest(name):
                code, said, saved = self.stop(f"late-{name}", 2, 3, *launcher)
                self.assertIn("the time that SIGTERM leaves is over (stability.stop_grace_seconds): "
                              "ending at once; a save that was under way is lost", said)
                self.assertNotIn("stopped after step", said)
                self.assertEqual(saved, [])
                self.assertEqual(code, 143, said)


if __name__ == "__main__":
    PROGRAM, LIBRARY = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=2)
