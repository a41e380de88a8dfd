#!/usr/bin/env python3
"""Losses of a run whose steps are made by arrival, over those of runs in the order of the data.

    bench/train/arrival_losses.py build/release/tributary --work runs/arrival

It takes about 6 minutes on two quiet cores. The demo's model is trained for 800 steps; from there, with a frozen
tower, it is trained on for 300 steps by two ranks: with the tower inline, with two encoders beside the run in the order
of the data, and with two in an order by arrival.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

BLOCK = 50  # steps of a mean
FLOW = ["parallel.vision.placement=flow"]
ROWS = {"inline": (0, []), "flow, order of the data": (2, FLOW),
        "flow, by arrival": (2, [*FLOW, "pool.order=arrival", "pool.ahead=4"])}


def run(threads, *words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"OMP_NUM_THREADS": str(threads)})


def train_base(tributary, work):
    """The directory of the model that the runs start from."""
    if not pathlib.Path("runs/demo-data").exists():
        run(2, tributary, "data", "make-demo", "-o", "runs/demo-data")
    run(2, tributary, "train", "configs/demo.yaml", f"run.dir={work / 'base'}", "run.steps=800",
        "validation.every=800", "schedule.decay_steps=300")
    run(1, tributary, "checkpoint", "export", work / "base", "-o", work / "base-hf")
    return work / "base-hf"


def train(tributary, directory, model, encoders, words):
    from_start = [f"data.sources.{source}.start_step=0" for source in range(2, 5)]
    run(1, tributary, "launch", "-n", 2, *(["--encoders", encoders] if encoders else []), "--", "train",
        "configs/demo.yaml", f"run.dir={directory}", f"model.path={model}", "model.weights=pretrained",
        "model.freeze=[vision]", "run.steps=300", "optimizer.learning_rate=0.0005", "schedule.warmup_steps=20",
        "schedule.decay_steps=150", "validation.every=300", "batch.packing=online_best_fit", "parallel.dp_shard=2",
        *from_start, *words)


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("runs/arrival"), help="must not exist yet")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True)
    model = train_base(arguments.tributary, arguments.work)
    print(f"| row | mean loss of {BLOCK} steps each | held-out loss | answers right | samples out of turn |\n"
          "| --- | --- | --- | --- | --- |")
    for number, (name, (encoders, words)) in enumerate(ROWS.items()):
        directory = arguments.work / str(number)
        train(arguments.tributary, directory, model, encoders, words)
        steps = [line for line in read_lines(directory / "metrics.jsonl") if "grad_norm" in line]
        losses = [line["loss"] for line in steps]
        means = [sum(losses[first:first + BLOCK]) / BLOCK for first in range(0, len(losses), BLOCK)]
        validation = read_lines(directory / "validation.jsonl")[-1]
        moved = sum(line.get("flow", {}).get("out_of_turn", 0) for line in steps)
        print(f"| {name} | {' '.join(f'{mean:.3f}' for mean in means)} | {validation['loss']:.4f} | "
              f"{validation['accuracy']['overall']:.1%} | {moved} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
