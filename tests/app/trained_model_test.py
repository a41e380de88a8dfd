"""Trains a tiny model, and asks, lists and exports what was trained, as a user does.

Usage: trained_model_test.py TRIBUTARY STORE_IN_BF16
"""

import json
import os
import struct
import subprocess
import sys
import unittest

from tiny_model import CONFIG, MLP, TOKENIZER, TRIBUTARY, TinyModelCase, random_weights, write_safetensors

STORE_IN_BF16 = sys.argv.pop(1)


COVERS = {"train": ("qwen2",), "generate": ("qwen2",), "export": ("qwen2",)}  # of docs/models.md


class TrainedModel(TinyModelCase):
    def train_tiny_run(self):
        question = {"messages": [{"role": "user", "content": "why?"},
                                 {"role": "assistant", "content": "so"}]}
        with open(self.path("train.jsonl"), "w") as out:
            out.writelines(json.dumps(question) + "\n" for _ in range(8))
        with open(self.path("run.yaml"), "w") as out:
            out.write(f"""
run: {{name: tiny, dir: {self.path("run")}, steps: 3, threads: 1}}
model: {{path: {self.model}, weights: pretrained}}
data:
  held_out_fraction: 0.3
  sources: [{{name: questions, path: {self.path("train.jsonl")}}}]
batch: {{global_samples: 2}}
optimizer: {{learning_rate: 0.01}}
""")
        code, out, error = self.run_verb("train", self.path("run.yaml"), "--json")
        self.assertEqual(code, 0, error)
        answer = json.loads(out)
        self.assertEqual((answer["exit_code"], len(answer["runs"])), (0, 1))
        self.assertEqual(answer["runs"][0]["directory"], self.path("run"))
        self.assertEqual(answer["runs"][0]["summary"]["steps"], 3)
        self.assertIn("step 3", error, "the console goes to standard error")

    def answer(self, directory, expected_note=""):
        code, out, error = self.run_verb("generate", directory, "--prompt", "why?",
                                         "--max-new-tokens", "12")
        self.assertEqual((code, error), (0, expected_note))
        return out

    def test_generate_answers_from_a_run_as_from_its_export(self):
        self.assertEqual({(CONFIG["model_type"],)}, set(COVERS.values()))
        self.train_tiny_run()
        code, out, error = self.run_verb("checkpoint", "export", self.path("run"),
                                         "-o", self.path("exported"), "--json")
        self.assertEqual(code, 0, error)
        self.assertEqual(json.loads(out), {"output": self.path("exported")})
        trained = self.answer(self.path("run"))
        code, out, error = self.run_verb("generate", self.path("exported"), "--prompt", "why?",
                                         "--max-new-tokens", "12", "--json")
        self.assertEqual(json.loads(out)["answer"] + "\n", trained.decode("utf-8", "replace"))
        self.assertEqual((code, error), (0, trained.decode("utf-8", "replace")))
        self.assertNotEqual(self.answer(self.model), trained)

    def test_export_refuses_the_config_of_another_model(self):
        self.train_tiny_run()
        other = self.path("other")
        os.makedirs(other)
        for name, changed in (("config.json", {**CONFIG, "intermediate_size": 2 * MLP}),
                              ("tokenizer.json", TOKENIZER)):
            self.write_json(f"other/{name}", changed)
        self.assert_refused(["checkpoint", "export", self.path("run"), "--model", other,
                             "-o", self.path("exported")],
                            "checkpoint: weights do not fit config.json", other,
                            "of another shape (6): model.layers.0.mlp.", "[32,16] instead of [64,16]",
                            "--model")
        self.assertFalse([name for name in os.listdir(self.folder) if "exported" in name])

    def test_verbs_take_the_directory_that_one_stands_in(self):
        self.train_tiny_run()
        for directory in (".", "./", "checkpoints/", "./checkpoints/step-3/."):
            for verb in (["generate", directory, "--prompt", "why?", "--max-new-tokens", "2"],
                         ["checkpoint", "inspect", directory],
                         ["checkpoint", "verify", directory]):
                if verb[0] == "generate" and directory == "checkpoints/":
                    continue  # no run, and no checkpoint
                done = subprocess.run([TRIBUTARY, *verb], capture_output=True, text=True,
                                      cwd=self.path("run"),
                                      env={**os.environ, "OMP_NUM_THREADS": "1"})
                self.assertEqual((done.returncode, done.stderr), (0, ""), verb)
        empty = self.path("empty")
        os.makedirs(empty)
        done = subprocess.run([TRIBUTARY, "checkpoint", "verify", "."], capture_output=True,
                              text=True, cwd=empty)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"where: {os.path.realpath(empty)}", done.stderr)

    def test_generate_computes_bf16_weights_in_f32(self):
        self.train_tiny_run()
        narrow = self.path("narrow")
        subprocess.run([STORE_IN_BF16, self.path("run"), narrow], check=True)
        note = "weights of {} are BF16; the CPU computes them in F32\n"
        from_run = self.answer(narrow, note.format(f"{narrow}/checkpoints/step-3"))
        code, _, error = self.run_verb("checkpoint", "export", narrow,
                                       "-o", self.path("exported"))
        self.assertEqual(code, 0, error)
        self.assertEqual(self.answer(self.path("exported"), note.format(self.path("exported"))),
                         from_run)

        # The same numbers stored in f32 give the same answer: nothing was computed in bf16.
        weights = {name: ("BF16", *rest) for name, (_, *rest) in random_weights().items()}
        write_safetensors(self.path("model/model.safetensors"), weights)
        rounded = self.answer(self.model, note.format(self.model))
        wide = {name: ("F32", shape, [struct.unpack("<f", b"\0\0" + struct.pack("<f", v)[2:])[0]
                                      for v in values])
                for name, (_, shape, values) in weights.items()}
        write_safetensors(self.path("model/model.safetensors"), wide)
        self.assertEqual(self.answer(self.model), rounded)


if __name__ == "__main__":
    unittest.main()
