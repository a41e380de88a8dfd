#!/usr/bin/env python3
"""Idle share and activations in flight of every pipeline order, from the spans of real steps.

    bench/train/pipeline_idle.py build/release/tributary --ranks 2 --runs 5 --words 192

Trains one Qwen3 (random weights, fp32) cut into `--ranks` stages of equally many layers, one
thread a rank, one sample a microbatch, samples of equal length, under orders that alternate. The idle share is 1 - passes / (ranks x the longest rank's time), passes without what they
waited for; median of the steps after the first ones. Ranks should not outnumber cores.
"""

import pathlib
import statistics
import sys
import tempfile

import compare_fsdp2 as common

SETTINGS = {
    "gpipe": {"schedule": "gpipe"},
    "1f1b": {"schedule": "1f1b"},
    "interleaved, 2": {"schedule": "interleaved", "virtual_stages": 2},
    "zb_h1": {"schedule": "zb_h1"},
    "zb_v": {"schedule": "zb_v"},
    "v_half": {"schedule": "v_half"},
    "v_min": {"schedule": "v_min"},
}


def measure(arguments, folder, model, name, run):
    more = {"parallel": {"pp": arguments.ranks, **SETTINGS[name]},
            "batch": {"global_samples": common.PER_RANK * arguments.ranks, "packing": "none",
                      "capacity_tokens": 1 << 16}}
    lines = common.train(arguments, folder, model, f"{run}-{list(SETTINGS).index(name)}",
                         more)[1][common.WARM_UP_STEPS:]
    return {"idle": statistics.median(line["pipeline"]["bubble"] for line in lines),
            "step": statistics.median(sum(line["seconds"].values()) for line in lines),
            "in_flight": lines[0]["pipeline"]["in_flight"],
            "microbatches": lines[0]["microbatches"]}


def spread(values, scale, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    return " / ".join(f"{scale * value:.{digits}f}" for value in (low, middle, high))


def main():
    arguments = common.parse_arguments(__doc__)
    seen = {name: [] for name in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = common.prepare(arguments, folder)
        for run in range(arguments.runs):
            for name in SETTINGS:
                seen[name].append(measure(arguments, folder, model, name, run))
    print(f"{arguments.ranks} stages, {seen['1f1b'][0]['microbatches']} microbatches; "
          "min / median / max over runs")
    print(f"{'order':16} {'idle %':>22} {'step ms':>26} {'of 1f1b':>8}  in flight")
    for name, runs in seen.items():
        ratio = statistics.median(run["step"] / other["step"]
                                  for run, other in zip(runs, seen["1f1b"]))
        print(f"{name:16} {spread([run['idle'] for run in runs], 100, 1):>22} "
              f"{spread([run['step'] for run in runs], 1e3, 0):>26} {ratio:8.2f}  "
              f"{runs[0]['in_flight']}")


if __name__ == "__main__":
    sys.exit(main())
