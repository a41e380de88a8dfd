"""`tributary launch` as a user meets it: output, causes, restarts, signals. argv[1]: the executable.

A rank that shall wait reads its configuration from a pipe that nobody writes.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TRIBUTARY = sys.argv.pop(1)
LATE = 120  # s, on a busy machine


def launch(*words, **options):
    return subprocess.Popen([TRIBUTARY, "launch", *words], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


def run(*words, **options):
    process = launch(*words, **options)
    output, errors = process.communicate(timeout=LATE)
    return process.returncode, output, errors


def wait_for(condition):
    end = time.monotonic() + LATE
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.01)
    return found


def ranks_of(launcher):
    """Returns {rank: (process, variables, words)} of the running ranks."""
    ranks = {}
    for process in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        try:
            variables = Path(f"/proc/{process}/environ").read_text().split("\0")
            words = Path(f"/proc/{process}/cmdline").read_text().split("\0")[1:-1]
        except OSError:  # the process has just ended
            continue
        variables = dict(entry.split("=", 1) for entry in variables if "=" in entry)
        if "TRIB_RANK" in variables and words[:1] != ["launch"]:
            ranks[int(variables["TRIB_RANK"])] = (int(process), variables, words)
    return ranks


class Ends(unittest.TestCase):
    def test_all_ranks_done(self):
        code, output, errors = run("-n", "3", "--", "config", "--keys")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(output.count("# Configuration of a run"), 1, "rank 0 alone is heard")

    def test_wrong_input_of_all_ranks_is_shown_once_and_not_restarted(self):
        code, _, errors = run("-n", "4", "--", "config", "missing.yaml")
        self.assertEqual(code, 2, errors)
        self.assertEqual(errors.count("file cannot be read; where: missing.yaml"), 1, errors)
        self.assertRegex(errors.splitlines()[-1],
                         r"^tributary launch: rank \d left with exit code 2: input error: config: ")

    def test_a_training_job_that_is_wrong_starts_no_rank(self):
        code, _, errors = run("-n", "3", "--", "train", "missing.yaml", "--resume", "auto")
        self.assertEqual(code, 2, errors)
        self.assertRegex(errors, r"^input error: config: file cannot be read; where: missing\.yaml[^\n]*\n$")

    def test_an_error_of_several_lines_is_named_whole_and_last(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "run.yaml"
            config.write_text("run: {steps: -1, seed: x}\nmodel: {path: .}\n")
            code, _, errors = run("-n", "2", "--", "config", config)
        self.assertEqual(code, 2, errors)
        last = errors[errors.index("tributary launch: rank "):]
        self.assertEqual(errors, last)
        self.assertRegex(last, r"(?s)input error: config: \d problems; where: .*\n  1\. .*\n  2\. ")

    def test_mistakes_on_the_command_line(self):
        for words, found in ((["-n", "0", "--", "doctor"], "1 to 4096"),
                             (["--", "doctor"], "1 to 4096"),
                             (["-n", "2"], "nothing to launch"),
                             (["-n", "2", "--restarts", "-1", "--", "doctor"], "restarts below 0"),
                             (["-n", "2", "--pause", "-1", "--", "doctor"], "pause below 0"),
                             *((["-n", "2", "--encoders", each, "--", "doctor"], "a range MIN-MAX")
                               for each in ("-1", "3-1", "1-", "two", "1-256")),
                             (["-n", "1", "--encoders", "1", "--", "train", "x.yaml", "--restart", "0"],
                              "command line not understood"),
                             (["-n", "2", "--", "launch"], "launch launches itself")):
            with self.subTest(words=words):
                code, _, errors = run(*words)
                self.assertEqual(code, 2, errors)
                self.assertIn(found, errors)


class Waiting(unittest.TestCase):
    """Ranks that wait until a test kills or stops them."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.pipe = f"{self.folder.name}/run.yaml"
        os.mkfifo(self.pipe)
        self.launchers = []

    def tearDown(self):
        for launcher in self.launchers:
            launcher.kill()
            launcher.communicate()
        self.folder.cleanup()

    def start(self, *words, **options):
        launcher = launch(*words, **options)
        self.launchers.append(launcher)
        return launcher

    def ranks(self, launcher, count, attempt=0):
        def ready():
            ranks = ranks_of(launcher.pid)
            of_attempt = all(v["TRIB_ATTEMPT"] == str(attempt) for _, v, _ in ranks.values())
            return ranks if len(ranks) == count and of_attempt else None
        return wait_for(ready)

    def assert_gone(self, ranks):
        wait_for(lambda: not any(Path(f"/proc/{process}/cmdline").exists() and
                                 Path(f"/proc/{process}/cmdline").read_bytes()
                                 for process, _, _ in ranks.values()))

    def test_ranks_know_who_they_are(self):
        environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
        launcher = self.start("-n", "2", "--", "config", self.pipe, env=environment)
        ranks = self.ranks(launcher, 2)
        for rank, (_, variables, words) in ranks.items():
            self.assertEqual(words, ["config", self.pipe])
            self.assertEqual(variables["TRIB_WORLD_SIZE"], "2")
            self.assertEqual(variables["OMP_NUM_THREADS"], str(max(1, os.cpu_count() // 2)))
            self.assertEqual("TRIB_STORE_DESCRIPTOR" in variables, rank == 0)
        descriptor = ranks[0][1]["TRIB_STORE_DESCRIPTOR"]
        self.assertIn("socket:", os.readlink(f"/proc/{ranks[0][0]}/fd/{descriptor}"))
        self.assertEqual(len({v["TRIB_STORE_PORT"] for _, v, _ in ranks.values()}), 1)

    def test_a_killed_rank_ends_the_others_and_is_the_cause(self):
        launcher = self.start("-n", "3", "--restarts", "0", "--", "config", self.pipe)
        ranks = self.ranks(launcher, 3)
        start = time.monotonic()
        os.kill(ranks[1][0], signal.SIGKILL)
        _, errors = launcher.communicate(timeout=LATE)
        print(f"kill -9 of a rank: the launcher has ended after {time.monotonic() - start:.2f} s")
        self.assertEqual(launcher.returncode, 137)
        self.assertEqual(errors.splitlines()[-1],
                         "tributary launch: rank 1 was killed by signal 9 (Killed)")
        self.assert_gone(ranks)

    def test_a_rank_that_ignores_sigterm_is_killed(self):
        launcher = self.start("-n", "2", "--restarts", "0", "--", "config", self.pipe)
        ranks = self.ranks(launcher, 2)
        os.kill(ranks[0][0], signal.SIGSTOP)  # SIGTERM waits until it continues
        os.kill(ranks[1][0], signal.SIGKILL)
        launcher.communicate(timeout=LATE)
        self.assertEqual(launcher.returncode, 137)
        self.assert_gone(ranks)

    def test_training_goes_on_from_its_newest_checkpoint(self):
        launcher = self.start("-n", "1", "--pause", "0.05", "--", "train", self.pipe, "run.steps=5",
                              "--resume", "old")
        os.kill(self.ranks(launcher, 1)[0][0], signal.SIGKILL)
        words = self.ranks(launcher, 1, attempt=1)[0][2]
        self.assertEqual(words, ["train", self.pipe, "run.steps=5", "--resume", "auto"])

    def test_three_failures_at_one_step_are_a_crash_loop(self):
        launcher = self.start("-n", "1", "--pause", "0.05", "--", "train", self.pipe)
        for attempt in range(3):
            ranks = self.ranks(launcher, 1, attempt)
            self.assertEqual(ranks[0][2][2:], ["--resume", "auto"] if attempt else [])
            os.kill(ranks[0][0], signal.SIGKILL)
        _, errors = launcher.communicate(timeout=LATE)
        self.assertEqual(launcher.returncode, 14)
        self.assertIn("restart 2 of 10 in 0.1 s", errors)
        self.assertIn("crash loop: 3 failures before any step", errors)
        self.assertIn("attempt 2, exit code 137: rank 0 was killed by signal 9", errors)

    def test_signals_go_to_all_ranks_and_nothing_is_restarted(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                launcher = self.start("-n", "2", "--", "config", self.pipe)
                ranks = self.ranks(launcher, 2)
                launcher.send_signal(number)
                _, errors = launcher.communicate(timeout=LATE)
                self.assertEqual(launcher.returncode, 128 + number)
                self.assertNotIn("restart", errors)
                self.assert_gone(ranks)

    def test_no_rank_outlives_a_killed_launcher(self):
        launcher = self.start("-n", "2", "--", "config", self.pipe)
        ranks = self.ranks(launcher, 2)
        launcher.kill()
        launcher.communicate(timeout=LATE)
        self.assert_gone(ranks)


if __name__ == "__main__":
    unittest.main()
