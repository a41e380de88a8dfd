"""The guides to fine-tuning and to troubleshooting, command by command as they are written there, with
the demo's small model in place of a released one; transformers then answers as `tributary generate`
does. argv[1] is the executable."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tour_data import write_tour_data

ROOT = Path(__file__).resolve().parents[2]
TRIBUTARY = Path(sys.argv.pop(1)).resolve()
MODEL = "models/Qwen2.5-VL-3B-Instruct"
SMALL = ["run.steps=120", "optimizer.learning_rate=0.002", "model.freeze=[]"]  # weights begin small


def blocks(language, page="finetune"):
    guide = (ROOT / f"docs/guides/{page}.md").read_text()
    return "".join(re.findall(rf"```{language}\n(.*?)```", guide, re.S))


class Finetune(unittest.TestCase):
    def run_in(self, folder, command):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def make_released_model(self, folder):
        """The demo's model with weights, as an export."""
        self.run_in(folder, [TRIBUTARY, "train", "configs/own_data.yaml", "run.steps=60",
                             "run.dir=runs/before"])
        (folder / "models").mkdir()
        self.run_in(folder, [TRIBUTARY, "checkpoint", "export", "runs/before", "-o", MODEL])

    def test_every_command_works_as_it_is_written(self):
        commands = blocks("sh").splitlines()
        self.assertEqual(len(commands), 8)
        self.assertTrue(commands[0].startswith("hf download Qwen/Qwen2.5-VL"))
        self.assertTrue(commands[0].endswith(MODEL))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.symlink(ROOT / "configs", folder / "configs")
            (folder / "build").mkdir()
            os.symlink(TRIBUTARY.parent, folder / "build/release")
            write_tour_data(folder)
            self.make_released_model(folder)
            outputs = {}
            for command in commands[1:]:
                is_training = " train " in command
                words = command.split() + SMALL if is_training else ["bash", "-c", command]
                outputs[command.split()[1]] = self.run_in(folder, words)
            self.assertIn("weights: pretrained", outputs["config"])
            self.assertIn("bad: 0", outputs["data"])
            self.assertIn("step 120/120", outputs["train"])
            self.assertIn("without pixels", outputs["train"])
            answer = outputs["generate"].strip()
            self.assertEqual(answer, "A red cat.")
            self.assertRegex(outputs["evaluate"], r"overall +\d+ +\d+.\d % +[01]\.\d{3}")
            (folder / "ask.py").write_text(blocks("python"))
            self.assertEqual(self.run_in(folder, [sys.executable, "ask.py"]).strip(), answer)
            self.look_for_trouble(folder)

    def look_for_trouble(self, folder):
        commands = blocks("sh", "troubleshooting").splitlines()
        self.assertEqual(len(commands), 7)
        for command in commands:
            self.run_in(folder, ["bash", "-c", command])


unittest.main()
