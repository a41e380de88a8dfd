"""What a resumed `tributary train` keeps, cuts, replaces and refuses.

usage: resume_rules.py TRIBUTARY [unittest arguments]
"""

import fcntl
import json
import math
import os
import shutil
import sys
import unittest

import run_case
import safetensors.numpy
import tiny_run

PROGRAM = None


def files_of(run):
    """Every file of a run with its bytes, but for the lock, which counts the starts."""
    return {str(path.relative_to(run)): path.read_bytes()
            for path in run.rglob("*") if path.is_file() and path.name != "LOCK"}


class ResumeRules(run_case.Workplace):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = cls.shared / "data/words.train.jsonl"
        lines = words.read_text().splitlines()
        words.write_text("\n".join(["{broken", "{also broken", *lines[2:]]) + "\n")
        cls.straight = cls.shared / "straight"
        result = tiny_run.train(PROGRAM, tiny_run.write_config(
            cls.shared / "straight.yaml", cls.shared, run={"dir": str(cls.straight), "steps": 24},
            validation={"every": 10}, checkpoint={"every": 4}))
        assert result.returncode == 0, result.stderr

    def copy_of_straight(self, name, last_step=24, **values):
        """The finished run under another name, as if later checkpoints had never been committed."""
        run = self.shared / name
        shutil.copytree(self.straight, run)
        for checkpoint in (run / "checkpoints").glob("step-*"):
            if int(checkpoint.name.removeprefix("step-")) > last_step:
                shutil.rmtree(checkpoint)
        values["run"] = {"dir": str(run), "steps": 24, **values.get("run", {})}
        values.setdefault("validation", {"every": 10})
        values.setdefault("checkpoint", {"every": 4})
        return run, tiny_run.write_config(self.shared / f"{name}.yaml", self.shared, **values)

    def expect(self, code, words, config, *arguments):
        result = tiny_run.train(PROGRAM, config, *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stdout + result.stderr)
        return result

    # Nothing is touched by a process that is refused.

    def test_second_process_on_a_live_run_changes_no_byte(self):
        run, config = self.copy_of_straight("live", last_step=20)
        before = files_of(run)
        self.assertIn("quarantine.jsonl", before)
        with open(run / "checkpoints/LOCK", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.expect(2, ["another job holds the directory"], config, "--resume", "auto")
        self.assertEqual(files_of(run), before)

    def test_resume_from_a_checkpoint_that_is_not_the_newest_changes_no_byte(self):
        run, config = self.copy_of_straight("early")
        before = files_of(run)
        self.expect(2, ["holds later steps", "step-24"], config, "--resume",
                    run / "checkpoints/step-20")
        self.assertEqual(files_of(run), before)

    def test_refused_resume_leaves_no_directory(self):
        other = self.shared / "other-model-run"
        config = tiny_run.write_config(
            self.shared / "other-model.yaml", self.shared,
            run={"dir": str(other), "steps": 24, "seed": 99}, checkpoint={"every": 4})
        self.expect(4, ['run.seed was "5", is "99"'], config, "--resume", self.straight)
        self.assertFalse(other.exists())

    def test_resume_says_in_one_line_what_has_changed(self):
        run, config = self.copy_of_straight("told", last_step=20, run={"steps": 28},
                                            optimizer={"learning_rate": 0.001})
        result = self.expect(0, ["resuming from"], config, "--resume", "auto")
        (line,) = [line for line in result.stdout.splitlines()
                   if line.startswith("changed since the checkpoint: ")]
        self.assertIn("run.steps 28 (was 24)", line)
        self.assertIn("optimizer.learning_rate 0.001 (was 0.003)", line)

    def test_line_of_another_shape_is_named_and_a_link_is_not_followed(self):
        for name, line, word in (("array", "[1]", "found: array"),
                                 ("text", '{"step": "x"}', 'found: "x"')):
            run, config = self.copy_of_straight(f"shape-{name}", last_step=20)
            with open(run / "metrics.jsonl", "a") as file:
                file.write(line + "\n")
            self.expect(2, ["has another shape", f"{run}/metrics.jsonl:25", word], config,
                        "--resume", "auto")
        run, config = self.copy_of_straight("linked")
        outside = self.shared / "outside.jsonl"
        (run / "metrics.jsonl").rename(outside)
        (run / "metrics.jsonl").symlink_to(outside)
        before = outside.read_bytes()
        self.expect(5, ["metrics.jsonl; found: a symbolic link", "remove the link"], config,
                    "--resume", "auto", "run.steps=26")
        self.assertEqual(outside.read_bytes(), before)

    # Lines of the part that is done again come once, files written at the end stay until replaced.

    def test_lines_written_after_the_checkpoint_come_once(self):
        run, config = self.copy_of_straight("lines", last_step=20)
        shutil.copy(run / "quarantine.jsonl", run / "all.jsonl")
        with open(run / "quarantine.jsonl", "a") as file:  # of a part that was not saved
            file.write('{"key": "x:1", "source": 1, "record": 40, "code": "x"}\n{"key": "tor')
        self.expect(0, ["resuming from"], config, "--resume", "auto")
        for name, key in (("metrics.jsonl", "step"), ("validation.jsonl", "step")):
            steps = [line[key] for line in tiny_run.read_lines(run / name)]
            self.assertEqual(steps, sorted(set(steps)), name)
        self.assertEqual([line["step"] for line in tiny_run.read_lines(run / "validation.jsonl")],
                         [10, 20, 24])
        self.assertEqual((run / "quarantine.jsonl").read_text(), (run / "all.jsonl").read_text())
        self.assertEqual(len(tiny_run.read_lines(run / "quarantine.jsonl")), 2)

    def test_resume_at_the_end_validates_again_and_keeps_one_line(self):
        run, config = self.copy_of_straight("end")
        self.expect(0, ["resuming from", "step-24"], config, "--resume", "auto")
        self.assertEqual((run / "validation.jsonl").read_text(),
                         (self.straight / "validation.jsonl").read_text())

    def test_results_stay_until_new_ones_replace_them(self):
        run, config = self.copy_of_straight("results", run={"steps": 400})
        results = ("summary.json", "predictions.jsonl", "report.html")
        before = {name: (run / name).read_bytes() for name in results}
        pictures = sorted((run / "predictions").rglob("*.png"))
        self.assertGreater(len(pictures), 2)
        process, _ = tiny_run.start(PROGRAM, config, 26, "--resume", "auto")
        process.kill()
        process.communicate()
        self.assertEqual({name: (run / name).read_bytes() for name in results}, before)
        self.assertEqual(sorted((run / "predictions").rglob("*.png")), pictures)
        self.expect(0, [], config, "--resume", "auto", "run.steps=60")
        self.assertEqual({line["step"] for line in tiny_run.read_lines(run / "predictions.jsonl")},
                         {60})
        named = {image for line in tiny_run.read_lines(run / "predictions.jsonl")
                 for image in line["images"]}
        self.assertEqual({str(path.relative_to(run))
                          for path in (run / "predictions").rglob("*") if path.is_file()}, named)

    # Scores.

    def score(self, run, step):
        return json.loads((run / f"checkpoints/step-{step}/MANIFEST.json").read_text())["score"]

    def test_every_validated_state_is_saved_with_its_score(self):
        run = self.shared / "rated"
        self.expect(0, [], tiny_run.write_config(
            self.shared / "rated.yaml", self.shared, run={"dir": str(run)},
            validation={"every": 9}, checkpoint={"every": 100}))
        accuracy = {line["step"]: line["accuracy"]["overall"]
                    for line in tiny_run.read_lines(run / "validation.jsonl")}
        self.assertEqual(set(accuracy), {9, 12})
        for step, expected in accuracy.items():  # 12: saved before it was measured
            self.assertEqual(float(self.score(run, step)), expected)
        self.expect(0, [], tiny_run.write_config(
            self.shared / "unrated.yaml", self.shared, run={"dir": str(self.shared / "unrated")},
            validation={"every": 9}, checkpoint={"every": 100, "keep_best": False}))
        self.assertFalse((self.shared / "unrated/checkpoints/step-9").exists())


    # The same run, or a difference that was accepted by name.

    def test_another_tokenizer_preprocessor_or_image_folder_is_refused_by_its_key(self):
        run, config = self.copy_of_straight("changed", last_step=20)
        model = self.shared / "changed-model"
        shutil.copytree(self.shared / "model", model)
        for name in ("tokenizer.json", "preprocessor_config.json"):
            (model / name).write_text((model / name).read_text() + "\n")
        data = self.shared / "changed-data"
        shutil.copytree(self.shared / "data", data)
        first = json.loads((data / "colours.train.jsonl").read_text().splitlines()[0])
        picture = data / first["messages"][0]["content"][0]["image_url"]["url"]
        shutil.copy(data / "images/held_out-0.png", picture)
        content = json.loads(config.read_text())
        content["model"]["path"] = str(model)
        content["data"]["sources"][0]["images"] = str(data)
        config.write_text(json.dumps(content))
        before = files_of(run)
        keys = ["model.tokenizer", "model.preprocessor", "data.digest"]
        result = self.expect(4, [*keys, "--accept-change=KEY", "first images"], config,
                             "--resume", "auto")
        self.assertNotIn("model.chat_template was", result.stderr)
        self.assertEqual(files_of(run), before)
        flags = [f"--accept-change={key}" for key in keys]
        self.expect(4, ["data.digest"], config, "--resume", "auto", *flags[:2])
        self.expect(2, ["no known key", "model.tokeniser"], config, "--resume", "auto",
                    "--accept-change=model.tokeniser")
        self.expect(0, ["resuming from"], config, "--resume", "auto", *flags)
        self.assertIn("--accept-change data.digest",
                      json.loads((run / "environment.json").read_text())["command"])

    def test_moved_data_is_the_same_data(self):
        run, config = self.copy_of_straight("moved", last_step=20)
        shutil.copytree(self.shared / "data", self.shared / "elsewhere")
        config.write_text(config.read_text().replace(f"{self.shared}/data/",
                                                     f"{self.shared}/elsewhere/"))
        self.expect(0, ["resuming from"], config, "--resume", "auto")

    # Damaged and poisoned checkpoints.

    def shard(self, run, step):
        return next((run / f"checkpoints/step-{step}/model").glob("*.safetensors"))

    def test_damaged_newest_is_refused_and_left_behind_only_when_asked(self):
        run, config = self.copy_of_straight("damaged")
        shard = self.shard(run, 24)
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        before = files_of(run)
        self.expect(4, ["checksum", shard.name, "--fallback=previous would use", "step-20"],
                    config, "--resume", "auto")
        self.assertEqual(files_of(run), before)
        self.expect(2, ["--fallback", "expected: previous"], config, "--resume", "auto",
                    "--fallback=oldest")
        self.expect(2, ["nothing to fall back from"], config, "--fallback=previous")
        self.expect(4, ["run.seed", "--accept-change"], config, "run.seed=99", "--resume", "auto",
                    "--fallback=previous")
        self.assertEqual(files_of(run), before)  # refused after it looked: nothing is set aside
        self.expect(0, ["checksum", "step-24.damaged-", "resuming from", "step-20"], config,
                    "--resume", "auto", "--fallback=previous")
        self.assertEqual(self.shard(run, 24).read_bytes(), self.shard(self.straight, 24).read_bytes())
        self.assertEqual(len(list((run / "checkpoints").glob("step-24.damaged-*"))), 1)

    def test_weights_that_are_not_finite_are_refused_by_name(self):
        model = self.shared / "poisoned-model"
        shutil.copytree(self.shared / "model", model)
        weights = safetensors.numpy.load_file(self.shard(self.straight, 24))
        weights["model.norm.weight"][3] = math.nan
        safetensors.numpy.save_file(weights, model / "model.safetensors")
        run = self.shared / "poisoned"
        config = tiny_run.write_config(
            self.shared / "poisoned.yaml", self.shared, run={"dir": str(run)},
            model={"path": str(model), "weights": "pretrained"}, checkpoint={"every": 1})
        words = ["values are NaN or infinite", "model.norm.weight", "1 of 32 values",
                 "--allow-nonfinite"]
        self.expect(4, words, config)
        self.assertFalse((run / "metrics.jsonl").exists())
        # Every step is skipped, so its checkpoints are as poisoned as its beginning.
        self.expect(13, ["as --allow-nonfinite lets pass", "model.norm.weight"], config,
                    "--allow-nonfinite")
        self.assertTrue(list((run / "checkpoints").glob("step-*")))
        self.expect(4, words, config, "--resume", "auto")

    # What a person sees of it.

    def test_tensorboard_shows_each_step_once(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        run, config = self.copy_of_straight("shown", last_step=20)
        self.expect(0, [], config, "--resume", "auto")
        events = EventAccumulator(str(run))
        events.Reload()
        self.assertEqual([event.step for event in events.Scalars("loss")], list(range(1, 25)))
        self.assertEqual([event.step for event in events.Scalars("validation/loss")], [10, 20, 24])

    def test_variables_that_change_behaviour_are_written_down(self):
        run, config = self.copy_of_straight("variables", last_step=20)
        os.environ.update(TRIB_TEST_ONLY="a b", MKL_DYNAMIC="FALSE", UNRELATED_NAME="x")
        try:
            result = self.expect(0, ["set in the environment:", "MKL_DYNAMIC=\"FALSE\"",
                                     "TRIB_TEST_ONLY=\"a b\"", "OMP_NUM_THREADS=\"1\""],
                                 config, "--resume", "auto")
        finally:
            for name in ("TRIB_TEST_ONLY", "MKL_DYNAMIC", "UNRELATED_NAME"):
                del os.environ[name]
        self.assertNotIn("UNRELATED_NAME", result.stdout)
        variables = json.loads((run / "environment.json").read_text())["variables"]
        self.assertEqual(variables["TRIB_TEST_ONLY"], "a b")
        self.assertEqual(variables["OMP_NUM_THREADS"], "1")
        self.assertNotIn("UNRELATED_NAME", variables)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
