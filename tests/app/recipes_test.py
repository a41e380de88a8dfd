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
    "llama_3_1_8b": 8_030_261_248, "llama_3_1_70b": 70_553_706_496, "llama_3_2_1b": 1_235_814_400,
    "llama_3_2_3b": 3_212_749_824,
    "qwen2_5_0_5b": 494_032_768, "qwen2_5_1_5b": 1_543_714_304, "qwen2_5_3b": 3_085_938_688,
    "qwen2_5_7b": 7_615_616_512, "qwen2_5_14b": 14_770_033_664, "qwen2_5_32b": 32_763_876_352,
    "qwen2_5_72b": 72_706_203_648,
    "qwen3_0_6b": 596_049_920, "qwen3_1_7b": 1_720_574_976, "qwen3_4b": 4_022_468_096,
    "qwen3_8b": 8_190_735_360, "qwen3_14b": 14_768_307_200, "qwen3_32b": 32_762_123_264,
    "qwen2_vl_2b": 2_208_985_600, "qwen2_vl_7b": 8_291_375_616, "qwen2_vl_72b": 73_405_560_320,
    "qwen2_5_vl_3b": 3_754_622_976, "qwen2_5_vl_7b": 8_292_166_656,
    "qwen2_5_vl_32b": 33_452_718_336, "qwen2_5_vl_72b": 73_410_777_344,
    "qwen3_vl_2b": 2_127_532_032, "qwen3_vl_4b": 4_437_815_808, "qwen3_vl_8b": 8_767_123_696,
    "qwen3_vl_32b": 33_357_390_064,
    "internvl2_5_4b": 3_712_637_952, "internvl3_1b": 938_193_024, "internvl3_2b": 2_088_957_440,
    "internvl3_8b": 7_944_373_760, "internvl3_14b": 15_117_256_704,
    "internvl3_38b": 38_388_164_992, "internvl3_78b": 78_408_318_336,
    "llava_onevision_0_5b": 893_675_552, "llava_onevision_7b": 8_030_807_584,
    "llava_onevision_72b": 73_181_570_592,
    "qwen2_audio_7b": 8_397_094_912, "qwen2_5_omni_3b": 4_703_464_448,
    "qwen2_5_omni_7b": 8_931_813_888}


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
        self.assertGreater(len(recipes), 9)
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
        stages = [{"name": preset, "set": [f"model.path=configs/models/{preset}"]} for preset in PARAMETERS]
        recipe = pathlib.Path(self.folder.name) / "presets.yaml"  # in one process, as stages of a run
        recipe.write_text(json.dumps({
            "run": {"stages": stages, "steps": 1}, "model": {"path": "none", "weights": "random"},
            "data": {"sources": [{"name": "mine", "path": str(self.data)}]}}))
        runs = json.loads(self.look(recipe, "--dry-run", "--json"))["dry_run"]
        self.assertEqual({preset: run["parameters"] for preset, run in zip(PARAMETERS, runs, strict=True)},
                         PARAMETERS)

    def test_says_how_much_data_there_is(self):
        chat = json.loads(self.data.read_text())
        long = {"messages": [chat["messages"][0], {"role": "assistant", "content": "so " * 3000}]}
        data = pathlib.Path(self.folder.name) / "many.jsonl"
        data.write_text("".join(json.dumps(long if i % 4 < 2 else chat) + "\n" for i in range(128)))
        said = self.look("configs/own_data.yaml", "model.path=configs/demo_model", "--dry-run", "--json",
                         "data.held_out_fraction=0", "validation.every=0", "data.sources.0.images=.", path=data)
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
