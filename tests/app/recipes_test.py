"""Looks at each recipe with `train --dry-run` as its second command line does, and holds the memory
that its header states against what the program counts."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARAMETERS = {  # published, or counted from the published class
    "llama_3_1_8b": 8_030_261_248, "qwen2_vl_2b": 2_208_985_600, "qwen2_vl_7b": 8_291_375_616,
    "qwen2_vl_72b": 73_405_560_320, "qwen2_5_vl_3b": 3_754_622_976,
    "qwen2_5_vl_7b": 8_292_166_656, "qwen2_5_vl_32b": 33_452_718_336,
    "qwen2_5_vl_72b": 73_410_777_344, "qwen3_vl_2b": 2_127_532_032, "qwen3_vl_4b": 4_437_815_808,
    "qwen3_vl_8b": 8_767_123_696, "qwen3_vl_32b": 33_357_390_064, "qwen3_8b": 8_190_735_360,
    "llama_3_1_70b": 70_553_706_496}


class Recipes(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = pathlib.Path(cls.folder.name) / "mine.jsonl"
        cls.data.write_text(json.dumps({"messages": [{"role": "user", "content": "a"},
                                                     {"role": "assistant", "content": "b"}]}) + "\n")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def look(self, recipe, *words, path=None, code=0):
        """Runs `tributary train` in the project's folder with data of its own."""
        done = subprocess.run(
            [self.program, "train", str(recipe), *map(str, words),
             f"data.sources.0.path={path or self.data}", f"run.dir={self.folder.name}/run"],
            cwd=ROOT, text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_each_recipe_fits_as_its_header_says(self):
        recipes = sorted((ROOT / "configs/recipes").glob("*.yaml"))
        self.assertGreater(len(recipes), 5)
        for recipe in recipes:
            with self.subTest(recipe.stem):
                header = recipe.read_text()
                command = re.search(r"#   tributary train (.*--dry-run.*)", header).group(1)
                said = self.look(*shlex.split(command))
                memory = re.search(r"^memory +(.*?)(; there are|$)", said, re.M).group(1)
                self.assertIn(f"# memory: {memory}\n", header, recipe.name)

    def test_each_preset_is_the_released_model(self):
        presets = {path.parent.name for path in (ROOT / "configs/models").glob("*/config.json")}
        self.assertEqual(presets, set(PARAMETERS))
        recipe = ROOT / "configs/recipes/qwen2_vl_2b-1x80g.yaml"
        for preset, parameters in PARAMETERS.items():
            said = self.look(recipe, f"model.path=configs/models/{preset}", "model.weights=random",
                             "model.freeze=[]", "model.recompute=[]", "--dry-run")
            self.assertIn(f"{parameters:,} parameters", said, preset)

    def test_says_how_much_data_there_is(self):
        chat = json.loads(self.data.read_text())
        long = {"messages": [chat["messages"][0], {"role": "assistant", "content": "so " * 3000}]}
        data = pathlib.Path(self.folder.name) / "many.jsonl"
        data.write_text("".join(json.dumps(long if i % 4 < 2 else chat) + "\n" for i in range(128)))
        said = self.look("configs/own_data.yaml", "model.path=configs/demo_model", "--dry-run", "--json",
                         "data.held_out_fraction=0", "data.sources.0.images=.", path=data)
        (run,) = json.loads(said)["dry_run"]
        tokens = run["data"].pop("estimated_tokens")
        self.assertEqual(run["data"], {"records": 128, "held_out_records": 0, "steps": 200,
                                       "estimated_dropped_records": 64, "steps_of_epoch": 16})
        self.assertGreater(tokens, 64 * 2)  # a question and an answer of a letter each
        self.assertEqual(tokens % 64, 0)

    def test_says_what_recompute_saves(self):
        recipe = ROOT / "configs/recipes/qwen2_5_vl_7b-8x80g.yaml"
        here = ["model.path=configs/models/qwen2_5_vl_7b", "model.weights=random", "--dry-run", "--json",
                "--ranks", 8]
        needs = {words: json.loads(self.look(recipe, *here, f"model.recompute=[{words}]"))["dry_run"][0]
                 for words in ("", "backbone/4", "backbone/2", "backbone")}
        none, quarter, half, all_ = (needs[words]["activation_bytes"] for words in needs)
        self.assertEqual(len({need["kept_bytes"] for need in needs.values()}), 1)
        # Of 28 layers 7 and 14 run again.
        self.assertAlmostEqual((none - quarter) / (none - all_), 7 / 28, places=6)
        self.assertAlmostEqual((none - half) / (none - all_), 14 / 28, places=6)

    def test_says_what_cannot_be(self):
        recipe = ROOT / "configs/recipes/qwen2_5_vl_7b-8x80g.yaml"
        here = ["model.path=configs/models/qwen2_5_vl_7b", "model.weights=random"]
        said = self.look(recipe, *here, "--dry-run", "--ranks", 8, "--memory", 20, code=5)
        self.assertIn("does not fit into memory", said)
        self.assertIn("--memory", said)
        self.assertIn("dp_shard", self.look(recipe, *here, "--dry-run", "--ranks", 6, code=2))
        self.assertIn("--dry-run", self.look(recipe, *here, "--ranks", 8, code=2))


if __name__ == "__main__":
    Recipes.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
