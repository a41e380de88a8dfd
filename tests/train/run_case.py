"""Test cases that run `tributary train` on the model and data of tiny_run."""

import os
import pathlib
import sys
import tempfile
import unittest

import tiny_run


class Workplace(unittest.TestCase):
    """A folder `shared` with a model and data."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.shared = pathlib.Path(folder.name)
        tiny_run.make_workplace(cls.shared)


class RunCase(Workplace):
    """A workplace for runs that its tests configure."""

    program = None

    @classmethod
    def config(cls, name, **values):
        values.setdefault("run", {}).setdefault("dir", str(cls.shared / name))
        return tiny_run.write_config(cls.shared / f"{name}.yaml", cls.shared, **values)

    def expect_fails(self, config, *arguments, code, words):
        result = tiny_run.train(self.program, config, *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result


class BesideStraightRun(RunCase):
    """Beside it a run of 12 steps that nothing interrupts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.straight = cls.shared / "straight"
        config = tiny_run.write_config(cls.shared / "straight.yaml", cls.shared,
                                       run={"dir": str(cls.straight)},
                                       validation={"every": 6, "blind": True,
                                                   "metrics": ["token_f1", "anls"]})
        cls.straight_result = tiny_run.train(cls.program, config)

    def losses(self, run):
        return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"])
                for line in tiny_run.read_lines(run / "metrics.jsonl")]

    def model_bytes(self, run, step=12):
        folder = run / f"checkpoints/step-{step}"
        files = sorted(folder.glob("*/*.safetensors"))
        self.assertGreaterEqual(len(files), 2)  # parameters and moments
        return b"".join(path.read_bytes() for path in files)

    def expect_equal_to_straight(self, run):
        self.assertEqual(self.losses(run), self.losses(self.straight))
        self.assertEqual(self.model_bytes(run), self.model_bytes(self.straight))


def main():
    """Runs the tests of the script whose first argument names the program."""
    RunCase.program = os.path.abspath(sys.argv.pop(1))
    unittest.main(module="__main__")
