"""Test cases of runs with encoders that are processes beside them."""

import contextlib
import subprocess

import beside_one_process
import run_case
import tiny_run

MANY = 200  # steps, so that there is time to strike
# A rate that does not depend on run.steps, so that a run may be compared up to where it was stopped.
CONSTANT_RATE = {"schedule": {"decay": "constant", "warmup_steps": 2}, "optimizer": {"learning_rate": 1e-4}}


def flow(**backbone):
    """A section `parallel`: the tower beside the run, and degrees of the backbone."""
    return backbone | {"vision": {"placement": "flow"}}


class FlowCase(beside_one_process.BesideOneProcess):
    """A workplace; runs freeze the tower, and save seldom."""

    @classmethod
    def setUpClass(cls):
        run_case.RunCase.setUpClass.__func__(cls)

    @classmethod
    def values(cls, **values):
        return {"model": {"freeze": ["vision"]}, "checkpoint": {"every": 50}} | values

    def command(self, name, ranks, encoders, options=(), **values):
        return [self.program, "launch", "-n", str(ranks), "--encoders", str(encoders), *options, "--",
                "train", str(self.config(name, **self.values(**values)))]

    def flow_run(self, name, ranks, encoders, **values):
        """Trains to a good end; returns the run directory."""
        result = subprocess.run(self.command(name, ranks, encoders, **values),
                                env=tiny_run.environment(), text=True, capture_output=True,
                                timeout=240)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.shared / name

    @contextlib.contextmanager
    def started(self, name, ranks, encoders, variables=None, **values):
        """A launcher under way, with environment variables of its own, which is killed at the end."""
        launcher = subprocess.Popen(self.command(name, ranks, encoders, **values),
                                    env=tiny_run.environment() | (variables or {}), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            yield launcher
        finally:
            launcher.kill()
            launcher.communicate()

    def expect_good_end(self, launcher):
        """Returns what the launcher wrote."""
        out, err = launcher.communicate(timeout=120)
        self.assertEqual(launcher.returncode, 0, err)
        return out + err

    def children_of(self, launcher, words=""):
        """The processes that it has started, or those with some words."""
        listed = subprocess.run(["pgrep", "-f", "-P", str(launcher.pid), words or "."],
                                capture_output=True, text=True)
        return [int(word) for word in listed.stdout.split()]

    def encoders_of(self, launcher):
        return self.children_of(launcher, " encoder ")

    def use(self, run):
        """What each step took from encoders."""
        return [line["flow"] for line in tiny_run.read_lines(run / "metrics.jsonl")]

    def sum_of(self, run, key):
        return sum(line[key] for line in self.use(run))
