"""Runs `tributary compare` as a user does: tables, JSON, page, exit codes, and every study of
configs/studies in its quick mode.

Usage: compare_test.py TRIBUTARY ROOT
"""

import html
import html.parser
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
TRIBUTARY = sys.argv.pop(1)
STUDIES = sorted((ROOT / "configs/studies").glob("*.yaml"))
SMALL = ROOT / "configs/studies/small.yaml"


class PageReader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.bars, self.rows, self.references, self.open = 0, 0, [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.bars += values.get("class") == "bar-row"
        self.rows += tag == "tr"
        self.references += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_verb(self, *words):
        done = subprocess.run([TRIBUTARY, "compare", *map(str, words)], capture_output=True,
                              text=True)
        return done.returncode, done.stdout, done.stderr

    def answer(self, *words):
        code, out, err = self.run_verb(*words, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    kept = {}

    def small_answer(self):
        """The answer for the small study, computed once for all tests that only read it."""
        if "small" not in self.kept:
            self.kept["small"] = json.dumps(self.answer(SMALL))
        return json.loads(self.kept["small"])

    def changed(self, text, to):
        study = SMALL.read_text().replace("../clusters", str(ROOT / "configs/clusters"))
        self.assertIn(text, study)
        path = self.folder / "study.yaml"
        path.write_text(study.replace(text, to))
        return path

    def test_a_page_that_cannot_be_written_is_told_before_the_first_search(self):
        code, text, err = self.run_verb(SMALL, "-o", self.folder / "none/page.html")
        self.assertEqual((code, text), (5, ""))
        self.assertIn("file cannot be written; where: ", err)
        self.assertNotIn("compare: ", err)

    def test_text_json_and_page_say_the_same(self):
        page = self.folder / "compare.html"
        code, text, err = self.run_verb(SMALL, "-o", page)
        self.assertEqual(code, 0, err)
        found = self.small_answer()
        self.assertEqual(found["format"], "tributary.comparison/1")
        reader = PageReader()
        reader.feed(page.read_text())
        self.assertEqual(reader.open, [])
        self.assertEqual([r for r in reader.references if not r.startswith(("#", "data:"))], [])
        self.assertEqual(reader.bars, sum(len(s["methods"]) for s in found["settings"]))
        for say in (text, html.unescape(page.read_text())):
            self.assertEqual(say.count("search is judged by the simulator"), 2)
            self.assertEqual(say.count("orchmllm (samples dealt anew between encoder and backbone in every microbatch)"), 2)
        for setting in found["settings"]:
            self.assertIn(setting["name"], text)
            for method in setting["methods"]:
                self.assertIn(method["method"], text)
                self.assertIn(method["method"], page.read_text())
                self.assertIn(method["plan"], text)
                self.assertGreater(method["step_s"], 0)

    def test_the_same_twice(self):
        first, second = self.small_answer(), self.answer(SMALL)
        for each in (first, second):
            for setting in each["settings"]:
                for method in setting["methods"]:
                    del method["milliseconds"]
        self.assertEqual(first, second)

    def test_ours_is_never_slower_than_what_it_contains(self):
        for setting in self.small_answer()["settings"]:
            step = {method["method"]: method["step_s"] for method in setting["methods"]}
            for name in ("dflop", "orchmllm", "optimus", "loongforge_2", "loongforge_3", "megatron_encoder_stage"):
                self.assertLessEqual(step["best_of_methods"], step[name], name)

    def test_memory_that_does_not_hold_any_plan(self):
        path = self.changed("devices: 8}", "devices: 8, memory_bytes: 1000}")
        for method in self.answer(path)["settings"][0]["methods"]:
            self.assertEqual((method["status"], method["step_s"]), ("infeasible", 0))
            self.assertRegex(method["limit"], r"^memory: .* \d+ B above the 1000 B that a plan may hold")
            self.assertEqual(method["limit"].endswith(", layers recomputed"), method["method"] != "search")
        self.assertIn("no plan", self.run_verb(path)[1])

    def test_orders_of_methods_and_of_settings(self):
        path = self.changed("against: megatron_uniform", "methods: [fsdp, orchmllm]\norders:\n"
                            '  - {where: "x", setting: "everything trains", methods: [fsdp, orchmllm]}\n'
                            '  - {where: "y", method: fsdp, settings: ["everything trains", "frozen encoder"]}\n'
                            '  - {where: "z", setting: "frozen encoder", speedups: [[fsdp, orchmllm], [orchmllm, fsdp]]}')
        page = self.folder / "compare.html"
        code, text, err = self.run_verb(path, "-o", page)
        self.assertEqual(code, 0, err)
        found = self.answer(path)
        settings = [{m["method"]: m for m in s["methods"]} for s in found["settings"]]
        of_methods, of_settings, of_speedups = found["orders"]
        self.assertEqual(of_methods["values"], [settings[0][m]["step_s"] for m in ("fsdp", "orchmllm")])
        self.assertEqual(of_settings["values"], [s["fsdp"]["mfu"] for s in settings])
        steps = [settings[1][m]["step_s"] for m in ("fsdp", "orchmllm")]
        self.assertEqual(of_speedups["values"], [steps[1] / steps[0], steps[0] / steps[1]])
        self.assertEqual(of_speedups["ranked"][0], {"setting": "frozen encoder", "method": "fsdp", "against": "orchmllm"})
        self.assertIn("order of frozen encoder: fsdp / orchmllm ", text)
        for order in found["orders"]:
            low, high = order["values"] if order["by"] == "step" else order["values"][::-1]
            tie = abs(high - low) <= 1e-3 * max(low, high)
            self.assertEqual((order["tie"], order["holds"]), (tie, tie or low < high))
            word = "tie" if tie else "ok" if low < high else "off"
            self.assertRegex(text, rf"(?m)^  {word} +{order['where']}: order of ")
            self.assertIn({"tie": ">tie<", "ok": ">yes<", "off": ">no<"}[word], page.read_text())

    def test_occupancy_of_shared_devices(self):
        path = self.folder / "study.yaml"
        path.write_text("\n".join([
            "format: tributary.study/1", 'name: "shared"', "kind: sharing",
            "methods: [megatron_temporal, mosaic]", "models:", "  two:", "    modules:",
            "      - {name: vision, layers: 4, width: 512, tokens: 256}",
            "      - {name: text, layers: 4, width: 256, tokens: 256}", "settings:",
            f"  - {{name: one, model: two, cluster: {ROOT / 'configs/clusters/h100_8.yaml'}, "
            "devices: 4, global_samples: 8}", "figures:",
            "  - {quantity: occupancy, setting: one, method: mosaic, value: 0.5}",
            "  - {quantity: occupancy, setting: one, method: mosaic, against: megatron_temporal, value: 2}",
            "orders:",
            '  - {where: "x", setting: one, methods: [mosaic, megatron_temporal], by: occupancy}']))
        page = self.folder / "compare.html"
        code, text, err = self.run_verb(path, "-o", page)
        self.assertEqual(code, 0, err)
        found = self.answer(path)
        temporal, mosaic = found["settings"][0]["methods"]
        for method in (temporal, mosaic):
            self.assertTrue(0 < method["min_occupancy"] <= method["occupancy"] + 1e-12 <= 1, method)
        value, ratio = found["figures"]
        self.assertEqual(value["found"], mosaic["occupancy"])
        self.assertAlmostEqual(ratio["found"], mosaic["occupancy"] / temporal["occupancy"], 12)
        (order,) = found["orders"]
        self.assertEqual((order["by"], order["values"]), ("occupancy", [mosaic["occupancy"], temporal["occupancy"]]))
        percent = f"{100 * mosaic['occupancy']:.1f} %"
        for say in (text, html.unescape(page.read_text())):
            self.assertIn("occupancy", say.lower())
            self.assertIn(percent, say)
            self.assertIn(f"{ratio['found']:.3f}x", say)
        for method in self.small_answer()["settings"][0]["methods"]:
            self.assertIsNone(method["occupancy"])
            self.assertIsNone(method["min_occupancy"])

    def test_bad_studies(self):
        for text, to, words in [
                ("devices: 8}", "devices: -8}", "settings.0.devices"),
                ("model: small", "model: large", "settings.0.model"),
                ("devices: 8}", "devices: 8, share_units: 5}", "settings.0.share_units"),
                ("against: megatron_uniform", "methods: [fsdp, fsdp]", "each method once"),
                ("against: megatron_uniform", "methods: [megatron]", "found: megatron"),
                ("against: megatron_uniform", "against: foo", " against; found: foo"),
                ("against: megatron_uniform", "against: veomni", "runs without `methods`"),
                ("against: megatron_uniform",
                 "methods: [megatron_unifrom]\nagainst: megatron_uniform",
                 "methods.0; found: megatron_unifrom"),
                ("against: megatron_uniform", "methods: [mosaic]", "found: mosaic"),
                ("models:", "figures: [{setting: everything trains, method: dflopp, "
                 "against: dflop, value: 1}]\nmodels:", "did you mean dflop?"),
                ("models:", "orders: [{setting: everything trains, methods: [dflop, nonsense]}]"
                 "\nmodels:", "orders.0.methods.1; found: nonsense"),
                ("global_samples: 32", "global_sample: 32", "did you mean global_samples"),
                ("models:", "figures: [{quantity: occupancy, setting: everything trains, method: dflop, "
                 "value: 1}]\nmodels:", "`sharing` alone counts occupancy"),
                ("num_attention_heads: 8", "num_attention_heads: 7", "models.small"),
                ("format: tributary.study/1", "format: x", "not a study of this version")]:
            code, out, err = self.run_verb(self.changed(text, to))
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn(words, err)
        self.assertEqual(self.run_verb(self.folder / "none.yaml")[0], 2)

    def test_a_model_at_a_path(self):
        path = self.folder / "study.yaml"
        path.write_text("\n".join([
            "format: tributary.study/1", 'name: "a path"', "methods: [fsdp]",
            f"models: {{m: {ROOT / 'configs/demo_model'}}}", "settings:",
            f"  - {{name: one, model: m, cluster: {ROOT / 'configs/clusters/a100_8.yaml'}, "
            "devices: 2, global_samples: 8}"]))
        (setting,) = self.answer(path)["settings"]
        self.assertEqual(setting["model"], "m")
        self.assertGreater(setting["methods"][0]["step_s"], 0)

    def test_images_and_sound(self):
        path = self.folder / "study.yaml"
        study = "\n".join([
            "format: tributary.study/1", 'name: "two media"', "methods: [fsdp, exact]",
            f"models: {{m: {ROOT / 'configs/models/qwen2_5_omni_7b'}}}", "settings:",
            f"  - {{name: one, model: m, cluster: {ROOT / 'configs/clusters/a100_8.yaml'}, "
            "devices: 8, global_samples: 16, data: DATA}"])
        steps = {}
        for name, data in (("reference", "reference"),
                           ("classes", "{classes: [{items: 2, patches: 800, patches_per_token: 4, clips: 1, "
                                       "frames: 500, frames_per_token: 2, text: 100}]}"),
                           ("louder", "{classes: [{items: 2, patches: 800, patches_per_token: 4, clips: 6, "
                                      "frames: 500, frames_per_token: 2, text: 100}]}")):
            path.write_text(study.replace("DATA", data))
            (setting,) = self.answer(path)["settings"]
            steps[name] = {method["method"]: method["step_s"] for method in setting["methods"]}
        for method in ("fsdp", "search"):
            self.assertGreater(steps["reference"][method], 0)
            self.assertGreater(steps["louder"][method], steps["classes"][method])
        path.write_text(study.replace("models/qwen2_5_omni_7b", "demo_model").replace(
            "DATA", "{classes: [{items: 1, patches: 16, clips: 1, frames: 50}]}"))
        code, _, err = self.run_verb(path)
        self.assertEqual(code, 2)
        self.assertIn("model does not encode sound beside images", err)

    def test_every_study_runs(self):
        self.assertGreater(len(STUDIES), 8)
        for path in STUDIES:
            with self.subTest(path.name):
                found = self.answer(path, "--quick")
                (setting,) = found["settings"]
                self.assertLessEqual(setting["devices"], 16)
                solved = [m for m in setting["methods"] if m["step_s"] > 0]
                self.assertTrue(solved, "no method has a plan")
                for method in solved:
                    self.assertLess(method["mfu"], 1)


unittest.main(verbosity=2)
