"""Runs `tributary train` as a user does and checks what it leaves behind.

usage: train_run.py TRIBUTARY [unittest arguments]
"""

import json
import math
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import safetensors.numpy
import tiny_run

PROGRAM = None


class TrainRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.shared = pathlib.Path(cls.folder.name)
        tiny_run.make_workplace(cls.shared)
        cls.straight = cls.shared / "straight"
        config = tiny_run.write_config(cls.shared / "straight.yaml", cls.shared,
                                       run={"dir": str(cls.straight)},
                                       validation={"every": 6, "blind": True})
        cls.straight_result = tiny_run.train(PROGRAM, config)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def config(self, name, **values):
        values.setdefault("run", {}).setdefault("dir", str(self.shared / name))
        return tiny_run.write_config(self.shared / f"{name}.yaml", self.shared, **values)

    def losses(self, run):
        return [(line["step"], line["loss"], line["grad_norm"], line["learning_rate"])
                for line in tiny_run.read_lines(run / "metrics.jsonl")]

    def model_bytes(self, run, step=12):
        folder = run / f"checkpoints/step-{step}"
        files = sorted(folder.glob("*/*.safetensors"))
        self.assertGreaterEqual(len(files), 2)  # parameters and moments
        return b"".join(path.read_bytes() for path in files)

    def expect_equal_to_straight(self, run):
        self.assertEqual(self.losses(run), self.losses(self.straight))
        self.assertEqual(self.model_bytes(run), self.model_bytes(self.straight))

    def expect_fails(self, config, *arguments, code, words):
        result = tiny_run.train(PROGRAM, config, *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    # What a run leaves.

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
                      "data       96 training records, 12 held out; 16 steps an epoch, 12 steps are "
                      "0.8 epochs"):
            self.assertIn(words, text)
        self.assertLess(text.index("directory "), text.index("ready after"))

    def test_a_model_that_cannot_fit_is_refused_with_the_sum_before_it_is_allocated(self):
        model = self.shared / "three_billion"
        shutil.copytree(self.shared / "model", model)
        content = json.loads((model / "config.json").read_text())
        content.update(hidden_size=2048, intermediate_size=11008, num_hidden_layers=36,
                       num_attention_heads=16, num_key_value_heads=2, vocab_size=151936,
                       rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]})
        content["vision_config"].update(depth=32, hidden_size=1280, intermediate_size=3420,
                                        num_heads=16, out_hidden_size=2048)
        (model / "config.json").write_text(json.dumps(content))
        config = self.config("too_large", model={"path": str(model)})
        limit = (16 << 30, 16 << 30)
        result = tiny_run.train(PROGRAM, config,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn("parameters 14.0 GiB + gradients 14.0 GiB + moments 28.0 GiB = 55.9 GiB",
                      result.stderr)
        self.assertIn("left of ulimit -v", result.stderr)
        self.assertFalse((self.shared / "too_large").exists())

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
        result = tiny_run.train(PROGRAM, config)
        self.assertEqual(result.returncode, 0, result.stderr)
        return folder / "run", result.stdout

    def test_environment_says_whether_kernels_are_deterministic(self):
        def recorded(run):
            return json.loads((run / "environment.json").read_text())["deterministic"]

        self.assertIs(recorded(self.straight), True)
        config = self.config("free", run={"steps": 2, "deterministic": "no"})
        result = tiny_run.train(PROGRAM, config)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIs(recorded(self.shared / "free"), False)

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
        return tiny_run.train(PROGRAM, config)

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

    def test_pictures_of_wrong_answers_are_kept(self):
        folder = self.shared / "many-held-out"
        tiny_run.write_data(folder / "data", samples=12, held_out=60)
        config = self.config("untrained", run={"steps": 2})
        content = json.loads(config.read_text())
        for source in content["data"]["sources"]:
            for key in ("path", "held_out"):
                source[key] = source[key].replace(str(self.shared / "data"), str(folder / "data"))
        config.write_text(json.dumps(content))
        result = tiny_run.train(PROGRAM, config)
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

    def test_first_loss_is_near_that_of_a_uniform_guess(self):
        config = json.loads((self.shared / "model/config.json").read_text())
        first = tiny_run.read_lines(self.straight / "metrics.jsonl")[0]["loss"]
        self.assertAlmostEqual(first, math.log(config["vocab_size"]), delta=0.5)

    def test_resolved_configuration_gives_the_same_run(self):
        again = self.shared / "again"
        result = tiny_run.train(PROGRAM, self.straight / "config.yaml", f"run.dir={again}",
                                "data.workers=3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_equal_to_straight(again)

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
        exported = self.shared / "exported"
        subprocess.run([PROGRAM, "checkpoint", "export", self.straight, "-o", exported],
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
            result = tiny_run.train(PROGRAM, config)
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

    # Killed, stopped, gone on.

    def test_resumed_after_kill_9_is_bit_equal_to_one_never_interrupted(self):
        config = self.config("killed", run={"steps": 12})
        process, run = tiny_run.start(PROGRAM, config, until_step=7)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        result = tiny_run.train(PROGRAM, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("resuming from", result.stdout)
        self.expect_equal_to_straight(run)

    def test_sigterm_commits_a_checkpoint_and_exits_with_15(self):
        config = self.config("stopped", checkpoint={"every": 100})
        process, run = tiny_run.start(PROGRAM, config, until_step=2)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=180)
        self.assertEqual(process.returncode, 15, errors)
        self.assertIn(f"tributary train {config} --resume auto", output)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["stopped"], "terminated")
        self.assertTrue((run / summary["checkpoint"]).is_dir())
        self.assertLess(summary["steps"], 12)
        result = tiny_run.train(PROGRAM, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.expect_equal_to_straight(run)

    def test_resume_auto_starts_afresh_where_there_is_no_checkpoint(self):
        config = self.config("fresh", run={"steps": 2})
        result = tiny_run.train(PROGRAM, config, "--resume", "auto")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("resuming", result.stdout)

    def test_resume_takes_a_checkpoint_by_its_path(self):
        config = self.config("branch", run={"steps": 12})
        result = tiny_run.train(PROGRAM, config, "--resume",
                                self.straight / "checkpoints/step-9")
        self.assertEqual(result.returncode, 0, result.stderr)
        branch = self.shared / "branch"
        self.assertEqual(self.losses(branch), self.losses(self.straight)[9:])
        self.assertEqual(self.model_bytes(branch), self.model_bytes(self.straight))
        self.expect_fails(config, "--resume", self.shared / "nowhere", code=2, words=["nowhere"])

    # Bad input.

    def test_run_directory_in_use_is_refused(self):
        self.expect_fails(self.config("reused", run={"dir": str(self.straight)}), code=2,
                          words=["train: the run directory already holds a run", "--resume auto"])

    def test_unknown_key_is_refused(self):
        self.expect_fails(self.config("typo"), "batch.global_sample=4", code=2,
                          words=["batch.global_sample", "did you mean batch.global_samples"])

    def test_another_seed_or_batch_is_refused_on_resume(self):
        config = self.config("changed", run={"dir": str(self.straight), "steps": 20, "seed": 6},
                             batch={"global_samples": 8})
        self.expect_fails(config, "--resume", "auto", code=4,
                          words=["run.seed", "5", "6", "batch.global_samples"])

    def test_damaged_checkpoint_is_refused(self):
        run = self.shared / "damaged"
        shutil.copytree(self.straight, run)
        shard = next((run / "checkpoints/step-12/model").glob("*.safetensors"))
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        self.expect_fails(self.config("damaged", run={"steps": 14}), "--resume", "auto", code=4,
                          words=["checksum", shard.name])

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
        result = tiny_run.train(PROGRAM, config, "--resume", "auto", "--accept-change",
                                "data.digest", "run.steps=12")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((run / "error.txt").exists())

    def test_data_that_are_too_long_as_a_whole_are_refused(self):
        config = self.config("long", run={"steps": 2}, batch={"capacity_tokens": 8})
        self.expect_fails(config, code=3, words=[
            "no sample of the source is short enough", "fix: raise batch.capacity_tokens"])

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
        result = tiny_run.train(PROGRAM, config)
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

    def test_learning_rate_that_is_too_high_is_named(self):
        config = self.config("steep", run={"steps": 60}, schedule={"warmup_steps": 0},
                             optimizer={"learning_rate": 1000, "weight_decay": 100, "clip_norm": 0})
        result = self.expect_fails(config, code=13, words=[
            "optimizer.learning_rate 1000, optimizer.clip_norm 0", "fix: lower optimizer.learning_rate, set "
            "optimizer.clip_norm=1, or raise schedule.warmup_steps"])
        self.assertNotIn("-nan", result.stdout)
        self.assertIn("ended itself after", (self.shared / "steep/report.html").read_text())

    def test_loss_that_is_not_finite_stops_the_run_after_three_skips(self):
        model = self.shared / "infinite-model"
        shutil.copytree(self.shared / "model", model)
        shard = next((self.straight / "checkpoints/step-12/model").glob("*.safetensors"))
        weights = safetensors.numpy.load_file(shard)
        weights["model.norm.weight"][3] = math.inf
        safetensors.numpy.save_file(weights, model / "model.safetensors")
        config = self.config("infinite", model={"path": str(model), "weights": "pretrained"})
        self.expect_fails(config, "--allow-nonfinite", code=13, words=[
            "3 steps in a row were not finite", "no step was finite, so the weights or the data"])
        run = self.shared / "infinite"
        metrics = tiny_run.read_lines(run / "metrics.jsonl")
        skipped = tiny_run.read_lines(run / "skipped.jsonl")
        self.assertEqual([line["step"] for line in skipped],
                         [line["step"] for line in metrics if line["skipped"]])
        self.assertEqual(len(skipped), 3)
        for line in skipped:
            self.assertEqual(len(line["samples"]), 6)
            self.assertIn(".train.jsonl:", line["samples"][0])
        rates = {line["learning_rate"] for line in metrics if line["skipped"]}
        self.assertEqual(len(rates), 1)  # the schedule stands still
        self.assertEqual(json.loads((run / "summary.json").read_text())["stopped"], "non_finite")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
