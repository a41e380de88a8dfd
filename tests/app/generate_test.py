"""Runs `tributary generate` on a model as a user does: answers, exit codes and words.

Usage: generate_test.py TRIBUTARY
"""

import os
import unittest

from png_file import png
from tiny_model import CONFIG, END, START, USER_TURN, VISION_CONFIG, VOCAB, TinyModelCase, random_weights, read_f32, write_safetensors


COVERS = {"generate": ("qwen2", "qwen2_5_vl")}  # for the table of docs/models.md


class Generate(TinyModelCase):
    def greedy_by_forward(self, ids, count):
        """Returns the tokens that `forward` ranks first, with one whole pass for each."""
        answer = []
        for _ in range(count):
            code, _, error = self.run_verb(
                *self.forward_words({"input_ids": ("I64", [1, len(ids)], ids)}))
            self.assertEqual(code, 0, error)
            shape, logits = read_f32(self.path("out.safetensors"), "logits")
            self.assertEqual(shape, [1, len(ids), VOCAB])
            last = logits[-VOCAB:]
            answer.append(max(range(VOCAB), key=lambda token: last[token]))
            ids = ids + answer[-1:]
        return answer

    def check_answer(self, prompt, *more):
        """Holds the printed answer against the tokens that `forward` ranks first after `prompt`."""
        answer = self.greedy_by_forward(prompt, 6)
        if END in answer:
            answer = answer[:answer.index(END)]
        self.assertGreater(len(answer), 2)  # else the model proves nothing: change its seed
        code, out, error = self.run_verb("generate", self.model, "--prompt", "why?",
                                         "--max-new-tokens", str(len(answer)), *more)
        self.assertEqual((code, error), (0, ""))
        text = bytes(token for token in answer if token < START).decode("utf-8", "replace")
        self.assertEqual(out.decode("utf-8", "replace"), text + "\n")

    def test_generate_prints_what_forward_ranks_first(self):
        prompt = [START, *b"system\nYou are a helpful assistant.", END, *b"\n", *USER_TURN]
        self.check_answer(prompt)

    def test_generate_takes_the_system_prompt_that_is_given(self):
        self.check_answer([START, *b"system\nBe brief.", END, *b"\n", *USER_TURN],
                          "--system", "Be brief.")
        self.check_answer(USER_TURN, "--system", "")

    def test_generate_sees_the_images(self):
        self.assertEqual((CONFIG["model_type"], VISION_CONFIG["model_type"]), COVERS["generate"])
        self.make_vision_model()
        stripes = self.write_bytes("stripes.png", png(56, 56, lambda x, y: x % 8 * 30))
        spot = self.write_bytes("spot.png", png(56, 56, lambda x, y: 250 * (x > 20 and y < 30)))

        def answer(*images):
            given = [word for image in images for word in ("--image", image)]
            code, out, error = self.run_verb("generate", self.model, *given, "--prompt", "what?",
                                             "--max-new-tokens", "8", "--temperature", "1")
            self.assertEqual((code, error), (0, ""))
            return out

        self.assertEqual(answer(stripes), answer(stripes))
        answers = {answer(stripes), answer(spot), answer(stripes, spot), answer(spot, stripes)}
        self.assertEqual(len(answers), 4)  # else the model proves nothing: change its seed

    def test_generate_refuses_bad_images(self):
        self.make_vision_model()
        picture = png(56, 56, lambda x, y: x)
        for image, *expected in (
                (self.path("none.png"), "app: no such image", "none.png", "found: nothing"),
                (self.folder, "app: no such image", "found: no regular file"),
                (self.write_bytes("note.png", b"hello"), "app: image cannot be decoded",
                 "unknown_format"),
                (self.write_bytes("cut.png", picture[:60]), "app: image cannot be decoded",
                 "png_damaged")):
            with self.subTest(expected):
                self.assert_refused(
                    ["generate", self.model, "--prompt", "what?", "--image", image], *expected)

    def test_sampling_depends_on_the_seed_alone(self):
        def sample(seed):
            return self.run_verb("generate", self.model, "--prompt", "why?", "--temperature", "2",
                                 "--max-new-tokens", "12", "--seed", seed)[1]

        self.assertEqual(sample("1"), sample("1"))
        self.assertNotEqual(sample("1"), sample("2"))

    def test_generate_refuses_bad_input(self):
        with open(self.path("note.png"), "w") as out:
            out.write("hello")
        os.makedirs(self.path("empty"))
        ask = ["--prompt", "why?"]
        for words, *expected in (
                ([self.path("none"), *ask], "app: no such model or run", "none"),
                ([self.path("empty"), *ask], "app: neither a model nor a run",
                 "found: no config.json, config.yaml or MANIFEST.json"),
                ([self.model, *ask, "--image", self.path("note.png")],
                 "app: this model takes no images", "found: 1 image"),
                ([self.model, "--prompt", ""], "app: the prompt is empty"),
                ([self.model, *ask, "--top-p", "0"], "found: top_p 0"),
                ([self.model, *ask, "--seed", "-1"], "app: seed is negative", "where: --seed"),
                ([self.model, *ask, "--temperature", "-1"], "found: temperature -1"),
                ([self.model], "command line not understood"),
                ([self.model, *ask, "--max-new-tokens", "0"], "app: an answer needs room",
                 "where: --max-new-tokens", "found: 0"),
                ([self.model, *ask, "--max-new-tokens", "-3"], "app: an answer needs room",
                 "found: -3", "expected: 1 or more"),
                ([self.model, *ask, "--max-new-tokens", "9" * 18],
                 "app: the answer may outgrow the model's context", "expected: 1 to "),
                ([self.model, *ask, "--max-new-tokens", "9" * 30],
                 "--max-new-tokens: number out of range: 999"),
                ([self.model, *ask, "--max-new-tokens", "many"], "--max-new-tokens")):
            with self.subTest(words):
                self.assert_refused(["generate", *words], *expected)

    def test_generate_stays_within_the_positions_of_the_model(self):
        system = ["--system", ""]
        ask = ["generate", self.model, "--prompt", "why?", *system, "--max-new-tokens"]
        room = CONFIG["max_position_embeddings"] - len(USER_TURN)
        self.assert_refused([*ask, str(room + 1)], "app: the answer may outgrow the model's context",
                            f"found: {room + 1} after a prompt of {len(USER_TURN)} tokens",
                            f"expected: 1 to {room}", "max_position_embeddings is 512",
                            f"fix: --max-new-tokens {room}")
        self.assert_refused([*ask, "1000000000000"], "app: the answer may outgrow")
        self.assertEqual(self.run_verb(*ask, str(room))[0], 0)
        self.assert_refused(["generate", self.model, "--prompt", "why? " * 110, *system],
                            "app: the prompt fills the model's context",
                            "fewer than max_position_embeddings 512")

    def test_generate_names_the_file_that_a_model_lacks(self):
        os.remove(self.path("model/tokenizer.json"))
        self.assert_refused(["generate", self.model, "--prompt", "why?"], "tokenizer.json")

    def test_damaged_weights_are_a_refused_checkpoint(self):
        path = self.path("model/model.safetensors")
        ask = ["generate", self.model, "--prompt", "why?"]
        weights = random_weights()
        with open(path, "rb") as file:
            whole = file.read()
        for damaged, *expected in (
                (whole[:-1], "safetensors: data_offsets end past the file"),
                (whole[:100], "safetensors: header length exceeds the file"),
                (b"", "safetensors: file is shorter than its length field")):
            with self.subTest(expected):
                self.write_bytes("model/model.safetensors", damaged)
                self.assert_refused(ask, path, *expected, exit_code=4)
        weights["strange"] = weights.pop("model.norm.weight")
        name = "model.layers.0.mlp.down_proj.weight"
        dtype, shape, values = weights[name]
        weights[name] = (dtype, [1, *shape], values)
        write_safetensors(path, weights)
        self.assert_refused(ask, "model: weights do not fit config.json",
                            'missing (1): model.norm.weight; unexpected (1): "strange"; '
                            f"of another shape or type (1): {name} [1, ", exit_code=4)


if __name__ == "__main__":
    unittest.main()
