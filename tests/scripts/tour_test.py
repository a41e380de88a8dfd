"""The README's tour with one's own data, command by command as it is written there, on a data set
as a newcomer may have it. argv[1] is the executable."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import PIL.Image

ROOT = Path(__file__).resolve().parents[2]
TRIBUTARY = Path(sys.argv.pop(1)).resolve()
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230)}


def tour():
    """The commands of the section, and the record that it shows."""
    section = (ROOT / "README.md").read_text().split("## Sixty seconds")[1].split("\n## ")[0]
    record = json.loads(re.search(r"```json\n(.*?)```", section, re.S).group(1))
    commands = "".join(re.findall(r"```sh\n(.*?)```", section, re.S))
    return record, [line for line in commands.splitlines() if not line.startswith("make ")]


def write_data(folder, record):
    (folder / "pictures").mkdir()
    lines = []
    for i, name in enumerate(list(COLOURS) * 10):
        file = "cat.png" if i == 0 else f"{i}.png"
        PIL.Image.new("RGB", (80 + i, 60), COLOURS[name]).save(folder / "pictures" / file)
        user, assistant = record["messages"]
        image, text = user["content"]
        lines.append(json.dumps({"messages": [
            {**user, "content": [{**image, "image": file}, text]},
            {**assistant, "content": f"A {name} cat."}]}))
    (folder / "mine.jsonl").write_text("\n".join(lines) + "\n")


class Tour(unittest.TestCase):
    def test_every_command_works_as_it_is_written(self):
        record, commands = tour()
        self.assertEqual(len(commands), 5)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.symlink(ROOT / "configs", folder / "configs")
            (folder / "bin").mkdir()
            os.symlink(TRIBUTARY, folder / "bin/tributary")  # as `make install` leaves it
            path = f"{folder / 'bin'}:{os.environ['PATH']}"
            write_data(folder, record)
            outputs = []
            for command in commands:
                done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True,
                                      text=True, env={**os.environ, "OMP_NUM_THREADS": "1",
                                                        "PATH": path})
                self.assertEqual(done.returncode, 0, command + "\n" + done.stdout + done.stderr)
                outputs.append(done.stdout)
            self.assertIn("records: 30", outputs[0])
            self.assertIn("bad: 0", outputs[0])
            self.assertIn("step 200/200", outputs[2])
            self.assertIn("tributary generate runs/mine", outputs[2])
            self.assertEqual(outputs[3].strip(), "A red cat.")
            self.assertTrue((folder / "mine-hf/model.safetensors").exists())
            self.assertTrue((folder / "runs/mine/report.html").exists())


unittest.main()
