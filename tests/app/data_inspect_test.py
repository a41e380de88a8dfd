"""Runs `tributary data inspect` on good and bad data sets: exit codes and words.

Usage: data_inspect_test.py TRIBUTARY
"""

import json
import os
import subprocess
import tempfile
import unittest

from png_file import png
from tiny_model import CONFIG, TOKENIZER, TRIBUTARY


def question(image=None, text="what?"):
    content = [{"type": "text", "text": text}]
    if image is not None:
        content.insert(0, {"type": "image_url", "image_url": {"url": image}})
    return {"messages": [{"role": "user", "content": content},
                         {"role": "assistant", "content": "a cat"}]}


class DataInspect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(content if isinstance(content, bytes) else content.encode())
        return path

    def write_lines(self, name, records):
        return self.write(name, "".join(
            (line if isinstance(line, str) else json.dumps(line)) + "\n" for line in records))

    def run_verb(self, *words):
        done = subprocess.run([TRIBUTARY, "data", "inspect", *words], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_counts_a_good_data_set(self):
        self.write("pics/a.png", png(100, 40))
        path = self.write_lines("train.jsonl", [question("a.png"), question("a.png"), question()])
        code, out, err = self.run_verb(path, "--images", os.path.join(self.folder, "pics"))
        self.assertEqual((code, err), (0, ""))
        for words in ("records: 3", "forms: messages 3\n", "images 2, clips 0", "bad: 0",
                      "user: [image a.png]what?", "assistant: a cat",
                      "longer side of a picture [pixels]: min 100, mean 100, max 100; median 100, "
                      "90 % within 100, 99 % within 100"):
            self.assertIn(words, out)

    def test_gives_the_same_as_json(self):
        path = self.write_lines("train.jsonl", [question()] * 4)
        code, out, _ = self.run_verb(path, "--json", "--limit", "3")
        self.assertEqual(code, 0)
        (survey,) = json.loads(out)
        self.assertEqual((survey["records"], survey["surveyed"], survey["turns"]), (4, 3, 6))
        self.assertEqual(survey["text_bytes"]["counts"], [[8, 3]])
        self.assertEqual((survey["text_bytes"]["median"], survey["text_bytes"]["percentile_99"]), (10, 10))
        self.assertNotIn("tokens", survey)  # the command names no model

    def test_lists_keys_that_nothing_reads(self):
        path = self.write_lines("train.jsonl", [{**question(), "id": i} for i in range(3)] + [question()])
        code, out, _ = self.run_verb(path)
        self.assertEqual(code, 0)
        self.assertIn("keys that nothing reads: id in 3 of 4 records", out)
        (survey,) = json.loads(self.run_verb(path, "--json")[1])
        self.assertEqual(survey["unread_keys"], {"id": 3})

    def test_names_every_bad_record(self):
        self.write("broken.png", png(9, 9)[:-20])
        self.write("note.txt", "hello")
        bad = [question("none.png"), question("broken.png"), question("note.txt"),
               question("/etc/passwd"), question("http://host/a.png"), "{broken",
               {"messages": []}, '{"messages":[],"messages":[]}']
        path = self.write_lines("train.jsonl", [question()] * 30 + bad)
        code, out, err = self.run_verb(path)
        self.assertEqual(code, 0)  # up to ten bad records are tolerated
        self.assertIn("data: 8 of 38 records are bad; training replaces them", err)
        self.assertIn("bad: 8 (bad_json 2, bad_path 1, missing_file 1, no_answer 1, "
                      "path_escapes 1, png_damaged 1, unknown_format 1)", out)
        self.assertIn("train.jsonl:31  missing_file: \"none.png\"", out)
        self.assertIn("train.jsonl:35  bad_path: \"http://host/a.png\" is a URL", out)
        self.assertIn("duplicate key", out)

    def test_too_many_bad_records_are_code_3(self):
        path = self.write_lines("train.jsonl", [question()] * 30 + [question("none.png")] * 11)
        code, out, err = self.run_verb(path)
        self.assertEqual(code, 3)
        self.assertIn("and 1 more", out)
        self.assertIn("input error: data: too many bad samples; found: 11 of 41", err)
        self.assertIn("fix: give the folder that their paths start from: --images FOLDER", err)
        code, out, err = self.run_verb(path, "--json")
        self.assertEqual(json.loads(err)["exit_code"], 3)
        self.assertEqual(json.loads(out)[0]["records"], 41)

    def test_says_which_answers_are_not_learned(self):
        turns = question()["messages"]
        path = self.write_lines("train.jsonl", [
            {"messages": [*turns[:1], {**turns[1], "weight": 0}, *turns]}])
        self.assertIn("assistant (not learned): a cat", self.run_verb(path)[1])

    def test_a_source_that_is_mostly_bad_is_code_3(self):
        path = self.write_lines("train.jsonl", [question()] + [question("none.png")] * 5)
        code, _, err = self.run_verb(path)
        self.assertEqual(code, 3)
        self.assertIn("found: 5 of 6", err)
        self.assertIn("half of the records of a source", err)

    def test_no_good_record_is_code_3(self):
        code, out, err = self.run_verb(self.write_lines("train.jsonl", ["{}"]))
        self.assertEqual(code, 3)
        self.assertIn("found: 1 of 1", err)
        self.assertIn("no record is good\n  bad: 1 (bad_form 1)", out)
        self.assertNotIn("turns:", out)

    def test_unusable_files_are_code_2(self):
        path = self.write_lines("train.jsonl", [question()])
        for words, expected in (
                (["none.jsonl"], "data: file cannot be opened; where: none.jsonl"),
                ([self.write("empty.jsonl", "")], "data: file holds no record"),
                ([self.write("list.jsonl", "[{}")], "data: JSON list is not closed"),
                ([path, "--images", self.folder + "/pics"], "data: image folder does not exist"),
                ([path, "--limit", "-1"], "app: limit is negative"),
                ([path, "data.max_tokens=5"], "app: values without a configuration"),
                ([self.write("a.zip", "PK\x03\x04")], "found: a zip archive; expected: one JSON object"),
                ([self.folder], "data: file holds no record"),
                ([], "command line not understood")):
            with self.subTest(expected):
                code, _, err = self.run_verb(*words)
                self.assertEqual(code, 2)
                self.assertIn(expected, err)
                self.assertEqual(err.count("\n"), 1)

    def test_a_run_is_inspected_with_its_own_tokenizer(self):
        self.write("model/tokenizer.json", json.dumps(TOKENIZER))
        self.write("model/config.json", json.dumps(CONFIG))
        self.write("a.png", png(9, 9))
        train = self.write_lines("train.jsonl", [question()] * 2 + [question("a.png"),
                                                                    question(text="w" * 300)])
        held_out = self.write_lines("test.jsonl", [question(text="why?")])
        run = self.write("run.yaml", f"""
model: {{path: {self.folder}/model}}
data:
  system_prompt: hi
  max_tokens: 200
  sources: [{{name: cats, path: {train}, held_out: {held_out}}}]
""")
        code, out, err = self.run_verb(run, "--json")
        self.assertEqual(code, 0)
        self.assertIn("data: 1 of 5 records are bad", err)
        cats, kept = json.loads(out)
        self.assertEqual((cats["name"], kept["name"]), ("cats", "cats (held out)"))
        self.assertEqual(cats["bad"], {"no_vision": 1})
        self.assertEqual((cats["max_tokens"], cats["too_long"], cats["tokens"]["values"]), (200, 1, 3))
        code, out, _ = self.run_verb(run, "data.max_tokens=30")
        self.assertEqual(code, 0)
        self.assertIn("longer than 30 tokens: 3 of 3 samples; data.too_long says", out)
        self.assertIn("train.jsonl:4  too_long: ", out)
        # One token per byte, four control tokens per pair of turns, and two for the system turn.
        text = "system\nhi\nuser\nwhy?\nassistant\na cat\n"
        self.assertEqual(kept["tokens"]["sum"], len(text) + 6)
        self.assertEqual(kept["target_tokens"]["sum"], len("a cat") + 2)


unittest.main()
