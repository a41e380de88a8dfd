"""Trains tiny models on a CUDA device beside the same runs on the CPU: every family in f32 and bf16,
what recompute and offload keep, resuming, ranks and encoders that share the device, and what is
refused.

Skipped (exit code 77) without a device.
"""

import json
import subprocess
import sys

import families
import run_case
import tiny_run

SKIPPED = 77
CUDA = "run.device=cuda"
F32_LOSS, F32_NORM, BF16_LOSS = 1e-4, 1e-3, 3e-2  # relative deviations from the CPU


def has_device(program):
    done = subprocess.run([program, "doctor", "--json"], text=True, capture_output=True)
    return "cuda:0" in json.loads(done.stdout)["facts"]["devices"]


class OnCuda(families.FamilyCase):
    def run_here(self, config, name, *settings, ranks=1, encoders=0, code=0):
        """Runs a configuration in a directory of its own; returns its metrics."""
        run = self.shared / name
        job = (["launch", "-n", str(ranks), "--encoders", str(encoders), "--"]
               if ranks > 1 or encoders > 0 else [])
        done = subprocess.run(
            [self.program, *job, "train", str(config), f"run.dir={run}", *settings],
            env=tiny_run.environment(), text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return tiny_run.read_lines(run / "metrics.jsonl") if code == 0 else done.stderr

    def expect_close(self, expected, found, loss=F32_LOSS, norm=F32_NORM, name=""):
        worst = {"loss": 0.0, "grad_norm": 0.0}
        for one, other in zip(expected, found, strict=True):
            for key in worst:
                worst[key] = max(worst[key], abs(one[key] - other[key]) / abs(one[key]))
        print(f"{name}: loss {worst['loss']:.1e}, gradient norm {worst['grad_norm']:.1e}")
        self.assertLessEqual(worst["loss"], loss, name)
        self.assertLessEqual(worst["grad_norm"], norm, name)

    def test_every_family_trains_as_on_the_cpu(self):
        for family in ("qwen2_5_vl", "qwen2_vl", "qwen3_vl", "llama"):
            with self.subTest(family=family):
                config = self.config(f"{family}-on", run={"steps": 6}, **self.workplace(family))
                on_cpu = self.run_here(config, f"{family}-cpu")
                self.expect_close(on_cpu, self.run_here(config, f"{family}-f32", CUDA),
                                  name=f"{family} f32")
                self.expect_close(
                    on_cpu, self.run_here(config, f"{family}-bf16", CUDA, "model.dtype=bfloat16"),
                    loss=BF16_LOSS, norm=10 * BF16_LOSS, name=f"{family} bf16")
                self.expect_same_answer(family)

    def expect_same_answer(self, family):
        question = ["--prompt", "say oak"]
        if family != "llama":
            picture = next((self.shared / "data/images").glob("held_out-*.png"))
            question = ["--image", picture, "--prompt", "colour?"]
        run = self.shared / f"{family}-f32"
        self.assertEqual(self.answer(run, *question, "--device", "cuda"),
                         self.answer(run, *question), family)

    def test_what_is_kept_changes_no_gradient(self):
        config = self.config("kept", run={"steps": 4})
        plain = self.run_here(config, "kept-plain", CUDA)
        for name, settings in {
                "recompute": ["model.recompute=[vision,backbone]"],
                "recompute mlp": ["model.recompute=[vision.mlp,backbone.mlp]"],
                "inputs on host": ["model.offload=[vision,backbone]"],
                "optimizer on host": ["parallel.offload=optimizer"],
                "parameters on host": ["parallel.offload=parameters"]}.items():
            with self.subTest(name):
                found = self.run_here(config, f"kept-{name}".replace(" ", "-"), CUDA, *settings)
                self.expect_close(plain, found, name=name)

    def test_a_run_that_goes_on_is_bit_equal(self):
        config = self.config("straight", run={"steps": 8, "deterministic": "yes"})
        straight = self.run_here(config, "straight", CUDA)
        self.run_here(config, "in-two", CUDA, "run.steps=8", "checkpoint.every=4",
                      "drill.fault=kill", "drill.step=6", code=-9)
        resumed = self.go_on(config, "in-two", CUDA)
        for one, other in zip(straight, resumed, strict=True):
            self.assertEqual((one["loss"], one["grad_norm"]), (other["loss"], other["grad_norm"]))

    def go_on(self, config, name, *settings):
        run = self.shared / name
        done = subprocess.run(
            [self.program, "train", str(config), f"run.dir={run}", *settings, "--resume", "auto"],
            env=tiny_run.environment(), text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return tiny_run.read_lines(run / "metrics.jsonl")

    def test_a_checkpoint_moves_between_devices(self):
        config = self.config("moves", run={"steps": 8}, checkpoint={"every": 4})
        straight = self.run_here(config, "moves-straight")
        for first, second in ((CUDA, "run.device=cpu"), ("run.device=cpu", CUDA)):
            name = f"moves-to-{second[-4:].strip('=')}"
            self.run_here(config, name, first, "drill.fault=kill", "drill.step=6", code=-9)
            self.expect_close(straight, self.go_on(config, name, second), name=name)

    def test_ranks_that_share_the_device_equal_one(self):
        config = self.config("shared", run={"steps": 4}, batch={"capacity_tokens": 80})
        alone = self.run_here(config, "shared-alone", CUDA)
        separate = ["parallel.vision.placement=separate", "parallel.vision.dp_shard=1"]
        for name, settings in {
                "dp": ["parallel.dp_shard=2"],
                "tp": ["parallel.tp=2"],
                "pp": ["parallel.pp=2"],
                "cp": ["parallel.cp=2"],
                "ulysses": ["parallel.ulysses=2"],
                "colocated": ["parallel.tp=2", "parallel.vision.placement=colocated",
                              "parallel.vision.tp=1", "parallel.vision.dp_shard=2"],
                "separate": ["parallel.dp_shard=1", *separate]}.items():
            with self.subTest(name):
                found = self.run_here(config, f"shared-{name}", CUDA, "parallel.collectives=host",
                                      *settings, ranks=2)
                self.expect_close(alone, found, name=f"2 ranks, {name}")

    def test_features_of_an_encoder_stay_on_the_device(self):
        config = self.config("flow", run={"steps": 6, "deterministic": "yes"})
        settings = ["run.device=cuda:0", "model.freeze=[vision]", "parallel.vision.placement=flow"]
        over_host = self.run_here(config, "flow-host", *settings, encoders=1)
        found = self.run_here(config, "flow-device", *settings, "pool.engines=[cuda]", encoders=1)
        self.assertEqual([line["loss"] for line in found], [line["loss"] for line in over_host])
        self.assertGreater(sum(line["flow"]["objects"] for line in found), 0)

    def test_says_what_cannot_be(self):
        config = self.config("refused", run={"steps": 1})
        said = self.run_here(config, "refused-two", CUDA, "parallel.dp_shard=2", ranks=2, code=2)
        self.assertIn("parallel.collectives=host", said)
        said = self.run_here(config, "refused-nine", "run.device=cuda:9", code=5)
        self.assertIn("no device is present", said)

    def test_measures_a_profile(self):
        config = self.config("profiled", run={"steps": 1, "device": "cuda"})
        profile = self.shared / "profile.json"
        done = subprocess.run([self.program, "profile", str(config), "-o", str(profile)],
                              env=tiny_run.environment(), text=True, capture_output=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertGreater(len(json.loads(profile.read_text())["layers"]), 0)


if __name__ == "__main__":
    if not has_device(sys.argv[1]):
        print("no CUDA device")
        sys.exit(SKIPPED)
    run_case.main()
