"""Reads every example of docs/formats/data.md with `tributary data inspect`.

Usage: data_page_test.py TRIBUTARY SOURCE_DIR
A block `json` must be taken, `json --option=value` with that option, `json <code>` refused with
that code; `json from` is a pair of answers, which the shell command of the next block converts into
a record of another form.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import soundfile
from png_file import png

ROOT = pathlib.Path(sys.argv.pop(2))
TRIBUTARY = sys.argv.pop(1)
PAGE = ROOT / "docs/formats/data.md"


def blocks():
    """Returns (info, text) of every fenced block."""
    return re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


class DataPage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in re.findall(r'"([a-z0-9]+\.png)"', PAGE.read_text()):
            (self.folder / name).write_bytes(png(40, 30))
        for name in re.findall(r'"([a-z0-9]+\.(?:wav|flac|mp3))"', PAGE.read_text()):
            soundfile.write(self.folder / name, [0.0] * 8000, 8000)
        for name in re.findall(r'"([a-z0-9]+\.m4a)"', PAGE.read_text()):
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=duration=1",
                            self.folder / name], check=True)
        for name in set(re.findall(r'"([a-z0-9]+\.mp4)"', PAGE.read_text())):
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i",
                            "testsrc=size=64x48:rate=8:duration=1", self.folder / name], check=True)

    def inspect(self, record, *options):
        path = self.folder / "new.jsonl"
        if record is not None:
            path.write_text(json.dumps(record) + "\n")
        done = subprocess.run([TRIBUTARY, "data", "inspect", path, "--json", *options],
                              capture_output=True, text=True)
        return json.loads(done.stdout)[0]

    def test_good_examples_are_taken(self):
        examples = [(info.split()[1:], json.loads(text)) for info, text in blocks()
                    if re.fullmatch(r"json( --.*)?", info)]
        self.assertGreaterEqual(len(examples), 10)
        unread, forms = {}, set()
        for options, record in examples:
            with self.subTest(record):
                survey = self.inspect(record, *options)
                forms |= set(survey["forms"])
                self.assertEqual((survey["bad"], survey["first_bad"]), ({}, []))
                self.assertEqual(sum(survey["forms"].values()), 1)
                unread.update(survey["unread_keys"])
        names = re.search(r"names one for all: ([^.]*)\.", PAGE.read_text())[1]
        self.assertEqual(forms, set(re.findall(r"`([a-z]+)`", names)))
        self.assertEqual(unread, {"id": 1, "licence": 1, "messages[].name": 1})

    def test_refused_examples_have_their_code(self):
        examples = [(info.split()[1], json.loads(text)) for info, text in blocks()
                    if re.fullmatch(r"json [a-z_]+", info) and info != "json from"]
        self.assertGreaterEqual(len(examples), 9)
        for code, record in examples:
            with self.subTest(code):
                self.assertEqual(self.inspect(record)["bad"], {code: 1})

    def test_every_code_is_named(self):
        """Reads the codes of the reader and the picture decoders from their sources."""
        codes = set()
        for room in ("record", "decode"):
            for path in (ROOT / "src/data" / room).rglob("*.cpp"):
                codes |= set(re.findall(r'(?:refuse\(|Refusal\{|return \{)"([a-z0-9_]+)"',
                                        path.read_text()))
        page = PAGE.read_text()
        known = {code for code in codes if f"`{code}`" in page or f"json {code}\n" in page}
        self.assertGreater(len(codes), 20)
        self.assertEqual(codes - known, set())

    def test_conversions_run(self):
        found = blocks()
        pairs = [(json.loads(text), found[i + 1]) for i, (info, text) in enumerate(found)
                 if info == "json from"]
        self.assertGreaterEqual(len(pairs), 1)
        for record, (info, command) in pairs:
            self.assertEqual(info, "sh")
            with self.subTest(record):
                self.assertEqual(self.inspect(record)["forms"], {"preference": 1})
                if shutil.which("jq") is None:
                    self.skipTest("jq is not installed")
                (self.folder / "old.jsonl").write_text(json.dumps(record) + "\n")
                subprocess.run(["sh", "-ec", command], cwd=self.folder, check=True)
                self.assertEqual(self.inspect(None)["forms"], {"messages": 1})


unittest.main()
