"""scripts/run_tests.sh on builds of a few tests: what it runs once more, and what it never forgives."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "run_tests.sh"
PASSES = "true"
FAILS = "false"
CRASHES = "kill -SEGV $$"
FAILS_ONCE = "test -e ran || { touch ran; false; }"


def run_tests(*commands: str) -> subprocess.CompletedProcess:
    """Runs the script in a new build folder, whose tests t0, t1, ... are shell commands."""
    with tempfile.TemporaryDirectory() as build:
        tests = (f'add_test(t{i} "bash" "-c" [==[{command}]==])\n' for i, command in enumerate(commands))
        pathlib.Path(build, "CTestTestfile.cmake").write_text("".join(tests))
        return subprocess.run(["bash", SCRIPT, build, "1"], text=True, capture_output=True, timeout=60)


class RunTests(unittest.TestCase):
    def test_a_new_build_whose_tests_all_pass(self):
        run = run_tests(PASSES, PASSES)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("100% tests passed", run.stdout)
        self.assertNotIn("once more", run.stdout)

    def test_one_that_fails_once_is_named(self):
        run = run_tests(PASSES, FAILS_ONCE)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("unsteady, failed once and passed alone: t1", run.stdout)

    def test_one_that_fails_twice_fails_the_run(self):
        run = run_tests(PASSES, FAILS)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("once more, alone: t1", run.stdout)
        self.assertNotIn("unsteady", run.stdout)

    def test_a_crash_is_not_run_again(self):
        run = run_tests(PASSES, CRASHES)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("once more", run.stdout)

    def test_many_that_fail_are_not_run_again(self):
        run = run_tests(FAILS, FAILS, FAILS, FAILS)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("once more", run.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
