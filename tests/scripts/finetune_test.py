"""The guides to fine-tuning and to troubleshooting, command by command as they are written there, with
the demo's small model in place of a released one; transformers then answers as `tributary generate`
does. argv[1] is the executable."""

import sys
import tempfile
import unittest
from pathlib import Path

from guide_case import TRIBUTARY, GuideCase, blocks

GUIDE = "finetune"
MODEL = "models/Qwen2.5-VL-3B-Instruct"
SMALL = ["run.steps=120", "optimizer.learning_rate=0.002", "model.freeze=[]"]  # weights begin small


class Finetune(GuideCase):
    def make_released_model(self, folder):
        """The demo's model with weights, as an export."""
        self.run_in(folder, [TRIBUTARY, "train", "configs/own_data.yaml", "run.steps=60",
                             "run.dir=runs/before"])
        (folder / "models").mkdir()
        self.run_in(folder, [TRIBUTARY, "checkpoint", "export", "runs/before", "-o", MODEL])

    def test_every_command_works_as_it_is_written(self):
        commands = blocks(GUIDE, "sh").splitlines()
        self.assertEqual(len(commands), 8)
        self.assertTrue(commands[0].startswith("hf download Qwen/Qwen2.5-VL"))
        self.assertTrue(commands[0].endswith(MODEL))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.make_workplace(folder)
            self.make_released_model(folder)
            outputs = self.run_commands(folder, commands[1:], SMALL)
            self.assertIn("weights: pretrained", outputs["config"])
            self.assertIn("bad: 0", outputs["data"])
            self.assertIn("step 120/120", outputs["train"])
            self.assertIn("without pixels", outputs["train"])
            answer = outputs["generate"].strip()
            self.assertEqual(answer, "A red cat.")
            self.assertRegex(outputs["evaluate"], r"overall +\d+ +\d+.\d % +[01]\.\d{3}")
            (folder / "ask.py").write_text(blocks(GUIDE, "python"))
            self.assertEqual(self.run_in(folder, [sys.executable, "ask.py"]).strip(), answer)
            self.look_for_trouble(folder)

    def look_for_trouble(self, folder):
        commands = blocks("troubleshooting", "sh").splitlines()
        self.assertEqual(len(commands), 7)
        for command in commands:
            self.run_in(folder, ["bash", "-c", command])


unittest.main()
