"""Training whose reader of standard output goes away. argv[1]: the executable."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRIBUTARY = sys.argv.pop(1)
SHORT = ["run.steps=3", "schedule.decay=cosine", "schedule.decay_steps=0", "schedule.warmup_steps=1",
         "validation.every=0", "validation.final_samples_per_source=1", "validation.blind=false",
         "checkpoint.every=3", "run.threads=1"]


class ReaderGoesAway(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([TRIBUTARY, "data", "make-demo", "-o", cls.folder / "data", "--samples", "40",
                        "--held-out", "1"], check=True, capture_output=True)
        text = (ROOT / "configs/demo.yaml").read_text().replace("runs/demo-data",
                                                                str(cls.folder / "data"))
        lines = [line for line in text.splitlines() if "start_step" not in line]
        cls.config = cls.folder / "demo.yaml"
        cls.config.write_text("\n".join(lines))

    def train(self, name, launcher, output):
        run = self.folder / name
        done = subprocess.run([TRIBUTARY, *launcher, "train", self.config, f"run.dir={run}", *SHORT],
                              stdout=output, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                              timeout=500)
        lines = (run / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 3, done.stderr)
        self.assertTrue((run / "report.html").is_file())
        return done

    def test_a_training_goes_on(self):
        for name, launcher in (("alone", []), ("launched", ["launch", "-n", "2", "--"])):
            with self.subTest(name=name):
                reading, writing = os.pipe()
                os.close(reading)
                done = self.train(name, launcher, writing)
                os.close(writing)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_full_device_is_told(self):
        with open("/dev/full", "w") as full:
            done = self.train("full", [], full)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("standard output cannot be written", done.stderr)
            done = self.train("full2", ["launch", "-n", "2", "--"], full)
            self.assertEqual(done.returncode, 0, done.stderr)  # a restart would not bring it back
            self.assertIn("warning: app: standard output cannot be written", done.stderr)


if __name__ == "__main__":
    unittest.main()
