"""Runs `tributary evaluate` on a model as a user does: answers, scores, files, ranks.

Usage: evaluate_test.py TRIBUTARY
"""

import json
import os
import unittest

from png_file import png
from tiny_model import TinyModelCase


class Evaluate(TinyModelCase):
    def setUp(self):
        super().setUp()
        self.questions = ["why?", "how?", "who are you?", "where?", "when?"]

    def answer(self, prompt, *more):
        code, out, error = self.run_verb("generate", self.model, "--prompt", prompt,
                                         "--max-new-tokens", "6", *more)
        self.assertEqual(code, 0, error)
        return out.decode("utf-8", "replace").strip()

    def write_data(self, records):
        with open(self.path("data.jsonl"), "w") as out:
            out.writelines(json.dumps(record) + "\n" for record in records)
        return self.path("data.jsonl")

    def evaluate(self, data, *more, launch=()):
        answers = self.path("answers.jsonl")
        code, out, error = self.run_verb(
            *launch, "evaluate", self.model, data, "-o", answers, "--max-new-tokens", "6", *more)
        self.assertEqual(code, 0, error)
        with open(answers) as lines, open(self.path("answers.json")) as summary:
            return [json.loads(line) for line in lines], json.load(summary), out.decode()

    def test_answers_are_those_of_generate_and_scored(self):
        right = self.answer("why?")
        records = [{"question": "why?", "answers": [right, "because"]},
                   {"question": "how?", "answer": "so"},
                   {"messages": [{"role": "system", "content": "Be brief."},
                                 {"role": "user", "content": "who are you?"},
                                 {"role": "assistant", "content": "nobody"}]}]
        lines, summary, table = self.evaluate(self.write_data(records), "--metric", "token_f1",
                                              "--metric", "vqa_accuracy")
        self.assertEqual([line["answer"] for line in lines],
                         [right, self.answer("how?"), self.answer("who are you?", "--system", "Be brief.")])
        self.assertEqual([line["correct"] for line in lines], [True, False, False])
        self.assertEqual(lines[0]["references"], [right, "because"])
        self.assertEqual(lines[0]["scores"]["token_f1"], 1)
        self.assertAlmostEqual(lines[0]["scores"]["vqa_accuracy"], 1 / 6)  # one of two agrees
        self.assertEqual(lines[1]["references"], ["so"])
        self.assertEqual([line["key"][-2:] for line in lines], [":1", ":2", ":3"])
        self.assertLessEqual(max(line["answer_tokens"] for line in lines), 6)
        self.assertEqual([line["cut"] for line in lines], [line["answer_tokens"] == 6 for line in lines])
        self.assertAlmostEqual(summary["exact_match"], 1 / 3)
        self.assertAlmostEqual(summary["token_f1"],
                               sum(line["scores"]["token_f1"] for line in lines) / 3)
        self.assertEqual(summary["cut"], sum(line["cut"] for line in lines))
        self.assertEqual((summary["samples"], summary["refused"]), (3, 0))
        self.assertIn("33.3 %", table)
        self.assertIn("vqa_accuracy", table)

    def test_answers_do_not_depend_on_packs_ranks_and_sampling_order(self):
        data = self.write_data([{"question": text, "answer": "so"} for text in self.questions])
        sampled = ["--temperature", "1.5", "--seed", "3"]
        for options in ([], sampled):
            lines, summary, _ = self.evaluate(data, *options)
            for more, launch in ((["--capacity-tokens", "1"], []),
                                 (["--json"], ["launch", "-n", "2", "--"])):
                again, counted, out = self.evaluate(data, *options, *more, launch=launch)
                self.assertEqual(again, lines)
                if launch:  # one of the ranks answers
                    files = {"answers": self.path("answers.jsonl"), "metrics": self.path("answers.json")}
                    self.assertEqual(json.loads(out), {**counted, **files})
                self.assertAlmostEqual(counted["loss"], summary["loss"], places=5)
        lines, summary, _ = self.evaluate(data)
        self.assertEqual(self.evaluate(data, "--limit", "2")[0], lines[:2])
        for ranks, *degrees in (4, "--pp", "2", "--dp-shard", "2"), (2, "--tp", "2"):
            again, counted, _ = self.evaluate(data, *degrees, launch=["launch", "-n", str(ranks), "--"])
            self.assertEqual(again, lines, f"one copy on {ranks} ranks")
            self.assertAlmostEqual(counted["loss"], summary["loss"], places=5)

    def test_pictures_bad_records_and_blind_answers(self):
        self.make_vision_model()
        os.makedirs(self.path("pictures"))
        spot = self.write_bytes("pictures/spot.png", png(56, 56, lambda x, y: 250 * (x > 20 and y < 30)))
        data = self.write_data([{"image": "spot.png", "caption": "a spot"},
                                {"image": "none.png", "caption": "nothing"}])
        lines, summary, table = self.evaluate(data, "--images", self.path("pictures"), "--question",
                                              "what?", "--blind")
        self.assertEqual([line["answer"] for line in lines], [self.answer("what?", "--image", spot)])
        self.assertNotEqual(lines[0]["blind_answer"], lines[0]["answer"])
        self.assertEqual((summary["refused"], summary["samples"], lines[0]["pictures"]), (1, 1, 1))
        self.assertIn("1 bad ones left out", table)

    def test_evaluate_refuses_bad_input(self):
        data = self.write_data([{"question": "why?", "answer": "so"}])
        bad = self.path("bad.jsonl")
        with open(bad, "w") as out:
            out.write('{"question": "why?", "answer": "so", "image": "none.png"}\n')
        out = ["-o", self.path("answers.jsonl")]
        for words, *expected in (
                ([self.path("none"), data, *out], "app: no such model or run"),
                ([self.model, self.path("none.jsonl"), *out], "none.jsonl"),
                ([self.model, data, "-o", self.path("a.txt")], "app: name of the answers", ".jsonl"),
                ([self.model, data, "-o", data], "app: output is a file that is read"),
                ([self.model, data, *out, "--metric", "bleu"], "app: unknown metric", '"bleu"',
                 "token_f1, anls, rouge_l, vqa_accuracy"),
                ([self.model, data, *out, "--metric", "anls", "--metric", "anls"], "given twice"),
                ([self.model, data, *out, "--limit", "-1"], "app: limit is negative"),
                ([self.model, data, *out, "--capacity-tokens", "0"], "app: a batch needs room"),
                ([self.model, data, *out, "--max-new-tokens", "-1"], "app: an answer needs room"),
                ([self.model, data], "command line not understood")):
            with self.subTest(words):
                self.assert_refused(["evaluate", *words], *expected)
        self.assert_refused(["evaluate", self.model, bad, *out], "found: 1 bad ones; the first is "
                            "no_vision", exit_code=3)


if __name__ == "__main__":
    unittest.main()
