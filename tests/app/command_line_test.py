"""The command line as a user meets it: help, mistakes, exit codes. argv[1] is the executable."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from write_cli_reference import list_verbs, write_reference  # noqa: E402

TRIBUTARY = sys.argv.pop(1)


def run(*words):
    return subprocess.run([TRIBUTARY, *words], capture_output=True, text=True)


class Help(unittest.TestCase):
    def test_every_verb_has_an_example(self):
        for words, text in list_verbs(TRIBUTARY):
            with self.subTest(verb=" ".join(words)):
                self.assertIn(f"Example:\n  tributary {' '.join(words)}", text)

    def test_the_verbs_are_those_of_the_design(self):
        verbs = {" ".join(words) for words, _ in list_verbs(TRIBUTARY)}
        self.assertLessEqual(
            {"train", "generate", "forward", "data make-demo", "data inspect", "report", "doctor",
             "checkpoint inspect", "checkpoint verify", "checkpoint export"}, verbs)

    def test_the_reference_page_is_current(self):
        self.assertEqual((ROOT / "docs/cli.md").read_text(), write_reference(TRIBUTARY))

    def test_the_executable_needs_no_libtorch(self):
        needed = subprocess.run(["readelf", "-d", TRIBUTARY], check=True, capture_output=True,
                                text=True).stdout
        self.assertIn("NEEDED", needed)
        self.assertNotIn("torch", needed)


class Mistakes(unittest.TestCase):
    def assert_refused(self, words, *expected):
        result = run(*words)
        self.assertEqual(result.returncode, 2, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)

    def test_no_verb(self):
        self.assert_refused([], "A subcommand is required")

    def test_an_unknown_verb(self):
        self.assert_refused(["trian"], "trian")

    def test_an_unknown_flag_points_at_the_help_of_its_verb(self):
        self.assert_refused(["doctor", "--quick"], "--quick", "tributary doctor --help")

    def test_a_missing_argument_is_named(self):
        self.assert_refused(["train"], "CONFIG")


if __name__ == "__main__":
    unittest.main()
