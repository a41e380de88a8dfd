"""Runs `tributary forward` and `tributary generate` as a user does: answers, exit codes and words.

Usage: model_verbs_test.py TRIBUTARY STORE_IN_BF16
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TRIBUTARY, STORE_IN_BF16 = sys.argv.pop(1), sys.argv.pop(1)
VOCAB, WIDTH, MLP, HEADS = 258, 16, 32, 2
START, END = 256, 257
USER_TURN = [START, *b"user\nwhy?", END, *b"\n", START, *b"assistant\n"]


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, flat numbers)."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        if dtype == "BF16":  # the upper half of an f32
            packed = b"".join(struct.pack("<f", value)[2:] for value in values)
        else:
            packed = struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'q'}", *values)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def read_f32(path, name):
    """Returns (shape, flat numbers)."""
    with open(path, "rb") as source:
        content = source.read()
    (size,) = struct.unpack_from("<Q", content)
    entry = json.loads(content[8:8 + size])[name]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    return entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", content[begin:end])


def byte_letters():
    """The GPT-2 alphabet, byte 0 first."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, shift = [], 0
    for byte in range(256):
        letters.append(chr(byte) if byte in printable else chr(256 + shift))
        shift += byte not in printable
    return letters


def random_weights():
    draw = random.Random(5)

    def normal(*shape):
        count = 1
        for size in shape:
            count *= size
        return "F32", list(shape), [draw.gauss(0, 0.4) for _ in range(count)]

    tensors = {"model.embed_tokens.weight": normal(VOCAB, WIDTH),
               "model.norm.weight": normal(WIDTH), "lm_head.weight": normal(VOCAB, WIDTH)}
    head = WIDTH // HEADS
    for layer in range(2):
        prefix = f"model.layers.{layer}."
        for name, shape in (("input_layernorm", [WIDTH]), ("post_attention_layernorm", [WIDTH]),
                            ("self_attn.q_proj", [WIDTH, WIDTH]), ("self_attn.k_proj", [head, WIDTH]),
                            ("self_attn.v_proj", [head, WIDTH]), ("self_attn.o_proj", [WIDTH, WIDTH]),
                            ("mlp.gate_proj", [MLP, WIDTH]), ("mlp.up_proj", [MLP, WIDTH]),
                            ("mlp.down_proj", [WIDTH, MLP])):
            tensors[f"{prefix}{name}.weight"] = normal(*shape)
        for name, size in (("q", WIDTH), ("k", head), ("v", head)):
            tensors[f"{prefix}self_attn.{name}_proj.bias"] = normal(size)
    return tensors


def random_vision_weights():
    """The tower of a Qwen2.5-VL whose backbone is random_weights()."""
    draw = random.Random(6)

    def normal(*shape):
        count = 1
        for size in shape:
            count *= size
        return "F32", list(shape), [draw.gauss(0, 0.4) for _ in range(count)]

    width, mlp = 8, 12
    tensors = {"visual.patch_embed.proj.weight": normal(width, 3, 2, 14, 14),
               "visual.merger.ln_q.weight": normal(width),
               "visual.merger.mlp.0.weight": normal(4 * width, 4 * width),
               "visual.merger.mlp.0.bias": normal(4 * width),
               "visual.merger.mlp.2.weight": normal(WIDTH, 4 * width),
               "visual.merger.mlp.2.bias": normal(WIDTH)}
    for name, shape in (("norm1", [width]), ("norm2", [width]), ("attn.qkv", [3 * width, width]),
                        ("attn.proj", [width, width]), ("mlp.gate_proj", [mlp, width]),
                        ("mlp.up_proj", [mlp, width]), ("mlp.down_proj", [width, mlp])):
        tensors[f"visual.blocks.0.{name}.weight"] = normal(*shape)
        if len(shape) == 2:
            tensors[f"visual.blocks.0.{name}.bias"] = normal(shape[0])
    return tensors


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def grey_png(side, shade_of):
    rows = b"".join(b"\0" + bytes(shade_of(x, y) for x in range(side)) for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


CONFIG = {"model_type": "qwen2", "hidden_size": WIDTH, "num_hidden_layers": 2,
          "num_attention_heads": HEADS, "num_key_value_heads": 1, "intermediate_size": MLP,
          "vocab_size": VOCAB, "max_position_embeddings": 512, "tie_word_embeddings": False}
VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
VISION_CONFIG = {
    **CONFIG, "model_type": "qwen2_5_vl", "vocab_size": VOCAB + 4,
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]},
    "vision_start_token_id": VOCAB, "vision_end_token_id": VOCAB + 1,
    "image_token_id": VOCAB + 2, "video_token_id": VOCAB + 3,
    "vision_config": {"depth": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 12,
                      "out_hidden_size": WIDTH, "fullatt_block_indexes": [0], "patch_size": 14,
                      "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 112,
                      "in_chans": 3, "tokens_per_second": 2}}
TOKENIZER = {
    "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(byte_letters())},
              "merges": []},
    "added_tokens": [{"id": token, "content": name, "special": True, "normalized": False}
                     for token, name in ((START, "<|im_start|>"), (END, "<|im_end|>"))],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}}


