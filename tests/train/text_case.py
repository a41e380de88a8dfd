"""Test cases that train a tiny Qwen2 on eight short chats, as a run and in transformers."""

import json
import pathlib
import shutil
import subprocess
import sys

import run_case
import tiny_run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import harness  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

RECORDS = 8  # as many as a step takes, so that their order does not matter


class TextCase(run_case.RunCase):
    """Beside the workplace of tiny_run the model `text`, and a batch that every step takes."""

    family = Qwen2Config.model_type

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = json.loads((cls.shared / "model/tokenizer.json").read_text())["added_tokens"]
        cls.token = {token["content"]: token["id"] for token in tokens}
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(Qwen2Config(
            hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=max(cls.token.values()) + 1,
            tie_word_embeddings=True, initializer_range=0.2))
        harness.publish(harness.Case("text", model, {}), cls.shared / "text")
        shutil.copy(cls.shared / "model/tokenizer.json", cls.shared / "text")
        words = [json.dumps({"messages": tiny_run.chat(f"say {word} {n}", word)})
                 for n in range(2) for word in tiny_run.WORDS]
        assert len(words) == RECORDS
        (cls.shared / "eight.jsonl").write_text("\n".join(words) + "\n")
        (cls.shared / "held_out.jsonl").write_text(json.dumps(
            {"messages": tiny_run.chat("say what", "never said")}) + "\n")

    def text_model(self):
        return AutoModelForCausalLM.from_pretrained(
            self.shared / "text", attn_implementation="eager", dtype=torch.float32)

    def run_program(self, *words):
        done = subprocess.run([self.program, *map(str, words)], env=tiny_run.environment(),
                              text=True, capture_output=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def text_config(self, name, steps, **values):
        """A run on all eight records in every step, from the weights of `text`."""
        path = self.config(name, **{
            "run": {"steps": steps, "dir": str(self.shared / name)},
            "model": {"path": str(self.shared / "text"), "weights": "pretrained"},
            "batch": {"global_samples": RECORDS, "capacity_tokens": 256},
            "schedule": {"decay": "constant", "warmup_steps": 0}, **values})
        config = json.loads(path.read_text())
        source = {"name": "words", "path": str(self.shared / "eight.jsonl")}
        if "every" in values.get("validation", {}):
            source["held_out"] = source["path"].replace("eight", "held_out")
        config["data"] = {"system_prompt": "", "sources": [source]}
        path.write_text(json.dumps(config))
        return path

    def train(self, config, *arguments):
        done = tiny_run.train(self.program, config, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def losses(self, name):
        return [line["loss"] for line in tiny_run.read_lines(self.shared / name / "metrics.jsonl")]

    def inputs(self):
        """The eight records as one padded batch of transformers."""
        tokenizer = tokenizers.Tokenizer.from_file(str(self.shared / "text/tokenizer.json"))
        rows = []
        for line in tiny_run.read_lines(self.shared / "eight.jsonl"):
            question, answer = (turn["content"] for turn in line["messages"])
            asked = tokenizer.encode(f"<|im_start|>user\n{question}<|im_end|>\n"
                                     "<|im_start|>assistant\n", add_special_tokens=False).ids
            said = tokenizer.encode(f"{answer}<|im_end|>\n", add_special_tokens=False).ids
            rows.append((asked + said, [-100] * len(asked) + said))
        longest = max(len(ids) for ids, _ in rows)
        pad = lambda row, value: row + [value] * (longest - len(row))
        return {"input_ids": torch.tensor([pad(ids, 0) for ids, _ in rows]),
                "labels": torch.tensor([pad(labels, -100) for _, labels in rows]),
                "attention_mask": torch.tensor([pad([1] * len(ids), 0) for ids, _ in rows])}

    def expect_close(self, found, expected, most=1e-4):
        self.assertLessEqual(harness.relative_norm(found, expected), most)
