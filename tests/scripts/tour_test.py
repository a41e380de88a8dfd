"""The README's tour with one's own data, command by command as it is written there, on a data set
as a newcomer may have it. argv[1] is the executable."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tour_data import readme_section, write_tour_data

ROOT = Path(__file__).resolve().parents[2]
TRIBUTARY = Path(sys.argv.pop(1)).resolve()


def tour():
    """The commands of the section."""
    commands = "".join(re.findall(r"```sh\n(.*?)```", readme_section(), re.S))
    return [line for line in commands.splitlines() if not line.startswith("make ")]


class Tour(unittest.TestCase):
    def test_every_command_works_as_it_is_written(self):
        commands = tour()
        self.assertEqual(len(commands), 5)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.symlink(ROOT / "configs", folder / "configs")
            (folder / "bin").mkdir()
            os.symlink(TRIBUTARY, folder / "bin/tributary")  # as `make install` leaves it
            path = f"{folder / 'bin'}:{os.environ['PATH']}"
            write_tour_data(folder)
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
