"""What training prints, and a reader of it that goes away. argv[1]: the executable."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRIBUTARY = sys.argv.pop(1)
SHORT = ["run.steps=3", "schedule.decay=cosine", "schedule.decay_steps=0", "schedule.warmup_steps=1",
         "validation.every=0", "validation.final_samples_per_source=1", "validation.blind=false",
         "checkpoint.every=3", "run.threads=1"]


class TrainCase(unittest.TestCase):
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


class ReaderGoesAway(TrainCase):
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
            self.assertEqual(done.returncode, 0, done.stderr)  # a restart would not bring the output back
            self.assertIn("warning: app: standard output cannot be written", done.stderr)


class PrintedCommands(TrainCase):
    """Commands that are printed can be typed as they stand."""

    def test_a_finished_run_says_how_to_ask_about_a_picture_of_its_own(self):
        done = self.train("asked", [], subprocess.PIPE)
        words = shlex.split(done.stdout.split("ask the model:\n")[1])
        self.assertEqual(words[:2], [TRIBUTARY, "generate"])
        asked = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertNotIn("set in the environment: GOMP", done.stdout)

    def test_a_launched_run_says_how_to_go_on_under_its_launcher(self):
        run = self.folder / "stopped"
        words = ["launch", "-n", "2", "--restarts", "3", "--", "train", str(self.config),
                 f"run.dir={run}", *SHORT, "run.steps=1000"]
        job = subprocess.Popen([TRIBUTARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=ROOT)
        end = time.monotonic() + 300
        while not ((run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        job.terminate()
        output, errors = job.communicate(timeout=300)
        self.assertEqual(job.returncode, 15, errors)
        line = output.split("go on with:\n")[1].splitlines()[0]
        self.assertEqual(shlex.split(line), [TRIBUTARY, *words, "--resume", "auto"])
        self.assertNotIn("TRIB_RANK", output)


if __name__ == "__main__":
    unittest.main()
