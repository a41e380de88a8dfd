#!/usr/bin/env python3
"""Holds predicted steps of the demo against real ones on this machine.

Profiles the demo's model (or takes a profile), trains it under six settings in turns, simulates
each setting with the microbatches that its steps had, and prints time, memory and order.

    python bench/plan/predict_demo.py build/release/tributary --work runs/predict [--profile FILE]
"""

import argparse
import itertools
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = {  # name: processes, keys; no tp: the demo's tower has three heads
    "one": (1, []),
    "dp 2": (2, []),
    "replicate 2": (2, ["parallel.dp_replicate=2", "parallel.dp_shard=1"]),
    "pp 2": (2, ["parallel.pp=2"]),
    "dp 4": (4, []),
    "dp 2 x pp 2": (4, ["parallel.pp=2", "parallel.dp_shard=2"]),
}


def write_config(work):
    """The demo with all its sources from the first step, and nothing between steps."""
    text = (ROOT / "configs" / "demo.yaml").read_text()
    kept, skipping = [], False
    for line in text.splitlines():
        if line and not line[0].isspace():
            skipping = line.split(":")[0] in ("schedule", "validation", "checkpoint")
        if skipping or "start_step" in line:
            continue
        line = line.replace("configs/demo_model", str(ROOT / "configs" / "demo_model"))
        kept.append(line.replace("runs/demo-data", str(work / "demo-data")))
    kept += ["validation:", "  samples_per_source: 1", "  final_samples_per_source: 1", "  max_new_tokens: 1",
             "checkpoint:", "  every: 1000000", "  keep_best: false", "metrics:", "  tensorboard: false"]
    path = work / "demo_steps.yaml"
    path.write_text("\n".join(kept) + "\n")
    return path


def run(command, log):
    with open(log, "w") as out:
        if subprocess.run([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT).returncode:
            sys.exit(f"failed: {' '.join(map(str, command))}\n{pathlib.Path(log).read_text()[-2000:]}")


def train(options, config, name, number):
    ranks, keys = SETTINGS[name]
    directory = options.work / f"{name.replace(' ', '')}-{number}"
    if not options.reuse:
        shutil.rmtree(directory, ignore_errors=True)
        start(options, config, directory, ranks, keys)
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    times = [sum(line["seconds"].values()) for line in lines[options.skip:]]
    return directory, times, lines[-1]["bytes"]


def start(options, config, directory, ranks, keys):
    run([options.tributary, "launch", "-n", ranks, "--", "train", config, f"run.dir={directory}",
         f"run.threads={options.threads}", f"run.steps={options.steps + options.skip}", *keys], f"{directory}.log")


def simulate(options, directory):
    trace = directory / "predicted.json"
    subprocess.run(
        [options.tributary, "simulate", directory / "plan.json", "--profile", options.profile, "--run", directory,
         "--skip", str(options.skip), "-o", trace], check=True, stdout=subprocess.DEVNULL)
    return json.loads(trace.read_text())["summary"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("runs/predict"))
    parser.add_argument("--profile", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--skip", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="compute threads of each process")
    parser.add_argument("--reuse", action="store_true", help="take the runs that are there")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.work = options.work.resolve()
    options.tributary = options.tributary.resolve()
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "demo-data").exists():
        run([options.tributary, "data", "make-demo", "-o", options.work / "demo-data"], options.work / "data.log")
    config = write_config(options.work)
    if options.profile is None:
        options.profile = options.work / "profile.json"
        run([options.tributary, "profile", config, f"run.threads={options.threads}", "-o", options.profile], options.work / "profile.log")
    noise = json.loads(options.profile.read_text())["noise"]
    print(f"profile {options.profile}: noise {100 * noise:.1f} %")

    medians = {name: [] for name in SETTINGS}
    peaks, last = {}, {}
    for number in range(options.rounds):  # in turns: a busy machine slows all of them
        for name in SETTINGS:
            last[name], times, peaks[name] = train(options, config, name, number)
            medians[name].append(statistics.median(times))
    print("| setting | predicted step [ms] | real: least, median, largest of the runs' medians [ms] | error | "
          "predicted peak [MiB] | real [MiB] | error |\n| --- | --- | --- | --- | --- | --- | --- |")
    predicted, real = {}, {}
    for name in SETTINGS:
        summary = simulate(options, last[name])
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
