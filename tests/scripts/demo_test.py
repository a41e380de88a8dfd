"""demo.sh with a stub for the program: what it calls, and that it picks up where it stopped."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RENDER = "data make-demo -o runs/demo-data"
TRAIN = "train configs/demo.yaml --resume auto"
# Fails with the code in the file fail-data or fail-train, after it has begun to write.
STUB = """#!/bin/bash
echo "$*" >> calls
case $1 in
  data) mkdir -p runs/demo-data; [ ! -e runs/demo-data/half ] || exit 99
        touch runs/demo-data/half; [ ! -e fail-data ] || exit $(cat fail-data)
        rm runs/demo-data/half ;;
  train) mkdir -p runs/demo; [ ! -e fail-train ] || exit $(cat fail-train)
         echo '{"stopped": "done"}' > runs/demo/summary.json ;;
esac
"""


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/demo.sh", self.root / "scripts")
        stub = self.root / "tributary"
        stub.write_text(STUB)
        stub.chmod(0o755)

    def demo(self, *overrides):
        """Returns the exit code, the text and what was called."""
        done = subprocess.run([self.root / "scripts/demo.sh", self.root / "tributary", *overrides],
                              capture_output=True, text=True)
        calls = self.root / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return done.returncode, done.stdout, lines

    def test_runs_through_and_says_where_the_report_is(self):
        code, text, calls = self.demo()
        self.assertEqual((code, calls), (0, [RENDER, TRAIN]))
        self.assertIn("the report is runs/demo/report.html", text)

    def test_a_complete_demo_is_not_done_again(self):
        self.demo()
        code, text, calls = self.demo()
        self.assertEqual((code, calls), (0, []))
        self.assertIn("runs/demo is complete", text)

    def test_rendering_that_was_cut_short_begins_afresh(self):
        (self.root / "fail-data").write_text("5")
        self.assertEqual(self.demo(), (5, "demo: rendering pictures and questions (seconds)\n",
                                       [RENDER]))
        (self.root / "fail-data").unlink()
        self.assertEqual(self.demo()[::2], (0, [RENDER, TRAIN]))

    def test_training_that_was_stopped_goes_on(self):
        (self.root / "fail-train").write_text("15")
        code, text, calls = self.demo()
        self.assertEqual((code, calls), (15, [RENDER, TRAIN]))
        self.assertNotIn("the report is", text)
        (self.root / "fail-train").unlink()
        self.assertEqual(self.demo()[::2], (0, [TRAIN]))

    def test_values_of_the_configuration_reach_the_training(self):
        self.assertEqual(self.demo("run.steps=2")[2][1],
                         "train configs/demo.yaml run.steps=2 --resume auto")

    def test_the_program_must_be_named(self):
        done = subprocess.run([self.root / "scripts/demo.sh"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("usage: demo.sh TRIBUTARY", done.stderr)


unittest.main()
