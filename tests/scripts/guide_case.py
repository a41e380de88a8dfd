"""A test case that runs the commands of a guide as they are written there."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from tour_data import write_tour_data

ROOT = Path(__file__).resolve().parents[2]
TRIBUTARY = Path(sys.argv.pop(1)).resolve()


def blocks(guide, language, section=""):
    """The text of the fenced blocks of one language in a guide, or in the section with this heading."""
    text = (ROOT / f"docs/guides/{guide}.md").read_text()
    if section:
        text = re.split(r"\n#+ ", text.split(f"# {section}\n")[1])[0]
    return "".join(re.findall(rf"```{language}\n(.*?)```", text, re.S))


class GuideCase(unittest.TestCase):
    def run_in(self, folder, command, said=""):
        """Runs a command, to which `said` is said; returns its output."""
        path = f"{TRIBUTARY.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, input=said,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def make_workplace(self, folder):
        """What a newcomer has: the program, its presets and some data."""
        os.symlink(ROOT / "configs", folder / "configs")
        (folder / "build").mkdir()
        os.symlink(TRIBUTARY.parent, folder / "build/release")
        write_tour_data(folder)

    def run_commands(self, folder, commands, of_training):
        """Runs commands, with more words for those that train; returns outputs by verb."""
        outputs = {}
        for command in commands:
            is_training = " train " in command
            words = command.split() + of_training if is_training else ["bash", "-c", command]
            outputs[command.split()[1]] = self.run_in(folder, words)
        return outputs
