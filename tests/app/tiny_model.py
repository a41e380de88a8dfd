"""A tiny model with random weights, and helpers of the tests that run it.

Every test that imports this is run as `python X_test.py TRIBUTARY`.
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

TRIBUTARY = sys.argv.pop(1)
VOCAB, WIDTH, MLP, HEADS = 258, 16, 32, 2
START, END = 256, 257
USER_TURN = [START, *b"user\nwhy?", END, *b"\n", START, *b"assistant\n"]


def write_safetensors(path, tensors):
    """Writes tensors: name -> (dtype, shape, flat numbers)."""
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
    """Returns (shape, flat numbers) of a tensor."""
    with open(path, "rb") as source:
        content = source.read()
    (size,) = struct.unpack_from("<Q", content)
    entry = json.loads(content[8:8 + size])[name]
    begin, end = (8 + size + offset for offset in entry["data_offsets"])
    return entry["shape"], struct.unpack(f"<{(end - begin) // 4}f", content[begin:end])


def byte_letters():
    """Returns the GPT-2 alphabet, byte 0 first."""
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
    """Returns the tower of a Qwen2.5-VL whose backbone has random_weights()."""
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


class TinyModelCase(unittest.TestCase):
    """Runs the program on a model, in a folder of its own for each test."""

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
        """Replaces the model of the test by one with a vision tower."""
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
