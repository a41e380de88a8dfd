"""A model directory, a data set and a run configuration so small that a run takes seconds."""

import json
import os
import pathlib
import random
import subprocess
import sys
import time

import PIL.Image

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230), "white": (250,) * 3}
WORDS = ["oak", "elm", "fir", "ash"]


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def chat(question, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def write_data(root, samples=48, held_out=6, seed=0):
    """Two sources: the colour of a noisy picture, and a word said again."""
    rng = random.Random(seed)
    (root / "images").mkdir(parents=True)
    for split, count in (("train", samples), ("held_out", held_out)):
        pictures, words = [], []
        for i in range(count):
            name, colour = rng.choice(sorted(COLOURS.items()))
            size = rng.choice([28, 56, 84]), rng.choice([28, 56])
            picture = PIL.Image.new("RGB", size, colour)
            picture.putpixel((rng.randrange(size[0]), rng.randrange(size[1])), (rng.randrange(256),) * 3)
            file = f"images/{split}-{i}.png"
            picture.save(root / file)
            pictures.append({
                "messages": [
                    {"role": "user", "content": [
                        {"type": "image_url", "image_url": {"url": file}},
                        {"type": "text", "text": "colour?"}]},
                    {"role": "assistant", "content": name}]})
            word = rng.choice(WORDS)
            words.append({"messages": chat(f"say {word}", word)})
        write_lines(root / f"colours.{split}.jsonl", pictures)
        write_lines(root / f"words.{split}.jsonl", words)


def write_model(root, data):
    """A Qwen2.5-VL of some ten thousand parameters, and its tokenizer."""
    root.mkdir(parents=True)
    subprocess.run(
        [sys.executable, SCRIPTS / "train_tokenizer.py", "--vocab-size", "280", "--output", root,
         data / "words.train.jsonl", data / "colours.train.jsonl"],
        check=True, stdout=subprocess.DEVNULL)
    tokenizer = json.loads((root / "tokenizer.json").read_text())
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    (root / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_act": "silu",
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "initializer_range": 0.05,
        "tie_word_embeddings": True, "vocab_size": max(ids.values()) + 1,
        "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
        "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
        "vision_config": {
            "model_type": "qwen2_5_vl", "depth": 2, "hidden_size": 32, "intermediate_size": 48,
            "num_heads": 2, "hidden_act": "silu", "in_channels": 3, "out_hidden_size": 32,
            "patch_size": 14, "spatial_patch_size": 14, "spatial_merge_size": 2,
            "temporal_patch_size": 2, "window_size": 56, "fullatt_block_indexes": [1],
            "tokens_per_second": 2}}))
    (root / "preprocessor_config.json").write_text(json.dumps({
        "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "min_pixels": 784, "max_pixels": 50176}))


def write_config(path, root, **values):
    """Writes the run's YAML (JSON is YAML); `values` replace sections' keys: run={"steps": 3}."""
    source = lambda name: {
        "name": name, "path": str(root / f"data/{name}.train.jsonl"),
        "held_out": str(root / f"data/{name}.held_out.jsonl")}
    config = {
        "run": {"name": "tiny", "dir": str(root / "run"), "steps": 12, "seed": 5, "threads": 1},
        "model": {"path": str(root / "model")},
        "data": {"sources": [source("colours"), source("words")], "min_pixels": 784,
                 "max_pixels": 50176, "workers": 1},
        "batch": {"global_samples": 6, "capacity_tokens": 160},
        "optimizer": {"learning_rate": 0.003},
        "schedule": {"decay": "cosine", "warmup_steps": 2},
        "validation": {"max_new_tokens": 4},
        "checkpoint": {"every": 3},
        "metrics": {"console_every": 1, "peak_flops": 1e11},
    }
    for section, keys in values.items():
        config.setdefault(section, {}).update(keys)
    path.write_text(json.dumps(config, indent=1))
    return path


def make_workplace(root):
    """Data and model under `root`, once for many runs."""
    write_data(root / "data")
    write_model(root / "model", root / "data")


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def train(program, *arguments, **options):
    """Runs `tributary train` to its end."""
    return subprocess.run([program, "train", *map(str, arguments)], env=environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, **options)


def start(program, config, until_step, *arguments, **options):
    """Starts a run, waits until its metrics show a step, returns its process and directory."""
    process = subprocess.Popen([program, "train", str(config), *map(str, arguments)], text=True,
                               env=environment(), **{"stdout": subprocess.PIPE,
                                                     "stderr": subprocess.PIPE, **options})
    run = pathlib.Path(json.loads(config.read_text())["run"]["dir"])
    metrics = run / "metrics.jsonl"
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= until_step:
            return process, run
        time.sleep(0.002)
    process.kill()
    raise AssertionError(f"no step {until_step}: {process.communicate()}")


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
