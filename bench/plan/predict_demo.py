#!/usr/bin/env python3
"""Holds predicted steps of the demo against real ones on this machine.

Profiles the demo's model (or takes a profile), trains it under six settings in turns, simulates
each setting with the microbatches that its steps had, and prints time, memory and order.

    python bench/plan/predict_demo.py build/release/tributary --work runs/predict [--profile FILE]
"""

import argparse
import itertools
import json
import statistics
import subprocess

import demo_runs

SETTINGS = {  # name: processes, keys; no tp: the demo's tower has three heads
    "one": (1, []),
    "dp 2": (2, []),
    "replicate 2": (2, ["parallel.dp_replicate=2", "parallel.dp_shard=1"]),
    "pp 2": (2, ["parallel.pp=2"]),
    "dp 4": (4, []),
    "dp 2 x pp 2": (4, ["parallel.pp=2", "parallel.dp_shard=2"]),
}


def simulate(demo, directory):
    trace = directory / "predicted.json"
    subprocess.run(
        [demo.tributary, "simulate", directory / "plan.json", "--profile", demo.profile, "--run", directory,
         "--skip", str(demo.options.skip), "-o", trace], check=True, stdout=subprocess.DEVNULL)
    return json.loads(trace.read_text())["summary"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo_runs.add_options(parser, "runs/predict")
    options = parser.parse_args()
    demo = demo_runs.DemoRuns(options)
    print(f"profile {demo.profile}: noise {100 * demo.noise():.1f} %")

    medians = {name: [] for name in SETTINGS}
    peaks, last = {}, {}
    for number in range(options.rounds):  # in turns: a busy machine slows all of them
        for name in SETTINGS:
            last[name], times, peaks[name] = demo.train(name, number, *SETTINGS[name])
            medians[name].append(statistics.median(times))
    print("| setting | predicted step [ms] | real: least, median, largest of the runs' medians [ms] | error | "
          "predicted peak [MiB] | real [MiB] | error |\n| --- | --- | --- | --- | --- | --- | --- |")
    predicted, real = {}, {}
    for name in SETTINGS:
        summary = simulate(demo, last[name])
        predicted[name] = summary["distribution_ns"]["median"] * 1e-9
        real[name] = statistics.median(medians[name])
        peak = summary["lanes"][0]["peak_bytes"]
        runs = ", ".join(f"{1e3 * value:.1f}" for value in (min(medians[name]), real[name], max(medians[name])))
        print(f"| {name} | {1e3 * predicted[name]:.1f} | {runs} | {100 * (predicted[name] / real[name] - 1):+.1f} % | "
              f"{peak / 2**20:.0f} | {peaks[name] / 2**20:.0f} | {100 * (peak / peaks[name] - 1):+.1f} % |")
    pairs = list(itertools.combinations(SETTINGS, 2))
    right = sum((predicted[a] < predicted[b]) == (real[a] < real[b]) for a, b in pairs)
    print(f"order right for {right} of {len(pairs)} pairs")


if __name__ == "__main__":
    main()
