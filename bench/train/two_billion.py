#!/usr/bin/env python3
"""Writes what a bench on a CUDA device trains: a Qwen2.5-VL of two thousand million parameters with
random weights (the tower of the released 7B, the layers of the 1.5B), and samples with pictures.

    bench/train/two_billion.py FOLDER
    bench/train/compare_transformers.py build/cuda/tributary FOLDER/run.yaml --device cuda

The vocabulary is that of the demo's tokenizer, so the head costs next to nothing.
"""

import argparse
import json
import pathlib
import random
import shutil

import pictured_model

DEMO_MODEL = pathlib.Path(__file__).resolve().parents[2] / "configs/demo_model"
SIZES = pictured_model.Sizes(median_patches=1024, max_patches=4096, letters=300)


def write_model(folder):
    shutil.copytree(DEMO_MODEL, folder)
    config = json.loads((folder / "config.json").read_text())
    config.update(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                  num_attention_heads=12, num_key_value_heads=2, max_position_embeddings=32768,
                  rope_theta=1e6, initializer_range=0.02)
    config["rope_scaling"]["mrope_section"] = [16, 24, 24]
    config["vision_config"].update(
        depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16, out_hidden_size=1536,
        fullatt_block_indexes=[7, 15, 23, 31], initializer_range=0.02)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    limits = json.loads((folder / "preprocessor_config.json").read_text())
    limits.update(min_pixels=784, max_pixels=4096 * 196)
    (folder / "preprocessor_config.json").write_text(json.dumps(limits))


def write_records(folder, samples, seed=0):
    rng = random.Random(seed)
    (folder / "pictures").mkdir()
    lines = []
    for number in range(samples):
        grids, question, answer = pictured_model.draw_sample(rng, SIZES)
        parts = []
        for place, grid in enumerate(grids):
            file = f"pictures/{number}-{place}.png"
            pictured_model.write_picture(folder / file, rng, grid)
            parts.append({"type": "image", "image": file})
        lines.append(json.dumps({"messages": [
            {"role": "user", "content": [*parts, {"type": "text", "text": question}]},
            {"role": "assistant", "content": answer}]}))
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--samples", type=int, default=640)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True)
    write_model(folder / "model")
    write_records(folder, arguments.samples)
    (folder / "run.yaml").write_text(json.dumps({
        "run": {"name": "two_billion", "dir": str(folder / "run"), "seed": 1},
        "model": {"path": str(folder / "model")},
        "data": {"sources": [{"name": "pictures", "path": str(folder / "train.jsonl")}],
                 "min_pixels": 784, "max_pixels": 4096 * 196, "max_tokens": 4096,
                 "system_prompt": "", "train_on_newline": False},
        "batch": {"global_samples": 32, "capacity_tokens": 4096},
        "optimizer": {"learning_rate": 1e-4}}, indent=1))


if __name__ == "__main__":
    main()
