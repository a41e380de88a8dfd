"""Runs `tributary train` where it must refuse or stop, and checks how it says so.

usage: train_refusals.py TRIBUTARY [unittest arguments]
"""

import json
import math
import resource
import shutil

import run_case
import safetensors.numpy
import tiny_run


class TrainRefusals(run_case.BesideStraightRun):
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
        result = tiny_run.train(self.program, config,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn("parameters 14.0 GiB + gradients 14.0 GiB + moments 28.0 GiB = 55.9 GiB",
                      result.stderr)
        self.assertIn("left of ulimit -v", result.stderr)
        self.assertFalse((self.shared / "too_large").exists())

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
    run_case.main()