class ModelVerbs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = self.path("model")
        os.makedirs(self.model)
        self.write_json("model/config.json", CONFIG)
        self.write_json("model/tokenizer.json", TOKENIZER)
        write_safetensors(self.path("model/model.safetensors"), random_weights())

    def make_vision_model(self):
        """Turns the model of the test into one that sees."""
        self.write_json("model/config.json", VISION_CONFIG)
        added = [{"id": VOCAB + i, "content": name, "special": True, "normalized": False}
                 for i, name in enumerate(VISION)]
        self.write_json("model/tokenizer.json",
                        {**TOKENIZER, "added_tokens": TOKENIZER["added_tokens"] + added})
        weights = {**random_weights(), **random_vision_weights()}
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            kind, (rows, width), values = weights[name]
            weights[name] = kind, [rows + 4, width], values + values[:4 * width]
        write_safetensors(self.path("model/model.safetensors"), weights)

    def write_bytes(self, name, content):
        with open(self.path(name), "wb") as out:
            out.write(content)
        return self.path(name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_json(self, name, value):
        with open(self.path(name), "w") as out:
            json.dump(value, out)

    def run_verb(self, *words):
        done = subprocess.run([TRIBUTARY, *words], capture_output=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        return done.returncode, done.stdout, done.stderr.decode()

    def assert_refused(self, words, *expected, exit_code=2):
        code, _, error = self.run_verb(*words)
        self.assertEqual(code, exit_code, error)
        for text in expected:
            self.assertIn(text, error)
        self.assertEqual(error.count("\n"), 1, error)

    def forward_words(self, tensors, *more):
        write_safetensors(self.path("in.safetensors"), tensors)
        return ["forward", self.model, self.path("in.safetensors"),
                "-o", self.path("out.safetensors"), *more]

    def greedy_by_forward(self, ids, count):
        """Tokens that the verb forward ranks first, one whole pass for each."""
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

    def test_generate_prints_what_forward_ranks_first(self):
        prompt = [START, *b"system\nYou are a helpful assistant.", END, *b"\n", *USER_TURN]
        self.check_answer(prompt)

    def test_generate_takes_the_system_prompt_that_is_given(self):
        self.check_answer([START, *b"system\nBe brief.", END, *b"\n", *USER_TURN],
                          "--system", "Be brief.")
        self.check_answer(USER_TURN, "--system", "")

    def check_answer(self, prompt, *more):
        """Prints the text of the tokens that forward ranks first after these."""
        answer = self.greedy_by_forward(prompt, 6)
        if END in answer:
            answer = answer[:answer.index(END)]
        self.assertGreater(len(answer), 2)  # else the model proves nothing: change its seed
        code, out, error = self.run_verb("generate", self.model, "--prompt", "why?",
                                         "--max-new-tokens", str(len(answer)), *more)
        self.assertEqual((code, error), (0, ""))
        text = bytes(token for token in answer if token < START).decode("utf-8", "replace")
        self.assertEqual(out.decode("utf-8", "replace"), text + "\n")

    def test_generate_sees_the_images(self):
        self.make_vision_model()
        stripes = self.write_bytes("stripes.png", grey_png(56, lambda x, y: x % 8 * 30))
        spot = self.write_bytes("spot.png", grey_png(56, lambda x, y: 250 * (x > 20 and y < 30)))

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
        picture = grey_png(56, lambda x, y: x)
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
        code, _, error = self.run_verb("train", self.path("run.yaml"))
        self.assertEqual(code, 0, error)

    def answer(self, directory, expected_note=""):
        code, out, error = self.run_verb("generate", directory, "--prompt", "why?",
                                         "--max-new-tokens", "12")
        self.assertEqual((code, error), (0, expected_note))
        return out

    def test_generate_answers_from_a_run_as_from_its_export(self):
        self.train_tiny_run()
        code, _, error = self.run_verb("checkpoint", "export", self.path("run"),
                                       "-o", self.path("exported"))
        self.assertEqual(code, 0, error)
        trained = self.answer(self.path("run"))
        self.assertEqual(self.answer(self.path("exported")), trained)
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
        note = "generate: weights of {} are BF16; the CPU computes them in F32\n"
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
                 "app: this model reads text alone", "found: 1 images"),
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

    def test_forward_refuses_bad_input(self):
        ids = ("I64", [1, 3], [1, 2, 3])
        for tensors, more, *expected in (
                ({"input_ids": ids}, ["--gradients"], "app: gradients need a loss"),
                ({"input_ids": ids}, ["--mrope", "odd"], "app: unknown position mode",
                 "expected: hf5 or official"),
                ({"input_ids": ids, "labels": ("I64", [1, 3], [7, -100, -100])}, [],
                 "app: labels hold no target"),
                ({"input_ids": ("I64", [1, 2], [1, 999])}, [],
                 "token id outside the vocabulary", "found: id 999"),
                ({"input_ids": ids, "pixel_values": ("F32", [1, 2], [0, 0]),
                  "image_grid_thw": ("I64", [1, 3], [1, 1, 1])}, [], "found: 1 images"),
                ({"input_idz": ids}, [], "nearest known name: input_ids"),
                ({"model.embed_tokens.weight": ids}, [],
                 "expected: the names that a Hugging Face processor gives: input_ids, ... [")):
            with self.subTest(expected[0]):
                self.assert_refused(self.forward_words(tensors, *more), *expected)
                self.assertFalse(os.path.exists(self.path("out.safetensors")))

    def test_forward_names_inputs_that_cannot_be_read(self):
        output = ["-o", self.path("out.safetensors")]
        self.assert_refused(["forward", self.model, self.path("none.safetensors"), *output],
                            "app: inputs cannot be read", "none.safetensors", "No such file")
        self.assert_refused(["forward", self.model, self.folder, *output],
                            "app: inputs cannot be read", "found: a directory")
        note = self.write_bytes("note.safetensors", b"hello, this is text")
        self.assert_refused(["forward", self.model, note, *output], "safetensors: ", note)

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

    def test_forward_names_missing_weights(self):
        words = self.forward_words({"input_ids": ("I64", [1, 1], [1])})
        os.remove(self.path("model/model.safetensors"))
        self.assert_refused(words, "weights: no safetensors in the directory")


unittest.main()
