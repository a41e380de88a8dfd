"""Runs `tributary train` as a user does, kills and resumes it, and checks what it leaves behind.

usage: train_run.py TRIBUTARY [unittest arguments]
"""

import json
import math
import signal
import subprocess

import run_case
import PIL.Image
import safetensors.numpy
import tiny_run


COVERS = {"train": ("qwen2_5_vl",), "export": ("qwen2_5_vl",)}  # for the table of docs/models.md


class TrainRun(run_case.BesideStraightRun):
    def test_run_directory_holds_what_its_format_page_says(self):
        self.assertEqual(self.straight_result.returncode, 0, self.straight_result.stderr)
        for name in ("config.yaml", "environment.json", "metrics.jsonl", "validation.jsonl",
                     "predictions.jsonl", "summary.json"):
            self.assertTrue((self.straight / name).exists(), name)
        metrics = tiny_run.read_lines(self.straight / "metrics.jsonl")
        self.assertEqual([line["step"] for line in metrics], list(range(1, 13)))
        for line in metrics:
            self.assertEqual(set(line["seconds"]),
                             {"data", "forward", "backward", "optimizer", "other"})
            self.assertEqual(line["samples"], 6)
            self.assertGreater(line["target_tokens"], 0)
            self.assertAlmostEqual(line["tokens_per_second"] * sum(line["seconds"].values()),
                                   line["tokens"], delta=0.01 * line["tokens"])
            self.assertAlmostEqual(line["fill"], line["tokens"] / (160 * line["microbatches"]),
                                   places=4)
            self.assertLess(0, line["mfu_causal"])
            self.assertLess(line["mfu_causal"], line["mfu_full"])
            self.assertEqual(line["hfu"], line["mfu_causal"])  # nothing is recomputed
            self.assertEqual(line["collectives"],
                             {"calls": 0, "bytes": 0, "seconds": 0, "waited": 0})
            self.assertEqual(set(line["waiting"]), {"samples", "packing"})
            for wait in line["waiting"].values():
                self.assertGreaterEqual(wait, 0)
            self.assertLessEqual(sum(line["waiting"].values()), line["seconds"]["data"] + 2e-6)
            self.assertLessEqual(0, line["padding"])
            self.assertLess(line["padding"], 0.5)
        self.assertLess(metrics[-1]["loss"], metrics[0]["loss"])
        summary = json.loads((self.straight / "summary.json").read_text())
        self.assertEqual(summary["steps"], 12)
        self.assertEqual(summary["tokens"], sum(line["tokens"] for line in metrics))
        self.assertEqual(summary["stopped"], "done")
        self.assertEqual(summary["loss_steps"], 12)
        self.assertAlmostEqual(summary["loss"], sum(line["loss"] for line in metrics) / 12)
        self.assertEqual(set(summary["accuracy"]), {"overall", "colours", "words"})
        self.assertTrue((self.straight / summary["checkpoint"]).is_dir())

    def test_the_start_says_what_the_run_is_and_needs(self):
        text = self.straight_result.stdout
        for words in ("parameters, all trained: vision ", "memory     parameters ", " = ",
                      " of activations for a full microbatch; there are ", "device     cpu, 1 thread, ",
                      f"directory  {self.straight}",
                      "data       96 training records, 12 held out, about 0 dropped; about "):
            self.assertIn(words, text)
        self.assertRegex(text, r"about [\d,]+ tokens and 16 steps an epoch; 12 steps are 0\.8 epochs")
        self.assertLess(text.index("directory "), text.index("ready after"))

    def test_validation_and_predictions_agree_with_the_summary(self):
        lines = tiny_run.read_lines(self.straight / "validation.jsonl")
        self.assertEqual([line["step"] for line in lines], [6, 12])
        summary = json.loads((self.straight / "summary.json").read_text())
        predictions = tiny_run.read_lines(self.straight / "predictions.jsonl")
        self.assertEqual(len(predictions), 12)
        for prediction in predictions:
            self.assertEqual(prediction["correct"], prediction["answer"] == prediction["expected"])
            self.assertEqual(len(prediction["images"]), int(prediction["source"] == "colours"))
            for image in prediction["images"]:
                self.assertTrue((self.straight / image).is_file())
        share = lambda key: sum(p[key] for p in predictions) / len(predictions)
        self.assertAlmostEqual(summary["accuracy"]["overall"], share("correct"))
        self.assertAlmostEqual(summary["blind_accuracy"], share("blind_correct"))
        for prediction in predictions:  # without pixels nothing changes where there are none
            if prediction["source"] == "words":
                self.assertEqual(prediction["answer"], prediction["blind_answer"])

    def test_scores_are_means_over_the_predictions(self):
        line = tiny_run.read_lines(self.straight / "validation.jsonl")[-1]
        summary = json.loads((self.straight / "summary.json").read_text())
        predictions = tiny_run.read_lines(self.straight / "predictions.jsonl")
        self.assertEqual(summary["scores"], line["scores"])
        self.assertEqual(set(line["scores"]), {"token_f1", "anls"})
        for name, scores in line["scores"].items():
            for source in ("colours", "words"):
                own = [p["scores"][name] for p in predictions if p["source"] == source]
                self.assertAlmostEqual(scores[source], sum(own) / len(own))
        self.assertIn("token_f1", self.straight_result.stdout)

    def test_evaluate_answers_as_the_last_validation(self):
        predictions = tiny_run.read_lines(self.straight / "predictions.jsonl")
        for source in ("colours", "words"):
            answers = self.shared / f"{source}.jsonl"
            subprocess.run([self.program, "evaluate", self.straight,
                            self.shared / f"data/{source}.held_out.jsonl", "-o", answers,
                            "--metric", "token_f1", "--metric", "anls", "--max-new-tokens", "4",
                            "--blind"], check=True, capture_output=True, env=tiny_run.environment())
            wanted = [p for p in predictions if p["source"] == source]
            self.assertEqual(
                [{**line, "source": source} for line in tiny_run.read_lines(answers)],
                [{key: p[key] for key in p if key not in ("step", "images")} for p in wanted])

    def test_environment_says_whether_kernels_are_deterministic(self):
        def recorded(run):
            return json.loads((run / "environment.json").read_text())["deterministic"]

        self.assertIs(recorded(self.straight), True)
        config = self.config("free", run={"steps": 2, "deterministic": "no"})
        result = tiny_run.train(self.program, config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIs(recorded(self.shared / "free"), False)

    def test_first_loss_is_near_that_of_a_uniform_guess(self):
        config = json.loads((self.shared / "model/config.json").read_text())
        first = tiny_run.read_lines(self.straight / "metrics.jsonl")[0]["loss"]
        self.assertAlmostEqual(first, math.log(config["vocab_size"]), delta=0.5)

    def test_resolved_configuration_gives_the_same_run(self):
        again = self.shared / "again"
        result = tiny_run.train(self.program, self.straight / "config.yaml", f"run.dir={again}",
                                "data.workers=3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_equal_to_straight(again)

    def checkpoint_parts(self, run, step):
        """The tensors of a checkpoint by module."""
        parts = {"vision": {}, "projector": {}, "backbone": {}}
        for path in (run / f"checkpoints/step-{step}/model").glob("*.safetensors"):
            for name, tensor in safetensors.numpy.load_file(path).items():
                module = ("projector" if name.startswith("visual.merger")
                          else "vision" if name.startswith("visual.") else "backbone")
                parts[module][name] = tensor.astype("float64")
        return parts

    def test_norms_are_those_of_the_checkpoints(self):
        config = self.config("norms", run={"steps": 3}, checkpoint={"every": 1},
                             metrics={"update_norms_every": 1})
        self.assertEqual(tiny_run.train(self.program, config).returncode, 0)
        run = self.shared / "norms"
        old, new = self.checkpoint_parts(run, 2), self.checkpoint_parts(run, 3)
        line = tiny_run.read_lines(run / "metrics.jsonl")[2]
        norm = lambda tensors: math.sqrt(sum((each ** 2).sum() for each in tensors))
        for module, tensors in old.items():
            self.assertGreater(len(tensors), 2)
            wanted = {"update": norm(new[module][name] - tensor for name, tensor in tensors.items()),
                      "parameters": norm(tensors.values())}
            for kind, value in wanted.items():
                self.assertAlmostEqual(line["norms"][kind][module] / value, 1, places=4,
                                       msg=f"{kind} {module}")

    def test_norms_by_module_add_up_to_the_norm(self):
        for line in tiny_run.read_lines(self.straight / "metrics.jsonl"):
            gradients = line["norms"]["gradient"]
            self.assertEqual(set(gradients), {"vision", "projector", "backbone"})
            self.assertAlmostEqual(math.hypot(*gradients.values()) / line["grad_norm"], 1, places=9)
            self.assertEqual("update" in line["norms"], line["step"] in (1, 10), line["step"])

    def test_sources_are_counted_as_they_are_drawn(self):
        for line in tiny_run.read_lines(self.straight / "metrics.jsonl"):
            for name in ("samples", "tokens", "target_tokens"):
                self.assertEqual(sum(drawn[name] for drawn in line["drawn"].values()), line[name])
            self.assertEqual({source for source, drawn in line["drawn"].items()
                              if drawn["target_tokens"] > 0}, set(line["loss_by_source"]))

    def test_samples_of_the_first_step_are_kept_as_the_model_sees_them(self):
        samples = tiny_run.read_lines(self.straight / "samples.jsonl")
        self.assertEqual({sample["source"] for sample in samples}, {"colours", "words"})
        data = {source: tiny_run.read_lines(self.shared / f"data/{source}.train.jsonl")
                for source in ("colours", "words")}
        for sample in samples:
            pieces = sample["pieces"]
            self.assertEqual(sum(piece.get("repeats", len(piece["tokens"])) for piece in pieces),
                             sample["tokens"])
            learned = [piece for piece in pieces if piece["target"]]
            self.assertEqual(sum(len(piece["tokens"]) for piece in learned), sample["target_tokens"])
            file, _, number = sample["key"].rpartition(":")
            record = data[sample["source"]][int(number) - 1]
            self.assertTrue(file.endswith(f"{sample['source']}.train.jsonl"), file)
            self.assertEqual("".join("".join(piece["tokens"]) for piece in learned).rstrip(),
                             record["messages"][1]["content"] + "<|im_end|>")
            sees = sample["source"] == "colours"
            folded = [piece["tokens"] for piece in pieces if "repeats" in piece]
            self.assertIn(folded, [[], [["<|image_pad|>"]]] if sees else [[]])
            self.assertEqual(len(sample["images"]), sees)
            for image in sample["images"]:
                name = record["messages"][0]["content"][0]["image_url"]["url"]
                with PIL.Image.open(self.straight / image) as kept, \
                        PIL.Image.open(self.shared / "data" / name) as given:
                    self.assertEqual(kept.tobytes(), given.tobytes())

    def test_the_same_questions_are_answered_at_each_validation(self):
        answers = tiny_run.read_lines(self.straight / "validation_answers.jsonl")
        self.assertEqual([line["step"] for line in answers], [6] * 12 + [12] * 12)
        self.assertEqual([line["key"] for line in answers[:12]], [line["key"] for line in answers[12:]])
        for line, prediction in zip(answers[12:], tiny_run.read_lines(self.straight / "predictions.jsonl")):
            for name in ("key", "question", "answer", "expected", "correct", "cut"):
                self.assertEqual(line[name], prediction[name], name)

    def test_tensorboard_reads_the_event_files(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        events = EventAccumulator(str(self.straight))
        events.Reload()
        metrics = tiny_run.read_lines(self.straight / "metrics.jsonl")
        losses = events.Scalars("loss")
        self.assertEqual([event.step for event in losses], [line["step"] for line in metrics])
        for event, line in zip(losses, metrics):
            self.assertAlmostEqual(event.value, line["loss"], places=4)

    def test_export_holds_the_tensors_of_the_checkpoint(self):
        model = json.loads((self.shared / "model/config.json").read_text())
        self.assertEqual({(model["model_type"],)}, set(COVERS.values()))
        exported = self.shared / "exported"
        subprocess.run([self.program, "checkpoint", "export", self.straight, "-o", exported],
                       check=True, stdout=subprocess.DEVNULL, env=tiny_run.environment())
        shards = (self.straight / "checkpoints/step-12/model").glob("*.safetensors")
        saved = {name: tensor for shard in shards
                 for name, tensor in safetensors.numpy.load_file(shard).items()}
        got = {name: tensor for shard in exported.glob("*.safetensors")
               for name, tensor in safetensors.numpy.load_file(shard).items()}
        self.assertEqual(set(got), set(saved))
        for name, tensor in saved.items():
            self.assertTrue((got[name] == tensor).all(), name)

    def test_frozen_module_keeps_its_bytes_and_has_no_moments(self):
        runs = []
        for rate in (0.001, 0.01):
            config = self.config(f"frozen-{rate}", run={"steps": 2}, model={"freeze": ["vision"]},
                                 optimizer={"learning_rate": rate})
            result = tiny_run.train(self.program, config)
            self.assertEqual(result.returncode, 0, result.stderr)
            runs.append(self.shared / f"frozen-{rate}/checkpoints/step-2")
        first, second = ({name: tensor for path in (run / "model").glob("*.safetensors")
                          for name, tensor in safetensors.numpy.load_file(path).items()}
                         for run in runs)
        frozen = {name for name in first if name.startswith("visual.") and "merger" not in name}
        self.assertGreater(len(frozen), 10)
        for name in first:  # the same start, another learning rate
            self.assertEqual((first[name] == second[name]).all(), name in frozen, name)
        moments = {name for path in (runs[0] / "optim").glob("*.safetensors")
                   for name in safetensors.numpy.load_file(path)}
        self.assertEqual({name.removeprefix("exp_avg.") for name in moments
                          if name.startswith("exp_avg.")}, set(first) - frozen)

    def test_resumed_after_kill_9_is_bit_equal_to_one_never_interrupted(self):
        config = self.config("killed", run={"steps": 12})
        process, run = tiny_run.start(self.program, config, until_step=7)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        result = tiny_run.train(self.program, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resuming from", result.stdout)
        self.expect_equal_to_straight(run)

    def test_sigterm_commits_a_checkpoint_and_exits_with_15(self):
        config = self.config("stopped", checkpoint={"every": 100})
        process, run = tiny_run.start(self.program, config, until_step=2)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=180)
        self.assertEqual(process.returncode, 15, errors)
        self.assertIn(f"tributary train {config} --resume auto", output)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["stopped"], "terminated")
        self.assertTrue((run / summary["checkpoint"]).is_dir())
        self.assertLess(summary["steps"], 12)
        result = tiny_run.train(self.program, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_equal_to_straight(run)

    def test_resume_auto_starts_afresh_where_there_is_no_checkpoint(self):
        config = self.config("fresh", run={"steps": 2})
        result = tiny_run.train(self.program, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("resuming", result.stdout)

    def test_resume_takes_a_checkpoint_by_its_path(self):
        config = self.config("branch", run={"steps": 12})
        result = tiny_run.train(self.program, config, "--resume",
                                self.straight / "checkpoints/step-9")
        self.assertEqual(result.returncode, 0, result.stderr)
        branch = self.shared / "branch"
        self.assertEqual(self.losses(branch), self.losses(self.straight)[9:])
        self.assertEqual(self.model_bytes(branch), self.model_bytes(self.straight))
        self.expect_fails(config, "--resume", self.shared / "nowhere", code=2, words=["nowhere"])


if __name__ == "__main__":
    run_case.main()
