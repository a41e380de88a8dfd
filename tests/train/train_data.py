"""Runs `tributary train` on small, bad and too long data, and checks what it says and answers.

usage: train_data.py TRIBUTARY [unittest arguments]
"""

import json
import shutil

import run_case
import tiny_run


class TrainData(run_case.RunCase):
    def train_on_one_answer(self, name, answer, **validation):
        """A run that learns one answer by heart, asked for it; returns its directory."""
        folder = self.shared / name
        folder.mkdir()
        lines = [{"messages": tiny_run.chat("say it", answer)}] * 6
        for split in ("train", "held_out"):
            tiny_run.write_lines(folder / f"{split}.jsonl", lines)
        config = self.config(name, run={"dir": str(folder / "run"), "steps": 80},
                             optimizer={"learning_rate": 0.01}, checkpoint={"every": 80})
        content = json.loads(config.read_text())
        content["data"]["sources"] = [{"name": "it", "path": str(folder / "train.jsonl"),
                                       "held_out": str(folder / "held_out.jsonl")}]
        content["validation"] = validation
        config.write_text(json.dumps(content))
        result = tiny_run.train(self.program, config)
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder / "run", result.stdout

    def test_answers_are_as_long_as_the_held_out_ones(self):
        answer = "red green blue square circle triangle one two three four"
        run, _ = self.train_on_one_answer("by-heart", answer)
        predictions = tiny_run.read_lines(run / "predictions.jsonl")
        self.assertEqual({p["answer"] for p in predictions}, {answer})
        self.assertEqual({p["cut"] for p in predictions}, {False})
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["accuracy"]["overall"], 1)
        self.assertGreater(summary["max_new_tokens"], 16)

    def test_answer_that_is_cut_says_so(self):
        answer = "red green blue square circle triangle one two three four"
        run, output = self.train_on_one_answer("cut", answer, max_new_tokens=5)
        predictions = tiny_run.read_lines(run / "predictions.jsonl")
        for prediction in predictions:
            self.assertTrue(answer.startswith(prediction["answer"]), prediction)
            self.assertTrue(prediction["cut"])
            self.assertFalse(prediction["correct"])
        self.assertEqual(json.loads((run / "summary.json").read_text())["cut_answers"], 6)
        self.assertIn("6 of 6 answers were cut at 5 tokens (validation.max_new_tokens)", output)
        self.assertIn("(wrong, cut)", output)
        page = (run / "report.html").read_text()
        self.assertIn("cut at 5 tokens", page)

    def test_pictures_of_wrong_answers_are_kept(self):
        folder = self.shared / "many-held-out"
        tiny_run.write_data(folder / "data", samples=12, held_out=60)
        config = self.config("untrained", run={"steps": 2})
        content = json.loads(config.read_text())
        for source in content["data"]["sources"]:
            for key in ("path", "held_out"):
                source[key] = source[key].replace(str(self.shared / "data"), str(folder / "data"))
        config.write_text(json.dumps(content))
        result = tiny_run.train(self.program, config)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = tiny_run.read_lines(self.shared / "untrained/predictions.jsonl")
        colours = [line for line in lines if line["source"] == "colours"]
        self.assertEqual(len(colours), 60)
        self.assertEqual({line["pictures"] for line in colours}, {1})
        self.assertEqual({line["pictures"] for line in lines if line["source"] == "words"}, {0})
        kept = [bool(line["images"]) for line in colours]
        self.assertTrue(all(kept[:8]))  # the first ones, whatever the answer was
        wrong = [has for line, has in zip(colours, kept) if not line["correct"]]
        self.assertGreater(len(wrong), 40)  # the model has learnt nothing
        self.assertEqual(wrong, [True] * 32 + [False] * (len(wrong) - 32))

    def train_on_lines(self, name, lines, **data):
        """A run on one source without a held-out file; returns its result."""
        folder = self.shared / name
        folder.mkdir()
        tiny_run.write_lines(folder / "train.jsonl", lines)
        config = self.config(name, run={"dir": str(folder / "run"), "steps": 4},
                             batch={"global_samples": 3})
        content = json.loads(config.read_text())
        content["data"] |= {"sources": [{"name": "it", "path": str(folder / "train.jsonl")}]} | data
        config.write_text(json.dumps(content))
        return tiny_run.train(self.program, config)

    def test_a_small_set_holds_out_a_record_and_says_so(self):
        lines = [{"messages": tiny_run.chat("say it", "oak")}] * 15
        result = self.train_on_lines("fifteen", lines, held_out_fraction=0.1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("14 training records, 1 held out", result.stdout)
        self.assertIn("% of 1", result.stdout)
        result = self.train_on_lines("nothing-held-out", lines)
        self.assertIn("15 training records, 0 held out", result.stdout)
        self.assertIn("no sample is held out, so no accuracy is measured", result.stdout)
        self.assertNotIn("could be used", result.stdout)

    def test_held_out_samples_that_are_all_bad_are_called_so(self):
        tiny_run.write_lines(self.shared / "bad.jsonl", [{"messages": []}] * 2)
        lines = [{"messages": tiny_run.chat("say it", "oak")}] * 15
        result = self.train_on_lines("bad-held-out", lines, sources=[
            {"name": "it", "path": str(self.shared / "bad-held-out/train.jsonl"),
             "held_out": str(self.shared / "bad.jsonl")}])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("none of 2 held-out samples could be used: all are bad", result.stdout)

    def test_the_end_of_a_run_names_its_bad_records(self):
        good = [{"messages": tiny_run.chat("say it", "oak")}] * 25
        result = self.train_on_lines("ten-bad", good + [{"messages": []}] * 10)
        self.assertEqual(result.returncode, 0, result.stderr)
        (told,) = [line for line in result.stdout.splitlines()[-8:] if line.startswith("bad records: ")]
        self.assertIn(" of 35 (", told)
        self.assertIn("quarantine.jsonl", told)
        result = self.train_on_lines("mostly-bad", good[:4] + [{"messages": []}] * 6)
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("6 of 10 of the source", result.stderr)

    def test_too_many_bad_records_stop_the_run(self):
        data = self.shared / "bad"
        shutil.copytree(self.shared / "data", data)
        lines = (data / "words.train.jsonl").read_text().splitlines()
        (data / "words.train.jsonl").write_text("\n".join(["{broken"] * 40 + lines[40:]) + "\n")
        config = self.config("bad-run", run={"steps": 40})
        content = json.loads(config.read_text())
        for source in content["data"]["sources"]:
            source["path"] = source["path"].replace("/data/", "/bad/")
        config.write_text(json.dumps(content))
        result = self.expect_fails(config, code=3, words=["too many bad", "bad_json"])
        run = self.shared / "bad-run"
        self.assertIn("too many bad", (run / "error.txt").read_text())
        # What was trained is kept, and the way on is said.
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["stopped"], "bad_data")
        steps = summary["steps"]
        self.assertEqual(len(tiny_run.read_lines(run / "metrics.jsonl")), steps)
        if steps > 0:
            self.assertEqual(summary["checkpoint"], f"checkpoints/step-{steps}")
        self.assertIn(f"stopped after step {steps} by the data", result.stdout)
        self.assertIn("--resume auto\n", result.stdout)
        self.assertIn("by its data: input error: data: too many bad",
                      (run / "report.html").read_text())
        (data / "words.train.jsonl").write_text("\n".join(lines) + "\n")
        result = tiny_run.train(self.program, config, "--resume", "auto", "--accept-change",
                                "data.digest", "run.steps=12")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((run / "error.txt").exists())

    def lengthen_data(self, name):
        """Every eighth record of `words` has a long answer."""
        data = self.shared / name
        shutil.copytree(self.shared / "data", data)
        file = data / "words.train.jsonl"
        records = [json.loads(line) for line in file.read_text().splitlines()]
        for record in records[::8]:
            record["messages"][-1]["content"] = "oak " * 400
        tiny_run.write_lines(file, records)
        return len(records[::8])

    def with_data(self, config, name):
        config.write_text(config.read_text().replace("/data/", f"/{name}/"))
        return config

    def test_samples_that_are_too_long_are_left_out_and_counted(self):
        count = self.lengthen_data("lengthened")
        config = self.with_data(self.config("left-out", run={"steps": 30},
                                            data={"bad_at_least": 0, "bad_fraction": 0}), "lengthened")
        result = tiny_run.train(self.program, config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("source words: samples that are too long are left out, 6 of 48 records looked at",
                      result.stdout)
        run = self.shared / "left-out"
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual((summary["quarantined_samples"], summary["left_out_samples"]), (0, count))
        self.assertIn(f"{count} records were left out: longer than", result.stdout)
        lines = tiny_run.read_lines(run / "metrics.jsonl")
        self.assertEqual(sum(line.get("left_out", 0) for line in lines), count)
        self.assertFalse((run / "quarantine.jsonl").exists())

    def test_samples_that_are_too_long_are_refused_on_request(self):
        self.lengthen_data("refused-data")
        config = self.with_data(self.config("refused", data={"too_long": "refuse"}), "refused-data")
        self.expect_fails(config, code=3, words=[
            "data: samples are too long", "words.train.jsonl:1: ", "fix: raise batch.capacity_tokens"])
        self.assertFalse((self.shared / "refused/metrics.jsonl").exists())

    def test_data_that_are_too_long_as_a_whole_are_refused(self):
        config = self.config("long", run={"steps": 2}, batch={"capacity_tokens": 8})
        self.expect_fails(config, code=3, words=[
            "no sample of the source is short enough", "fix: raise batch.capacity_tokens"])


if __name__ == "__main__":
    run_case.main()
