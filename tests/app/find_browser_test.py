"""The page test takes the first browser that runs, and says what to do where there is none."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from find_browser import SKIPPED, find_browser


def write_program(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


RUNS = "echo Chromium 120"
SNAP_STUB = "echo 'Command requires the chromium snap to be installed.' >&2; exit 1"


class FindBrowser(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.programs = self.root / "bin"
        self.programs.mkdir()
        values = {"PATH": str(self.programs), "HOME": str(self.root)}
        clean = mock.patch.dict(os.environ, values, clear=True)
        clean.start()
        self.addCleanup(clean.stop)

    def test_takes_each_name_that_runs(self):
        for name in ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser"):
            path = write_program(self.programs / name, RUNS)
            with self.subTest(name):
                self.assertEqual(find_browser(), path)
            os.remove(path)

    def test_passes_over_the_stub_that_asks_for_a_snap(self):
        write_program(self.programs / "chromium-browser", SNAP_STUB)
        with self.assertRaises(SystemExit) as stop:
            find_browser()
        self.assertIn("chromium-browser does not run: Command requires the chromium snap",
                      stop.exception.code)
        fetched = write_program(
            self.root / ".cache/ms-playwright/chromium-1200/chrome-linux/chrome", RUNS)
        self.assertEqual(find_browser(), fetched)

    def test_fails_with_what_to_install(self):
        with self.assertRaises(SystemExit) as stop:
            find_browser()
        for words in ("no browser runs here", "apt-get install chromium",
                      "playwright install --with-deps chromium", "TRIB_SKIP_BROWSER=1"):
            self.assertIn(words, stop.exception.code)

    def test_takes_the_one_that_is_named_and_no_other(self):
        write_program(self.programs / "chromium", RUNS)
        os.environ["TRIB_BROWSER"] = write_program(self.root / "mine", RUNS)
        self.assertEqual(find_browser(), os.environ["TRIB_BROWSER"])
        os.environ["TRIB_BROWSER"] = str(self.root / "none")
        with self.assertRaises(SystemExit):
            find_browser()

    def test_is_skipped_only_where_that_is_asked_for(self):
        os.environ["TRIB_SKIP_BROWSER"] = "1"
        with self.assertRaises(SystemExit) as stop:
            find_browser()
        self.assertEqual(stop.exception.code, SKIPPED)


unittest.main()
