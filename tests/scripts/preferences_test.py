"""The guide to preference pairs, command by command as it is written there, with the demo's small
model, which then prefers the answers that it was given as the better ones. argv[1] is the executable."""

import json
import tempfile
import unittest
from pathlib import Path

from guide_case import TRIBUTARY, GuideCase, blocks

GUIDE = "preferences"
SMALL = ["run.epochs=0", "run.steps=12", "schedule.warmup_steps=0", "optimizer.learning_rate=0.001",
         "metrics.console_every=1"]


class Preferences(GuideCase):
    def write_pairs(self, folder):
        """Of each record of the tour a pair, in the words of the guide."""
        pair = json.loads(blocks(GUIDE, "json"))
        lines = []
        for line in (folder / "mine.jsonl").read_text().splitlines():
            user, assistant = json.loads(line)["messages"]
            image = next(part["image"] for part in user["content"] if "image" in part)
            lines.append(json.dumps({**pair, "chosen": assistant["content"], "images": [image]}))
        (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")

    def test_every_command_works_as_it_is_written(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.make_workplace(folder)
            self.write_pairs(folder)
            self.run_in(folder, [TRIBUTARY, "train", "configs/own_data.yaml", "run.steps=20"])
            outputs = self.run_commands(folder, blocks(GUIDE, "sh").splitlines(), SMALL)
            self.assertIn("preference", outputs["data"])
            self.assertIn("bad: 0", outputs["data"])
            self.assertIn("objective  dpo, sigmoid loss, beta 0.1", outputs["train"])
            self.assertRegex(outputs["train"], r"step +1/12  loss 0\.6931 .*accuracy 0\.00  margin")
            self.assertRegex(outputs["train"], r"step +12/12  .*accuracy 1\.00  margin")
            self.assertRegex(outputs["train"], r"source +pairs +accuracy")
            self.assertGreater(len(outputs["generate"].strip()), 0)


unittest.main()
