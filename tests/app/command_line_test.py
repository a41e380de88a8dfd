"""The command line as a user meets it: help, mistakes, exit codes. argv[1] is the executable."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from write_cli_reference import list_verbs, write_reference  # noqa: E402

TRIBUTARY = sys.argv.pop(1)


def run(*words):
    return subprocess.run([TRIBUTARY, *words], capture_output=True, text=True)


class Help(unittest.TestCase):
    def test_people_type_help_and_version_in_many_ways(self):
        version = run("--version").stdout
        self.assertRegex(version, r"^tributary \d")
        for words in (["-v"], ["version"]):
            self.assertEqual(run(*words).stdout, version)
        for words, same in ((["help"], ["--help"]), (["help", "data", "inspect"],
                                                     ["data", "inspect", "--help"])):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (0, run(*same).stdout), done.stderr)

    def test_no_line_is_wider_than_a_terminal(self):
        for words, text in [((), run("--help").stdout), *list_verbs(TRIBUTARY)]:
            for line in text.split("Example:")[0].splitlines():
                self.assertLessEqual(len(line), 100, f"{words}: {line}")

    def test_train_names_what_is_often_set(self):
        self.assertIn("\n  run.dir=DIR  run.steps=N", run("train", "--help").stdout)

    def test_every_verb_has_an_example(self):
        for words, text in list_verbs(TRIBUTARY):
            with self.subTest(verb=" ".join(words)):
                self.assertIn(f"Example:\n  tributary {' '.join(words)}", text)

    def test_every_verb_answers_programs(self):
        without = {"chat", "completion"}  # docs/cli.md says why
        for words, text in list_verbs(TRIBUTARY):
            with self.subTest(verb=" ".join(words)):
                self.assertEqual("  --json " in text, " ".join(words) not in without)

    def test_configurations_of_examples_are_accepted(self):
        checked = 0
        for _, text in list_verbs(TRIBUTARY):
            for line in text[text.index("Example:"):].splitlines():
                words = line.replace(" -- ", " ").split()
                files = [i for i, word in enumerate(words)
                         if word.startswith("configs/") and word.endswith(".yaml")
                         and not word.startswith(("configs/studies/", "configs/clusters/"))]
                if not files:
                    continue
                values = [word for word in words[files[0] + 1:] if "=" in word]
                result = subprocess.run([TRIBUTARY, "config", words[files[0]], *values], cwd=ROOT,
                                        capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, line + "\n" + result.stderr)
                checked += 1
        self.assertGreaterEqual(checked, 4)

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


class Json(unittest.TestCase):
    def answer(self, done, code=0):
        """The one object on standard output."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 1)
        return json.loads(done.stdout)

    def error(self, done, code):
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        shown = json.loads(done.stderr.splitlines()[-1])
        self.assertEqual(shown["exit_code"], code)
        return shown["error"]

    def test_text_goes_to_standard_error(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["data", "make-demo", "-o", f"{folder}/demo", "--samples", "5", "--held-out", "1"]
            done = run(*words, "--json")
            self.assertEqual(self.answer(done), {"directory": f"{folder}/demo", "is_new": True})
            self.assertEqual(done.stderr, f"made {folder}/demo\n")
            self.assertEqual(run(*words).stdout, f"there already: {folder}/demo\n")

    def test_processes_of_launch_print_no_second_answer(self):
        done = run("launch", "-n", "1", "--json", "--", "config", str(ROOT / "configs/demo.yaml"))
        self.assertEqual(self.answer(done), {"ranks": 1, "verb": "config", "exit_code": 0})
        self.assertIn("capacity_tokens:", done.stderr)

    def test_an_error_is_an_object(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("model: {path: m, dtype: float31}\n")
            file.flush()
            error = self.error(run("config", file.name, "--json"), 2)
            self.assertEqual(error["fault"], "input")
            self.assertRegex(error["what"], "^config: ")
            self.assertIn(f"{file.name}:1 model.dtype", json.dumps(error))
            launched = self.error(run("launch", "-n", "1", "--json", "--", "config", file.name), 2)
            self.assertIn("tributary launch", launched["what"])
        error = self.error(run("pack", "/nowhere/lengths.txt", "--capacity", "9", "--json"), 2)
        self.assertLessEqual({"fault", "what", "where", "source"}, set(error))

    def test_so_is_a_mistake_on_the_command_line(self):
        error = self.error(run("report", "runs/x", "--jsn", "--json"), 2)
        self.assertEqual(error["what"], "app: command line not understood")
        self.assertIn("did you mean --json?", error["fix"])
        self.assertIn("no verb", self.error(run("trian", "--json"), 2)["found"])

    def test_lost_output_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w") as full:
            done = subprocess.run([TRIBUTARY, "data", "make-demo", "-o", f"{folder}/demo", "--samples",
                                   "5", "--held-out", "1", "--json"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 5)
            self.assertIn("the answer cannot be written",
                          json.loads(done.stderr.splitlines()[-1])["error"]["what"])


COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }
_tributary; printf '%s\\n' "${COMPREPLY[@]}"
"""


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = tempfile.NamedTemporaryFile("w")
        cls.addClassCleanup(cls.script.close)
        cls.script.write(run("completion", "bash").stdout)
        cls.script.flush()

    def complete(self, *words):
        done = subprocess.run(["bash", "-c", COMPLETE, "bash", self.script.name, "tributary", *words],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_verbs(self):
        verbs = {" ".join(words) for words, _ in list_verbs(TRIBUTARY)}
        self.assertEqual(set(self.complete("")), {verb.split()[0] for verb in verbs})
        self.assertEqual(self.complete("tr"), ["train"])
        self.assertEqual(set(self.complete("data", "")),
                         {verb.split()[1] for verb in verbs if verb.startswith("data ")})
        self.assertEqual(self.complete("launch", "-n", "2", "--", "ev"), ["evaluate"])

    def test_bash_completes_options_of_the_verb(self):
        for words, text in list_verbs(TRIBUTARY):
            with self.subTest(verb=" ".join(words)):
                shown = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.M))
                self.assertEqual(set(self.complete(*words, "--")),
                                 shown - {"--help-all"} | {"--verbose"})

    def test_bash_completes_keys_where_they_are_taken(self):
        self.assertEqual(self.complete("train", "run.yaml", "run.ste"), ["run.steps="])
        self.assertEqual(self.complete("config", "run.yaml", "data.sources.0.pa"),
                         ["data.sources.0.path="])
        self.assertEqual(self.complete("report", "run.st"), [])
        self.assertEqual(self.complete("train", ""), [])

    def test_scripts_of_other_shells_name_every_verb(self):
        for shell in ("zsh", "fish"):
            script = run("completion", shell).stdout
            for words, _ in list_verbs(TRIBUTARY):
                self.assertIn(words[-1], script)
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
        refused = run("completion", "csh")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("expected: bash, zsh or fish", refused.stderr)


class Mistakes(unittest.TestCase):
    def assert_refused(self, words, *expected):
        result = run(*words)
        self.assertEqual(result.returncode, 2, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)

    def test_no_verb(self):
        self.assert_refused([], "\nTrain:\n  train ", "\nLook at:\n  report ", "\nPlan:\n  plan ")
        self.assert_refused(["data"], "no verb after tributary data; expected: one of inspect, "
                            "make-demo; fix: see `tributary data --help`")

    def test_an_unknown_verb(self):
        self.assert_refused(["trian", "run.yaml"], 'no verb "trian"; expected: one of train, ',
                            "did you mean tributary train?")
        self.assert_refused(["data", "inspct", "a.jsonl"], "did you mean tributary data inspect?",
                            "see `tributary data --help`")
        self.assertNotIn("did you mean", run("frobnicate").stderr)

    def test_an_unknown_flag_points_at_the_help_of_its_verb(self):
        self.assert_refused(["doctor", "--quick"], "--quick", "tributary doctor --help")
        self.assert_refused(["train", "run.yaml", "--resme", "auto"], "--resme",
                            "did you mean --resume?", "see `tributary train --help`")
        self.assert_refused(["data", "make-demo"], "--output is required",
                            "see `tributary data make-demo --help`")

    def test_keys_with_dashes_and_options_without_a_value(self):
        self.assert_refused(["train", "run.yaml", "--run.steps=5"],
                            "keys have no dashes and one `=`: run.steps=VALUE")
        self.assert_refused(["train", "run.yaml", "--resume"], "`--resume auto` goes on from the newest")
        self.assert_refused(["train", "run.yaml", "--fallback"], "write a value behind it")
        self.assert_refused(["train", "mine.jsonl"], "a data set in place of a configuration",
                            "data.sources.0.path=mine.jsonl")

    def test_a_missing_argument_is_named(self):
        self.assert_refused(["train"], "CONFIG")

    def test_a_profile_that_cannot_be_written_is_refused_before_it_is_measured(self):
        demo = str(ROOT / "configs/demo.yaml")
        done = run("profile", demo, "-o", "/nonexistent/p.json")
        self.assertEqual((done.returncode, done.stdout), (5, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("/nonexistent/p.json", done.stderr)
        plan = str(ROOT / "configs/plans/demo_pipeline.json")
        for output, code, words in ((plan, 2, "not a profile"), (str(ROOT), 5, "a directory")):
            done = run("profile", demo, "-o", output)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(words, done.stderr)

    def test_what_tells_that_a_profile_can_be_written_is_not_left_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("profile", str(ROOT / "configs/demo.yaml"), "data.sources.0.path=/nonexistent/data.jsonl",
                       "-o", os.path.join(folder, "p.json"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("/nonexistent/data.jsonl", done.stderr)  # is looked for after the profile's path was checked
            self.assertEqual(os.listdir(folder), [])

    def test_a_directory_is_no_configuration(self):
        for verb in (["train"], ["config"], ["data", "inspect"]):
            self.assert_refused([*verb, str(ROOT)], f"where: {ROOT}")
        self.assert_refused(["train", str(ROOT)], "config: file cannot be read", "a directory")


class Terminals(unittest.TestCase):
    """On a terminal an error has one line per part; `--verbose` adds the place in the source."""

    def errors_on_a_terminal(self, *words, **variables):
        reading, writing = os.openpty()
        environment = {**os.environ, "TERM": "xterm", **variables}
        subprocess.run([TRIBUTARY, *words], stderr=writing, stdout=subprocess.DEVNULL,
                       env=environment)
        os.close(writing)
        text = b""
        try:
            while block := os.read(reading, 4096):
                text += block
        except OSError:  # everything was read and no process writes any more
            pass
        os.close(reading)
        return text.decode().replace("\r\n", "\n")

    def test_an_error_is_laid_out(self):
        plain = self.errors_on_a_terminal("config", "missing.yaml", NO_COLOR="1")
        self.assertRegex(plain, r"^input error: config: [^;]*\n  where     missing.yaml\n  found     ")
        self.assertNotIn(".cpp:", plain)
        told = self.errors_on_a_terminal("config", "missing.yaml", "--verbose", NO_COLOR="1")
        self.assertRegex(told, r"\n  source    \[\S+\.cpp:\d+\]\n$")
        self.assertIn("\033[", self.errors_on_a_terminal("config", "missing.yaml"))
        self.assertNotIn("\033[", self.errors_on_a_terminal("config", "missing.yaml", TERM="dumb"))

    def test_elsewhere_it_is_one_line(self):
        for words in (["config", "missing.yaml"], ["--verbose", "config", "missing.yaml"]):
            self.assertEqual(run(*words).stderr.count("\n"), 1)


class JsonForms(unittest.TestCase):
    def test_a_configuration(self):
        content = json.loads(run("config", str(ROOT / "configs/own_data.yaml"), "run.steps=70",
                                 "--json").stdout)
        self.assertEqual((content["run"]["steps"], content["model"]["freeze"]), (70, []))


class WrongTypes(unittest.TestCase):
    """A value of a wrong type in a document is an input error, never a bug of the program."""

    def test_a_format_that_is_no_text(self):
        for value in (7, 1.5, None, True, [], {}, "another"):
            for name, rest in (("table.json", {}), ("graph.json", {"modules": {}, "edges": []})):
                with self.subTest(value=value, name=name), tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / name
                    path.write_text(json.dumps({"format": value, **rest}))
                    for words in (["plan", path], ["plan", path, "--method", "all"],
                                  ["simulate", path]):
                        done = run(*map(str, words))
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertNotIn("json.exception", done.stderr)


class LongNames(unittest.TestCase):
    def test_a_long_name_is_cut_in_a_message(self):
        for words in (["config", "x" * 10_000], ["plan", "x" * 10_000 + "/a.yaml"]):
            done = run(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertLess(len(done.stderr), 1000)
            self.assertIn("xxx...", done.stderr)


class LostOutput(unittest.TestCase):
    def test_output_that_nobody_can_read_is_an_error(self):
        demo = str(ROOT / "configs/demo.yaml")
        for words in (["config", demo], ["config", "--keys"], ["--help"], ["--version"],
                      ["plan", "--help"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                done = subprocess.run([TRIBUTARY, *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertIn("standard output cannot be written", done.stderr)

    def test_a_reader_that_goes_away_is_no_error_of_output(self):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([TRIBUTARY, "config", "--keys"], stdout=writing,
                              stderr=subprocess.PIPE, text=True, restore_signals=True)
        os.close(writing)
        self.assertEqual(done.returncode, -signal.SIGPIPE)
        self.assertEqual(done.stderr, "")


def with_small_files():
    """Limits files to 4 KiB, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class FullDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_refused(self, words, *expected):
        result = subprocess.run([TRIBUTARY, *map(str, words)], capture_output=True, text=True,
                                preexec_fn=with_small_files, restore_signals=False)
        self.assertEqual(result.returncode, 5, result.stderr)
        for text in ("resource error", *expected):
            self.assertIn(text, result.stderr)

    def test_demo_leaves_nothing_behind(self):
        self.assert_refused(["data", "make-demo", "-o", self.folder / "demo", "--samples", "400"],
                            "data: demo cannot be written", "File too large")
        (self.folder / "file").touch()
        self.assert_refused(["data", "make-demo", "-o", self.folder / "file/demo"],
                            "data: demo cannot be written", "Not a directory")
        self.assertEqual(os.listdir(self.folder), ["file"])

    def test_report_leaves_nothing_behind(self):
        run_directory = self.folder / "run"
        run_directory.mkdir()
        (run_directory / "config.yaml").write_text("run: {name: tiny}\n")
        (run_directory / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
        self.assert_refused(["report", run_directory], "report: file cannot be written",
                            "report.html", "File too large")
        self.assertEqual(sorted(os.listdir(run_directory)), ["config.yaml", "metrics.jsonl"])

    def test_demo_directory_may_end_in_a_slash(self):
        result = run("data", "make-demo", "-o", f"{self.folder}/demo/", "--samples", "10",
                     "--held-out", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue((self.folder / "demo/demo.json").exists())
        self.assertEqual(os.listdir(self.folder), ["demo"])


if __name__ == "__main__":
    unittest.main()
