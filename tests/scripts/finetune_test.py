"""The guides to fine-tuning, answers, memory and troubleshooting, command by command as they are written
there, with the demo's small model in place of a released one; transformers then answers as `tributary
generate` does. argv[1] is the executable."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

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
        of_adapters = blocks(GUIDE, "sh", "Train adapters alone")
        commands = blocks(GUIDE, "sh").replace(of_adapters, "").splitlines()
        self.assertEqual(len(commands), 9)
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
            self.assertIn("report.html", outputs["report"])
            self.ask_for_answers(folder)
            self.train_as_the_page_says(folder, of_adapters.splitlines())
            self.look_for_trouble(folder)
            memory = self.run_in(folder, ["bash", "-c", blocks("memory", "sh")])
            self.assertRegex(memory, r"memory +parameters .*there are 79\.0 GiB \(--memory\)")

    def ask_for_answers(self, folder):
        os.symlink("finetune", folder / "runs/mine")
        questions = (folder / "mine.jsonl").read_text().splitlines()[:4]
        (folder / "questions.jsonl").write_text("\n".join(questions) + "\n")
        alone, shared, chat, serve = blocks("answers", "sh").splitlines()
        self.run_in(folder, ["bash", "-c", alone])
        answers = (folder / "answers.jsonl").read_text()
        self.assertEqual(len(answers.splitlines()), 4)
        self.assertIn("anls", json.loads((folder / "answers.json").read_text()))
        self.run_in(folder, ["bash", "-c", shared])
        by_two = [json.loads(line)["answer"] for line in (folder / "answers.jsonl").read_text().splitlines()]
        self.assertEqual(by_two, [json.loads(line)["answer"] for line in answers.splitlines()])
        said = "/image pictures/cat.png\nWhat is this?\n/quit\n"
        self.assertIn("A red cat.", self.run_in(folder, ["bash", "-c", chat], said))
        self.serve(folder, serve)

    def serve(self, folder, command):
        """On a free port in place of the one on the page."""
        words = command.replace("--port 8080", "--port 0").split()
        self.assertEqual(words[-1], "0")
        server = subprocess.Popen([TRIBUTARY, *words[1:]], cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(server.kill)
        self.assertRegex(server.stdout.readline(), "serving mine at http://127.0.0.1:")
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
        self.assertEqual(server.returncode, 0)

    def train_as_the_page_says(self, folder, exports):
        """With the values of the page for adapters, shortly, and for stages, as a dry run."""
        (folder / "runs/finetune").rename(folder / "runs/whole")
        self.change(folder, yaml.safe_load(blocks(GUIDE, "yaml", "Train adapters alone")))
        said = self.run_in(folder, [TRIBUTARY, "train", "mine.yaml", "run.steps=2", "schedule.warmup_steps=0"])
        self.assertIn("adapter    lora", said)
        for export in exports:
            self.run_in(folder, ["bash", "-c", export])
        self.assertEqual(json.loads((folder / "mine-peft/adapter_config.json").read_text())["r"], 16)
        self.assertTrue((folder / "mine-merged/model.safetensors").exists())
        self.change(folder, yaml.safe_load(blocks(GUIDE, "yaml", "In stages")), name="staged.yaml",
                    of="configs/finetune.yaml")
        said = self.run_in(folder, [TRIBUTARY, "train", "staged.yaml", "--dry-run"])
        for directory in ("1-align", "2-all"):
            self.assertIn(f"directory  runs/finetune/{directory}\n", said)

    def change(self, folder, values, name="mine.yaml", of="mine.yaml"):
        """Writes a configuration with the values of a page."""
        config = yaml.safe_load((folder / of).read_text())
        for section, keys in values.items():
            config[section] = {**config.get(section, {}), **keys}
        (folder / name).write_text(json.dumps(config))

    def look_for_trouble(self, folder):
        commands = blocks("troubleshooting", "sh").splitlines()
        self.assertEqual(len(commands), 7)
        for command in commands:
            self.run_in(folder, ["bash", "-c", command])


unittest.main()
