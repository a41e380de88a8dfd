"""The real tree keeps the rules, and each rule catches a planted violation."""

import shutil
import tempfile
import unittest
from pathlib import Path

from check_tree import check_tree

ROOT = Path(__file__).resolve().parents[2]


class PlantedViolations(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.plant("src/rooms.txt", "core no\ndata no core\nops yes core\n")
        self.plant("src/core/error.h", "#pragma once\n")
        for room in ("core", "data", "app"):
            self.plant(f"src/{room}/README.md", "`error`, `sample`, `shape`, `main`")

    def plant(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def assert_only(self, words):
        violations = check_tree(self.root)
        self.assertEqual(len(violations), 1, violations)
        self.assertIn(words, violations[0])

    def test_a_clean_tree_has_none(self):
        self.plant("src/data/sample.cpp", '#include "core/error.h"\n')
        self.assertEqual(check_tree(self.root), [])

    def test_a_wrong_include_is_named(self):
        self.plant("src/data/sample.h", "")
        self.plant("src/core/error.cpp", '#include "data/sample.h"\n')
        self.assert_only("src/core/error.cpp:1: room core may not include data/sample.h")

    def test_torch_in_a_torch_free_room_is_named(self):
        self.plant("src/data/sample.cpp", "#include <ATen/ATen.h>\n")
        self.assert_only("torch header ATen/ATen.h in the torch-free room data")

    def test_a_cycle_of_the_table_is_named(self):
        self.plant("src/rooms.txt", "core no data\ndata no core\n")
        self.assert_only("cycle core -> data -> core")

    def test_a_folder_without_a_line_is_named(self):
        self.plant("src/extra/thing.cpp", "")
        self.assert_only("folder src/extra has no line")

    def test_a_long_file_is_named(self):
        self.plant("src/data/sample.cpp", "\n" * 401)
        self.assert_only("401 lines, at most 400")

    def test_an_empty_name_is_named(self):
        self.plant("src/data/README.md", "`image_utils`")
        self.plant("src/data/image_utils.cpp", "")
        self.assert_only("name says nothing")

    def test_a_unit_that_no_readme_names_is_named(self):
        self.plant("src/data/decode/jpeg.cpp", "")
        self.assert_only("src/data/decode/jpeg: no README.md of src/data names this unit")
        self.plant("src/data/decode/" + "README.md", "`jpeg`: the decoder")
        self.assertEqual(check_tree(self.root), [])

    def test_folders_that_include_each_other_are_named(self):
        self.plant("src/data/sample.h", '#include "data/decode/shape.h"\n')
        self.plant("src/data/decode/shape.h", "")
        self.assertEqual(check_tree(self.root), [])
        self.plant("src/data/decode/shape.cpp", '#include "data/sample.h"\n')
        self.assert_only("folders include each other: data -> data/decode -> data, "
                         "by data/decode/shape.h, data/sample.h")

    def test_a_type_of_two_headers_is_named(self):
        for name in ("sample", "shape"):
            self.plant(f"src/data/{name}.h", "namespace tributary::data {\nstruct Size {\n};\n}\n")
        self.assert_only("src/data/shape.h: defines tributary::data::Size, as src/data/sample.h")

    def test_a_module_that_is_named_outside_of_families_is_named(self):
        self.plant("src/config/README.md", "`known_modules`")
        self.plant("src/rooms.txt", "core no\ndata no core\nconfig no core\n")
        self.plant("src/config/family/known_modules.cpp", 'const char* k = "vision";\n')
        self.assertEqual(check_tree(self.root), [])
        self.plant("src/data/sample.cpp", 'const char* k = "vision";\n')
        self.assert_only("src/data/sample.cpp:1: names the module vision")

    def test_torch_in_the_command_line_is_named(self):
        self.plant("src/rooms.txt", "core no\napp yes core\n")
        self.plant("src/app/cli/main.cpp", "#include <torch/torch.h>\n")
        self.assert_only("torch header outside app/engine")


class RealTree(unittest.TestCase):
    def test_it_keeps_the_rules(self):
        self.assertEqual(check_tree(ROOT), [])


if __name__ == "__main__":
    unittest.main()
