"""Documents lead somewhere, and each rule catches a planted violation."""

import re
import shutil
import tempfile
import unittest
from pathlib import Path

from check_documents import check_documents

ROOT = Path(__file__).resolve().parents[2]


class PlantedViolations(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.plant("src/core/README.md", "# core\n")
        self.plant("docs/theory/parallelism.md", "# Parallelism\n\n## Ring attention\n\n## Axes\n")

    def plant(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def assert_only(self, words):
        violations = check_documents(self.root)
        self.assertEqual(len(violations), 1, violations)
        self.assertIn(words, violations[0])

    def test_clean_documents_have_none(self):
        self.plant("src/core/error.h", "/// source: docs/theory/parallelism.md, \"Ring\n"
                                       "///         attention\" and \"Axes\"\n")
        self.plant("README.md", "See [rings](docs/theory/parallelism.md#ring-attention), `src/core` "
                                "and [axes](docs/theory/parallelism.md), \"Axes\".\n")
        self.assertEqual(check_documents(self.root), [])

    def test_a_citation_of_a_missing_file_is_named(self):
        self.plant("src/core/error.h", "/// source: parallelism.md section 4.3\n")
        self.assert_only("src/core/error.h: cites parallelism.md, which is not there")

    def test_a_citation_of_a_missing_heading_is_named(self):
        self.plant("tests/core/error_test.py", '# docs/theory/parallelism.md, "Axes" and "Rings"\n')
        self.assert_only('cites docs/theory/parallelism.md, "Rings": no such heading')

    def test_a_heading_cited_behind_a_link_is_looked_up(self):
        self.plant("docs/guide.md", '[rings](theory/parallelism.md), "Rings"\n')
        self.assert_only('docs/guide.md: cites theory/parallelism.md, "Rings": no such heading')

    def test_a_link_to_a_missing_file_is_named(self):
        self.plant("README.md", "[a](docs/a.md)\n")
        self.assert_only("README.md: link to docs/a.md, which is not there")

    def test_a_link_to_a_missing_heading_is_named(self):
        self.plant("README.md", "[a](docs/theory/parallelism.md#rings)\n")
        self.assert_only("link to docs/theory/parallelism.md#rings: no such heading")

    def test_a_missing_path_is_named(self):
        self.plant("README.md", "`src/gone.h`\n")
        self.assert_only("README.md: names src/gone.h, which is not there")

    def test_a_missing_test_is_named(self):
        self.plant("docs/theory/bound.md", "Test: `Bound.Holds`, `Bound.Is`.\n")
        self.plant("tests/plan/bound_test.cpp", "TEST(Bound, Holds) {\n")
        self.assert_only("docs/theory/bound.md: names the test Bound.Is, which is not there")

    def test_a_room_that_does_not_explain_itself_is_named(self):
        self.plant("src/data/sample.cpp", "")
        self.assert_only("src/data: no README.md")


    def test_a_long_paragraph_of_a_guide_is_named(self):
        self.plant("docs/guides/plan.md", "word " * 80 + "\n\n- " + "word " * 79)
        self.assertEqual(check_documents(self.root), [])
        self.plant("docs/guides/plan.md", "word " * 40 + "\n" + "word " * 41 + "\n")
        self.assert_only("docs/guides/plan.md: a paragraph of 81 words, at most 80")

    def test_a_long_cell_of_a_guide_is_named(self):
        self.plant("docs/guides/plan.md", "| " + "word " * 41 + "| b |\n")
        self.assert_only("docs/guides/plan.md: a cell of 41 words, at most 40")


class RealDocuments(unittest.TestCase):
    def test_keep_the_rules(self):
        self.assertEqual(check_documents(ROOT), [])

    def test_the_notice_names_every_library_of_the_program(self):
        notice = (ROOT / "NOTICE").read_text().lower()
        table = (ROOT / "docs/dependencies.md").read_text().split("## In the program")[1].split("## ")[0]
        names = [name for row in re.findall(r"^\| ([^|]+) \|", table, re.M)[1:] if "--" not in row
                 for name in row.split(", ")]
        self.assertGreaterEqual(len(names), 13)
        for name in names:
            with self.subTest(name=name):
                self.assertIn(name.lower(), notice)


if __name__ == "__main__":
    unittest.main()
