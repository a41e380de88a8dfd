"""Training on pairs of answers beside plain PyTorch: losses, rewards and log-probabilities, adapters
beside PEFT, pictures, resuming, validation, and ranks that share the work.

usage: preferences.py TRIBUTARY [unittest arguments]
"""

import json
import math
import shutil
import subprocess

import run_case
import text_case
import tiny_run
from adapters import add_adapter
from text_case import torch
import PIL.Image
import tokenizers
from safetensors.torch import load_file
from torch.nn.functional import logsigmoid
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessor

STEPS = 20
RATE = 0.0005


def optimizer_of(parameters):
    return torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        lr=RATE, betas=(0.9, 0.95), eps=1e-8)


def pair_losses(policy, reference, lengths, beta, loss="sigmoid", label_smoothing=0, sft_weight=0):
    """The losses and rewards of pairs, written down from the papers. shape: all [pairs, 2]"""
    ratios = policy - reference
    if loss == "ipo":
        means = ratios / lengths
        losses = (means[:, 0] - means[:, 1] - 1 / (2 * beta)) ** 2
    else:
        h = ratios[:, 0] - ratios[:, 1]
        losses = (-logsigmoid(beta * h) * (1 - label_smoothing)
                  - logsigmoid(-beta * h) * label_smoothing)
    return losses - sft_weight * policy[:, 0] / lengths[:, 0], beta * ratios.detach()


def figures(losses, rewards, policy):
    chosen, rejected = rewards.mean(0).tolist()
    return {"loss": losses.mean().item(), "chosen": chosen, "rejected": rejected,
            "accuracy": (rewards[:, 0] > rewards[:, 1]).double().mean().item(),
            "margin": chosen - rejected, "log_chosen": policy[:, 0].mean().item(),
            "log_rejected": policy[:, 1].mean().item()}


def figures_of(line):
    return {"loss": line["loss"], **line["rewards"],
            **{f"log_{key}": value for key, value in line["log_probs"].items()}}


