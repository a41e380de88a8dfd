#!/usr/bin/env python3
"""How much of the collectives' time computation hides: gathers ahead, exchanged heads early.

    bench/train/hidden_collectives.py build/release/tributary --ranks 2 --runs 5

Trains one Qwen3 (random weights, fp32) one thread a rank, under settings that
alternate. `waited` is what rank 0 waited for collectives, per step, from metrics.jsonl: the median of
the steps after the first. The share hidden is 1 - waited / waited with nothing ahead.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import compare_fsdp2 as common

RANKS = object()  # as many as there are
SETTINGS = {
    "dp_shard, prefetch 0": {"prefetch": 0},
    "dp_shard, prefetch 1": {"prefetch": 1},
    "dp_shard, prefetch 2": {"prefetch": 2},
    "ulysses, joined": {"dp_shard": 1, "ulysses": RANKS},
    "ulysses, asynchronous": {"dp_shard": 1, "ulysses": RANKS, "ulysses_async": True},
}
BASELINES = {"dp_shard": "dp_shard, prefetch 0", "ulysses": "ulysses, joined"}


def measure(arguments, folder, model, name, run):
    parallel = {key: arguments.ranks if value is RANKS else value
                for key, value in SETTINGS[name].items()}
    lines = common.train(arguments, folder, model, f"{run}-{list(SETTINGS).index(name)}",
                         {"parallel": parallel})[1][common.WARM_UP_STEPS:]
    return {"step": statistics.median(sum(line["seconds"].values()) for line in lines),
            "waited": statistics.median(line["collectives"]["waited"] for line in lines),
            "bytes": statistics.median(line["collectives"]["bytes"] for line in lines)}


def main():
    arguments = common.parse_arguments(__doc__)
    seen = {name: [] for name in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = common.prepare(arguments, folder)
        for run in range(arguments.runs):
            for name in SETTINGS:
                seen[name].append(measure(arguments, folder, model, name, run))
    print(f"{'setting':24} {'step ms':>20} {'waited ms':>20} {'MB sent':>8}  hidden")
    for name, runs in seen.items():
        base = seen[BASELINES[name.split(",")[0]]]
        hidden = statistics.median(1 - run["waited"] / other["waited"]
                                   for run, other in zip(runs, base))
        cells = []
        for what in ("step", "waited"):
            values = sorted(1e3 * run[what] for run in runs)
            cells.append(f"{values[0]:.1f} / {statistics.median(values):.1f} / {values[-1]:.1f}")
        print(f"{name:24} {cells[0]:>20} {cells[1]:>20} {runs[0]['bytes'] / 1e6:8.1f}  {hidden:.0%}")


if __name__ == "__main__":
    sys.exit(main())
