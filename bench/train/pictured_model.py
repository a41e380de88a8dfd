"""A Qwen2.5-VL with random weights and samples with pictures of very unequal sizes, for benches."""

import dataclasses
import json
import math
import pathlib
import random
import subprocess
import sys

import PIL.Image

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PATCH, MERGE = 14, 2
WINDOW = 8  # patches on each side
HEADS = 4
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclasses.dataclass
class Sizes:
    """How samples are drawn: log-normal patches of a picture, and 0 to `max_pictures` of them."""
    median_patches: int = 196
    sigma: float = 0.9
    max_patches: int = 1024
    max_pictures: int = 6
    without: float = 0.25   # share of the samples
    with_many: float = 0.08  # likewise
    letters: int = 40       # of a text, the median; one token each


def draw_grid(rng, sizes):
    """Rows and columns of patches, in multiples of what is merged."""
    patches = min(sizes.max_patches, sizes.median_patches * math.exp(rng.gauss(0, sizes.sigma)))
    shape = math.exp(rng.gauss(0, 0.3))
    even = lambda side: max(MERGE, MERGE * round(side / MERGE))
    return even(math.sqrt(patches * shape)), even(math.sqrt(patches / shape))


def draw_sample(rng, sizes):
    """The grids of its pictures, its question and its answer."""
    draw = rng.random()
    count = 0 if draw < sizes.without else 1
    if draw > 1 - sizes.with_many:
        count = rng.randint(3, sizes.max_pictures)
    text = lambda length: "".join(rng.choice(LETTERS) for _ in range(length))
    letters = min(4 * sizes.letters, max(4, int(sizes.letters * math.exp(rng.gauss(0, 0.6)))))
    return [draw_grid(rng, sizes) for _ in range(count)], text(letters), text(max(4, letters // 2))


def write_picture(path, rng, grid):
    rows, columns = grid
    picture = PIL.Image.new("RGB", (PATCH * columns, PATCH * rows), tuple(rng.choices(range(256), k=3)))
    for _ in range(20):
        picture.putpixel((rng.randrange(picture.width), rng.randrange(picture.height)),
                         tuple(rng.choices(range(256), k=3)))
    picture.save(path)


def write_data(folder, samples, sizes, seed=0):
    """train.jsonl and held_out.jsonl; returns the grids of each sample for training."""
    rng = random.Random(seed)
    (folder / "pictures").mkdir(parents=True)
    drawn = [draw_sample(rng, sizes) for _ in range(samples)]
    records = []
    for number, (grids, question, answer) in enumerate(drawn):
        parts = []
        for place, grid in enumerate(grids):
            file = f"pictures/{number}-{place}.png"
            write_picture(folder / file, rng, grid)
            parts.append({"type": "image_url", "image_url": {"url": file}})
        records.append({"messages": [
            {"role": "user", "content": [*parts, {"type": "text", "text": question}]},
            {"role": "assistant", "content": answer}]})
    (folder / "train.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    without = next(each for each, (grids, _, _) in zip(records, drawn) if not grids)
    (folder / "held_out.jsonl").write_text(json.dumps(without) + "\n")
    return drawn


def write_tokenizer(folder, text):
    """Returns the ids of the control tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, SCRIPTS / "train_tokenizer.py", "--vocab-size", "264", "--output",
                    folder, text], check=True, stdout=subprocess.DEVNULL)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    return {token["content"]: token["id"] for token in tokenizer["added_tokens"]}


@dataclasses.dataclass
class Shape:
    """Widths and numbers of layers; a block of both modules is built alike."""
    tower_width: int
    tower_layers: int
    width: int
    layers: int

    def tower_flop(self, grid):
        """Of a picture, forward: products with weights, attention within all of it in the last
        layer, and within windows in the others."""
        patches, width = grid[0] * grid[1], self.tower_width
        block = 2 * patches * (4 * width ** 2 + 9 * width ** 2)
        attended = patches + (self.tower_layers - 1) * min(patches, WINDOW ** 2)
        return self.tower_layers * block + 4 * patches * attended * width

    def backbone_flop(self, tokens):
        width = self.width
        kv_width = width // 2
        block = 2 * tokens * (2 * width ** 2 + 2 * width * kv_width + 9 * width ** 2)
        return self.layers * (block + 2 * tokens ** 2 * width)


def count_tokens(grids, question, answer):
    """About: chat markers besides text and merged patches."""
    return 30 + len(question) + len(answer) + sum(2 + r * c // MERGE ** 2 for r, c in grids)


def flop_of(shape, drawn):
    """Forward FLOP of tower and backbone, mean over the samples."""
    tower = sum(shape.tower_flop(grid) for grids, _, _ in drawn for grid in grids)
    backbone = sum(shape.backbone_flop(count_tokens(*sample)) for sample in drawn)
    return tower / len(drawn), backbone / len(drawn)


def find_shape(ratio, flop, drawn, fewest_layers):
    """The widths and depths whose FLOP of a sample are nearest to `flop`, tower to backbone as 1 to
    `ratio`."""
    def distance(shape):
        tower, backbone = flop_of(shape, drawn)
        return 2 * abs(math.log(backbone / (tower * ratio))) + abs(math.log((tower + backbone) / flop))

    widths = (64, 128, 192)
    return min((Shape(tower_width, tower_layers, width, layers) for tower_width in widths
                for tower_layers in (1, 2, 3, 4) for width in widths
                for layers in range(fewest_layers, 13)), key=distance)


def write_model(folder, shape, ids, max_patches):
    """config.json and preprocessor_config.json beside the tokenizer."""
    head_width = shape.width // HEADS
    third = head_width // 2 // 4
    config = {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
        "hidden_size": shape.width, "intermediate_size": 3 * shape.width,
        "num_hidden_layers": shape.layers, "num_attention_heads": HEADS, "num_key_value_heads": 2,
        "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "initializer_range": 0.02, "tie_word_embeddings": False,
        "rope_scaling": {"type": "mrope",
                         "mrope_section": [head_width // 2 - 2 * third, third, third]},
        "vocab_size": max(ids.values()) + 1,
        "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
        "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
        "vision_config": {
            "model_type": "qwen2_5_vl", "depth": shape.tower_layers,
            "hidden_size": shape.tower_width, "intermediate_size": 3 * shape.tower_width,
            "num_heads": HEADS, "hidden_act": "silu", "in_channels": 3,
            "out_hidden_size": shape.width, "patch_size": PATCH, "spatial_patch_size": PATCH,
            "spatial_merge_size": MERGE, "temporal_patch_size": 2, "window_size": WINDOW * PATCH,
            "fullatt_block_indexes": [shape.tower_layers - 1], "tokens_per_second": 2}}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "patch_size": PATCH, "temporal_patch_size": 2, "merge_size": MERGE,
        "min_pixels": (MERGE * PATCH) ** 2, "max_pixels": 2 * max_patches * PATCH ** 2}))
