"""Types, docstrings and quoted code agree with the module."""

import doctest
import importlib
import inspect
import re
import subprocess
import sys
import unittest
from pathlib import Path

import tributary
from executable import ROOT

HERE = Path(__file__).parent
TOLD_WITH_ANOTHER = {"straggler_factor", "anomaly_factor"}
WRONG = """
import tributary
tributary.pack(["a"], 5)
tributary.pack([1], capacity="5")
tributary.balance([[1.0]], 2)["valeu"]
tributary.search_3d(5)
tributary.allocate_flow({"vision": [{"devices": 1}]}, [], 4)
tributary.split_layers([{"forward_ns": 1, "foward": 2}], 1)
tributary.simulate("plan.json", step=3)
"""
RIGHT = """
import array
import numpy
import tributary
from pathlib import Path
tributary.pack(array.array("i", [1]), 5, window=3)
tributary.pack(numpy.array([1]), 5)
tributary.balance(numpy.ones((3, 2)), 5)
tributary.balance([1, 2], 5, deadline_ms=2)
tributary.search_3d(Path("costs.json"))
tributary.simulate({}, lengths=[[1, 2]])
number: int = tributary.pack([1], 5)["bins"]
"""


class Types(unittest.TestCase):
    def check(self, *words):
        package = Path(tributary.__file__).parent.resolve()
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--cache-dir=/dev/null",
             *words], capture_output=True, text=True, env={"MYPYPATH": str(package.parent)}, cwd=HERE)
        return done.returncode, done.stdout + done.stderr

    def test_the_package_and_its_use_are_strict(self):
        code, text = self.check(str(Path(tributary.__file__).parent.resolve()), "trainer_loop.py")
        self.assertEqual(code, 0, text)
        self.assertTrue((Path(tributary.__file__).parent / "py.typed").exists())

    def test_right_calls_pass_and_each_wrong_one_is_found(self):
        code, text = self.check("-c", RIGHT)
        self.assertEqual(code, 0, text)
        code, text = self.check("-c", WRONG)
        lines = {int(number) for number in re.findall(r"<string>:(\d+): error", text)}
        self.assertEqual(lines, set(range(3, 10)), text)

    def test_the_stub_names_what_the_engine_has(self):
        engine = importlib.import_module("tributary._engine")
        stub = (Path(tributary.__file__).parent / "_engine.pyi").read_text()
        have = {name for name in dir(engine) if not name.startswith("_")}
        self.assertEqual(set(re.findall(r"^def (\w+)", stub, re.M)), have)


class Documents(unittest.TestCase):
    def test_every_public_function_is_explained(self):
        for name in tributary.__all__:
            found = getattr(tributary, name)
            with self.subTest(name=name):
                self.assertTrue(found.__doc__)
                if inspect.isfunction(found) and inspect.signature(found).parameters:
                    for argument in inspect.signature(found).parameters:
                        if argument not in TOLD_WITH_ANOTHER:
                            self.assertIn(f"        {argument}: ", found.__doc__)
                    self.assertIn("Raises:", found.__doc__)

    def test_examples_in_docstrings_are_true(self):
        for name in ("policies",):
            module = importlib.import_module(f"tributary.{name}")
            failed, tried = doctest.testmod(module)
            self.assertEqual(failed, 0)
            self.assertGreater(tried, 0)

    def test_the_guide_quotes_code_that_runs(self):
        source = (HERE / "trainer_loop.py").read_text()
        guide = (Path(ROOT) / "docs/guides/python.md").read_text()
        parts = re.findall(r"# begin: \w+\n(.*?)# end: ", source, re.S)
        self.assertEqual(len(parts), 5)
        for part in parts:
            self.assertIn(part, guide)
        done = subprocess.run([sys.executable, HERE / "trainer_loop.py"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lengths[0]: 5000 tokens, not a whole number, 1 to 4096 tokens", done.stdout)


if __name__ == "__main__":
    unittest.main()
