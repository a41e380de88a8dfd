#!/usr/bin/env python3
"""Steps of the demo on several ranks of this machine, messages through shared memory and sockets.

Trains each setting both ways in turns and prints steps, what a rank waited for collectives in one,
and the ratio of the steps run by run. Losses are the same to the last bit, or it fails.

    python bench/plan/message_paths.py build/release/tributary --work runs/messages
"""

import argparse
import json
import os
import statistics
import sys

import demo_runs

SETTINGS = {  # name: processes, keys
    "dp 2 (sharded)": (2, []),
    "dp 2 (replicated)": (2, ["parallel.dp_replicate=2", "parallel.dp_shard=1"]),
    "pp 2": (2, ["parallel.pp=2"]),
    "dp 4 (sharded)": (4, []),
    "dp 2 x pp 2": (4, ["parallel.pp=2", "parallel.dp_shard=2"]),
}
PATHS = {"memory": "", "sockets": "lo"}


def lines_of(demo, name, path, number):
    os.environ["GLOO_SOCKET_IFNAME"] = PATHS[path]
    directory, _, _ = demo.train(f"{name} {path}", number, *SETTINGS[name])
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo_runs.add_options(parser, "runs/messages")
    options = parser.parse_args()
    demo = demo_runs.DemoRuns(options)
    print("| setting | step through memory: least, median, largest of the runs' medians [ms] | through sockets [ms] | "
          "ratio, run by run | waited, memory [ms] | waited, sockets [ms] |\n| --- | --- | --- | --- | --- | --- |")
    for name in SETTINGS:
        steps = {path: [] for path in PATHS}
        waits = {path: [] for path in PATHS}
        for number in range(options.rounds):
            losses = []
            for path in PATHS:
                lines = lines_of(demo, name, path, number)
                losses.append([line["loss"] for line in lines])
                counted = lines[options.skip:]
                steps[path].append(1e3 * statistics.median(sum(line["seconds"].values()) for line in counted))
                waits[path].append(1e3 * statistics.median(line["collectives"]["waited"] for line in counted))
            if losses[0] != losses[1]:
                sys.exit(f"failed: {name}: the losses differ")
        ratios = [memory / sockets for memory, sockets in zip(steps["memory"], steps["sockets"])]
        print(f"| {name} | {spread(steps['memory'], 1)} | {spread(steps['sockets'], 1)} | {spread(ratios, 2)} | "
              f"{statistics.median(waits['memory']):.1f} | {statistics.median(waits['sockets']):.1f} |")


def spread(values, digits):
    return " / ".join(f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))


if __name__ == "__main__":
    main()
