"""Test cases that compare runs on several processes with the same run on one."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import run_case
import safetensors.numpy
import tiny_run


class BesideOneProcess(run_case.RunCase):
    """A workplace `shared`, in which one process has made the run `one`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one = cls.train_alone("one")

    @classmethod
    def train_alone(cls, name, *arguments, **values):
        """Trains on one process; returns the run directory."""
        result = tiny_run.train(cls.program, cls.config(name, **values), *arguments)
        assert result.returncode == 0, result.stderr
        return cls.shared / name

    def launch(self, name, ranks, *arguments, **values):
        """Trains on `ranks` processes; returns the finished launcher."""
        return subprocess.run(
            [self.program, "launch", "-n", str(ranks), "--", "train",
             str(self.config(name, **values)), *arguments],
            env=tiny_run.environment(), text=True, capture_output=True, timeout=240)

    def launch_well(self, name, ranks, *arguments, **values):
        """As launch, to a good end; returns the run directory."""
        result = self.launch(name, ranks, *arguments, **values)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.shared / name

    def expect_losses(self, run, one=None, loss=1e-4, grad_norm=1e-4):
        """Relative tolerances."""
        expected = tiny_run.read_lines((one or self.one) / "metrics.jsonl")
        found = tiny_run.read_lines(run / "metrics.jsonl")
        self.assertEqual([line["step"] for line in found], [line["step"] for line in expected])
        for wanted, line in zip(expected, found):
            for key, tolerance in (("loss", loss), ("grad_norm", grad_norm)):
                self.assertAlmostEqual(line[key], wanted[key], delta=tolerance * wanted[key],
                                       msg=f"step {line['step']} {key}")
            for key in ("samples", "tokens", "target_tokens"):
                self.assertEqual(line[key], wanted[key], f"step {line['step']} {key}")
            self.expect_norms(line, wanted, grad_norm)

    def expect_norms(self, line, wanted, tolerance):
        """The norms by module: ten times as far off as the whole, of which a module may be little. Adam
        moves parameters whose gradient is rounding by whole steps."""
        self.assertEqual({kind: list(norms) for kind, norms in line["norms"].items()},
                         {kind: list(norms) for kind, norms in wanted["norms"].items()})
        for kind, norms in wanted["norms"].items():
            for module, norm in norms.items():
                self.assertAlmostEqual(line["norms"][kind][module], norm,
                                       delta=(50 if kind == "update" else 10) * tolerance * norm,
                                       msg=f"step {line['step']} {kind} {module}")

    def expect_held_out(self, run, one=None, loss=1e-4):
        """The same answers, and a loss within a relative tolerance."""
        one = one or self.one
        summary = json.loads((run / "summary.json").read_text())
        wanted = json.loads((one / "summary.json").read_text())
        self.assertEqual(summary["held_out_samples"], wanted["held_out_samples"])
        self.assertAlmostEqual(summary["held_out_loss"], wanted["held_out_loss"],
                               delta=loss * wanted["held_out_loss"])
        self.assertEqual(tiny_run.read_lines(run / "predictions.jsonl"),
                         tiny_run.read_lines(one / "predictions.jsonl"))
        self.expect_same_pictures(run, one)

    def expect_same_pictures(self, run, one):
        """Kept pictures are those of one process, byte for byte."""
        files = sorted(path.relative_to(one) for path in (one / "predictions").glob("*/*.png"))
        self.assertGreater(len(files), 0)
        self.assertEqual(sorted(path.relative_to(run)
                                for path in (run / "predictions").glob("*/*.png")), files)
        for file in files:
            self.assertEqual((run / file).read_bytes(), (one / file).read_bytes(), file)

    def parameters(self, run):
        """The tensors that `checkpoint export` gives."""
        out = run.with_name(f"{run.name}-export")
        if not out.exists():
            exported = subprocess.run([self.program, "checkpoint", "export", str(run), "-o",
                                       str(out)], capture_output=True, text=True)
            self.assertEqual(exported.returncode, 0, exported.stderr)
        tensors = {}
        for path in sorted(out.glob("*.safetensors")):
            tensors.update(safetensors.numpy.load_file(path))
        return tensors

    def expect_parameters(self, run, one=None):
        ours, theirs = self.parameters(run), self.parameters(one or self.one)
        self.assertEqual(set(ours), set(theirs))
        for key in ours:
            self.assertLess(abs(ours[key] - theirs[key]).max(), 2e-4, key)

    def wait_for_steps(self, name, steps):
        metrics = self.shared / name / "metrics.jsonl"
        end = time.monotonic() + 90
        while time.monotonic() < end:
            if metrics.exists() and metrics.read_text().count("\n") >= steps:
                return
            time.sleep(0.02)
        self.fail(f"{name}: no step {steps}")

    def expect_same_after_a_kill(self, name, ranks, parallel, **values):
        """Kills a rank in the middle of a run, which the launcher restarts."""
        straight = self.launch_well(name, ranks, parallel=parallel, **values)
        again = f"{name}-killed"
        config = self.config(again, parallel=parallel, **values)
        launcher = subprocess.Popen(
            [self.program, "launch", "-n", str(ranks), "--restarts", "2", "--", "train",
             str(config)],
            env=tiny_run.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait_for_steps(again, 5)
        listed = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True)
        os.kill(int(listed.stdout.split()[-1]), signal.SIGKILL)
        _, err = launcher.communicate(timeout=120)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertIn("restart 1 of 2", err)
        self.expect_same_bits(self.shared / again, straight)

    def expect_same_bits(self, run, straight):
        key = lambda run: [(line["step"], line["loss"], line["grad_norm"])
                           for line in tiny_run.read_lines(run / "metrics.jsonl")]
        self.assertEqual(key(run), key(straight))
        ours = self.parameters(run)
        for name, tensor in self.parameters(straight).items():
            self.assertTrue((tensor == ours[name]).all(), name)

    def decoded(self, run):
        """How many pictures the ranks decoded together, by step."""
        return [line["media_decoded"] for line in tiny_run.read_lines(run / "metrics.jsonl")]


def main():
    """Runs the tests of the script whose first argument names the program."""
    BesideOneProcess.program = sys.argv.pop(1)
    unittest.main(module="__main__", verbosity=2)