class Preferences(text_case.TextCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = tiny_run.WORDS
        cls.pairs = [{"prompt": f"say {word} {n}", "chosen": word,
                      "rejected": f"{words[(i + 1 + n) % 4]} and {words[i - 1]}"}
                     for n in range(2) for i, word in enumerate(words)]
        tiny_run.write_lines(cls.shared / "pairs.jsonl", cls.pairs)
        cls.tokenizer = tokenizers.Tokenizer.from_file(str(cls.shared / "text/tokenizer.json"))

    def pair_config(self, name, steps, objective=(), **values):
        path = self.text_config(name, steps, **{"optimizer": {"learning_rate": RATE}, **values})
        config = json.loads(path.read_text())
        config["objective"] = {"kind": "dpo", **dict(objective)}
        pairs = str(self.shared / "pairs.jsonl")
        config["data"]["sources"] = [{"name": "pairs", "path": pairs}]
        config["validation"].pop("max_new_tokens")
        copy = self.shared / "held_out_pairs.jsonl"
        shutil.copy(pairs, copy)
        config["data"]["sources"][0]["held_out"] = str(copy)
        path.write_text(json.dumps(config))
        return path

    def ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def sequences(self, question="{}", pairs=None):
        """Token ids and labels of both answers of every pair, chosen first."""
        rows = []
        for pair in pairs or self.pairs:
            asked = self.ids("<|im_start|>user\n" + question.format(pair["prompt"])
                             + "<|im_end|>\n<|im_start|>assistant\n")
            for key in ("chosen", "rejected"):
                said = self.ids(pair[key] + "<|im_end|>\n")
                rows.append((asked + said, [-100] * len(asked) + said))
        return rows

    def log_probs(self, model, rows, **more):
        """The log-probability of each sequence, two by two."""
        sums = []
        for ids, labels in rows:
            logits = model(input_ids=torch.tensor([ids]), use_cache=False, **more).logits[0, :-1]
            wanted = torch.tensor(labels[1:])
            counts = wanted >= 0
            sums.append(logits.log_softmax(-1)[counts, wanted[counts]].sum())
        return torch.stack(sums).view(-1, 2)

    def train_in_torch(self, model, rows, reference, steps=STEPS, more=lambda: {}, **objective):
        """Returns the figures of every step, and those after the last one."""
        lengths = torch.tensor([sum(label >= 0 for label in labels) for _, labels in rows])
        lengths = lengths.view(-1, 2)
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = optimizer_of(trained)
        found = []
        for _ in range(steps + 1):
            policy = self.log_probs(model, rows, **more())
            losses, rewards = pair_losses(policy, reference, lengths, **objective)
            found.append(figures(losses, rewards, policy))
            optimizer.zero_grad()
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        return found

    def expect_figures(self, name, wanted, most=1e-4):
        lines = tiny_run.read_lines(self.shared / name / "metrics.jsonl")
        lines.append(tiny_run.read_lines(self.shared / name / "validation.jsonl")[-1])
        worst = dict.fromkeys(wanted[0], 0.0)
        for line, expected in zip(lines, wanted, strict=True):
            for key, value in figures_of(line).items():
                error = abs(value - expected[key]) / max(abs(expected[key]), 0.1)
                worst[key] = max(worst[key], error)
        print(f"{name}: loss {wanted[0]['loss']:.4f} to {wanted[-1]['loss']:.4f}, accuracy "
              f"{wanted[0]['accuracy']} to {wanted[-1]['accuracy']}, worst differences",
              {key: f"{value:.0e}" for key, value in worst.items()})
        self.assertLess(max(worst.values()), most, name)
        self.assertLess(wanted[-1]["loss"], 0.9 * wanted[0]["loss"])

    def test_each_loss_trains_as_in_torch(self):
        rows = self.sequences()
        with torch.no_grad():
            reference = self.log_probs(self.text_model(), rows)
        for name, objective in {
                "plain": {"beta": 0.2},
                "smoothed": {"beta": 0.2, "label_smoothing": 0.1, "sft_weight": 0.5},
                "ipo": {"beta": 0.5, "loss": "ipo"}}.items():
            wanted = self.train_in_torch(self.text_model(), rows, reference, **objective)
            done = self.train(self.pair_config(name, STEPS, objective))
            self.assertIn("objective  dpo, ", done.stdout)
            self.assertIn("8 training pairs, 8 held out", done.stdout)
            self.expect_figures(name, wanted)
        self.assertAlmostEqual(self.losses("plain")[0], math.log(2), places=6)
        summary = json.loads((self.shared / "plain/summary.json").read_text())
        self.assertEqual(summary["accuracy"]["overall"], 1.0)
        self.assertEqual(summary["held_out_samples"], len(self.pairs))

    def test_adapters_train_as_in_peft(self):
        rows = self.sequences()
        for kind, form in {"lora": {}, "dora": {"use_dora": True}}.items():
            model = add_adapter(self.text_model(), "all-linear", starts_at_nothing=True, **form)
            model.save_pretrained(self.shared / f"peft-{kind}")
            with torch.no_grad(), model.disable_adapter():
                reference = self.log_probs(model, rows)
            wanted = self.train_in_torch(model, rows, reference, beta=0.5)
            self.train(self.pair_config(f"peft-beside-{kind}", STEPS, {"beta": 0.5},
                                        adapter={"path": str(self.shared / f"peft-{kind}")}))
            self.expect_figures(f"peft-beside-{kind}", wanted)
        kept = set()
        for path in (self.shared / "peft-beside-lora/checkpoints").glob("*/optim/*.safetensors"):
            kept |= {name for name in load_file(path) if name.startswith("reference.")}
        self.assertTrue(kept and all(".lora_" in name for name in kept), kept)

    def test_pictures_train_as_in_transformers(self):
        folder = self.shared / "data"
        pairs = [{"prompt": "colour?", "chosen": name, "rejected": other, "images": [f"{name}.png"]}
                 for name, other in (("red", "a green one"), ("blue", "red"))]
        for name, colour in tiny_run.COLOURS.items():
            PIL.Image.new("RGB", (56, 28), colour).save(folder / f"{name}.png")
        tiny_run.write_lines(folder / "pairs.jsonl", pairs)
        self.train(self.config("before", run={"steps": 1}))
        start = self.shared / "before-exported"
        self.run_program("checkpoint", "export", self.shared / "before", "-o", start)
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
            start, attn_implementation="eager", dtype=torch.float32)
        processor = Qwen2VLImageProcessor(min_pixels=784, max_pixels=50176)
        made = [processor(images=[PIL.Image.open(folder / pair["images"][0])], return_tensors="pt")
                for pair in pairs for _ in range(2)]
        pads = "<|image_pad|>" * (made[0]["image_grid_thw"].prod().item() // 4)
        rows = self.sequences(f"<|vision_start|>{pads}<|vision_end|>{{}}", pairs)
        pad = self.token["<|image_pad|>"]

        class WithPictures:
            """Gives each sequence in turn its picture."""

            def __init__(self):
                self.at = 0

            def __call__(self, input_ids, **more):
                given = made[self.at % len(made)]
                self.at += 1
                kinds = (input_ids == pad).int()
                return model(input_ids=input_ids, mm_token_type_ids=kinds, **given, **more)

            def parameters(self):
                return model.parameters()

        with torch.no_grad():
            reference = self.log_probs(WithPictures(), rows)
        wanted = self.train_in_torch(WithPictures(), rows, reference, steps=6, beta=0.5)
        path = self.config("pictures", run={"steps": 6}, model={"path": str(start),
                                                                "weights": "pretrained"},
                           objective={"kind": "dpo", "beta": 0.5},
                           optimizer={"learning_rate": RATE},
                           batch={"global_samples": 2, "capacity_tokens": 160},
                           schedule={"decay": "constant", "warmup_steps": 0})
        config = json.loads(path.read_text())
        copy = folder / "held_out_pairs.jsonl"
        shutil.copy(folder / "pairs.jsonl", copy)
        config["data"].update(system_prompt="", sources=[
            {"name": "pairs", "path": str(folder / "pairs.jsonl"), "held_out": str(copy)}])
        config["validation"] = {}
        path.write_text(json.dumps(config))
        self.train(path)
        self.expect_figures("pictures", wanted)
        line = tiny_run.read_lines(self.shared / "pictures/metrics.jsonl")[0]
        self.assertEqual(line["media_decoded"], 2, "a picture of a pair was decoded twice")

    def test_a_resumed_run_has_the_same_bits(self):
        values = {"checkpoint": {"every": 2, "keep_latest": 9}, "validation": {"every": 2}}
        self.train(self.pair_config("whole", 4, **values))
        again = self.shared / "again"
        shutil.copytree(self.shared / "whole", again)
        shutil.rmtree(again / "checkpoints/step-4")
        self.train(self.pair_config("again", 4, **values), "--resume", "auto")
        for path in sorted((self.shared / "whole/checkpoints/step-4").glob("*/*.safetensors")):
            other = again / path.relative_to(self.shared / "whole")
            self.assertEqual(path.read_bytes(), other.read_bytes(), path)
        self.assertEqual(self.losses("again"), self.losses("whole"))
        self.expect_fails(self.pair_config("again", 6, {"beta": 0.3}, **values), "--resume", "auto",
                          code=4, words=["objective was \"dpo, sigmoid loss, beta 0.1\""])

    def test_ranks_compare_as_one(self):
        config = self.pair_config("one", 4, {"sft_weight": 0.2})
        self.train(config)
        wanted = [figures_of(line) for file in ("metrics", "validation")
                  for line in tiny_run.read_lines(self.shared / f"one/{file}.jsonl")]
        for degrees in (["parallel.cp=2"], ["parallel.dp_shard=2"]):
            directory = self.shared / f"two-{degrees[0]}"
            done = subprocess.run(
                [self.program, "launch", "-n", "2", "--", "train", config, f"run.dir={directory}",
                 *degrees], env=tiny_run.environment(), text=True, capture_output=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = [figures_of(line) for file in ("metrics", "validation")
                     for line in tiny_run.read_lines(directory / f"{file}.jsonl")]
            for one, two in zip(wanted, found, strict=True):
                for key, value in one.items():
                    self.assertAlmostEqual(two[key], value, delta=1e-5 * max(1, abs(value)),
                                           msg=f"{degrees} {key}")

    def test_each_objective_names_the_records_of_the_other(self):
        self.expect_fails(self.text_config("answers", 1), "objective.kind=dpo",
                          "validation.max_new_tokens=0", code=2,
                          words=["no record of the source can be read", "no_pair: one answer alone"])
        self.expect_fails(self.pair_config("pairs", 1), "objective.kind=next_token", code=2,
                          words=["preferences: a chosen and a rejected answer"])


if __name__ == "__main__":
    run_case.main()
