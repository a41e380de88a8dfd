"""Links between the documents lead somewhere, and the documents speak of files that are there."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/*/README.md")]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:src|docs|tests|bench|scripts|setup|configs)/[\w./-]+)`")


class Documents(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        for page in PAGES:
            for target in LINK.findall(page.read_text()):
                if "://" not in target:
                    with self.subTest(page=page.relative_to(ROOT), link=target):
                        self.assertTrue((page.parent / target).exists())

    def test_every_path_named_is_there(self):
        for page in PAGES:
            for path in PATH.findall(page.read_text()):
                with self.subTest(page=page.relative_to(ROOT), path=path):
                    self.assertTrue((ROOT / path.rstrip("/")).exists())

    def test_the_notice_names_every_library_of_the_program(self):
        notice = (ROOT / "NOTICE").read_text().lower()
        table = (ROOT / "docs/dependencies.md").read_text().split("## In the program")[1].split("## ")[0]
        names = [name for row in re.findall(r"^\| ([^|]+) \|", table, re.M)[1:] if "--" not in row
                 for name in row.split(", ")]
        self.assertGreaterEqual(len(names), 13)
        for name in names:
            with self.subTest(name=name):
                self.assertIn(name.lower(), notice)

    def test_every_room_with_code_explains_itself(self):
        for room in sorted((ROOT / "src").iterdir()):
            if room.is_dir() and any(room.rglob("*.cpp")):
                with self.subTest(room=room.name):
                    self.assertTrue((room / "README.md").is_file())


if __name__ == "__main__":
    unittest.main()
