#!/usr/bin/env python3
"""Holds predicted steps of the demo against real ones on this machine.

In each round profiles the demo's model (or takes a profile), trains it under six settings and
simulates each with the microbatches that its steps had; prints time, memory and order, medians over
the rounds.

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


def simulate(demo, profile, directory):
    trace = directory / "predicted.json"
    subprocess.run(
        [demo.tributary, "simulate", directory / "plan.json", "--profile", profile, "--run", directory,
         "--skip", str(demo.options.skip), "-o", trace], check=True, stdout=subprocess.DEVNULL)
    return json.loads(trace.read_text())["summary"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo_runs.add_options(parser, "runs/predict")
    options = parser.parse_args()
    demo = demo_runs.DemoRuns(options)
    medians = {name: [] for name in SETTINGS}
    simulated = {name: [] for name in SETTINGS}
    peaks, held = {}, {}
    for number in range(options.rounds):  # in turns: a busy machine slows all of them
        profile = options.profile or demo.measure(f"profile-{number}")
        print(f"profile {profile}: noise {100 * demo.noise(profile):.1f} %")
        for name in SETTINGS:
            directory, times, peaks[name] = demo.train(name, number, *SETTINGS[name])
            medians[name].append(statistics.median(times))
            summary = simulate(demo, profile, directory)
            simulated[name].append(summary["distribution_ns"]["median"] * 1e-9)
            held[name] = summary["lanes"][0]["peak_bytes"]
    print("| setting | predicted step, of each profile [ms] | real: least, median, largest of the runs' medians [ms] | "
          "error of the medians | predicted peak [MiB] | real [MiB] | error |\n| --- | --- | --- | --- | --- | --- | --- |")
    predicted, real = {}, {}
    for name in SETTINGS:
        predicted[name] = statistics.median(simulated[name])
        real[name] = statistics.median(medians[name])
        peak = held[name]
        runs = ", ".join(f"{1e3 * value:.1f}" for value in (min(medians[name]), real[name], max(medians[name])))
        each = ", ".join(f"{1e3 * value:.1f}" for value in simulated[name])
        print(f"| {name} | {each} | {runs} | {100 * (predicted[name] / real[name] - 1):+.1f} % | "
              f"{peak / 2**20:.0f} | {peaks[name] / 2**20:.0f} | {100 * (peak / peaks[name] - 1):+.1f} % |")
    pairs = list(itertools.combinations(SETTINGS, 2))
    right = sum((predicted[a] < predicted[b]) == (real[a] < real[b]) for a, b in pairs)
    print(f"order right for {right} of {len(pairs)} pairs")


if __name__ == "__main__":
    main()
