#!/usr/bin/env python3
"""Steps of the demo on several ranks of this machine, run in two ways that differ in one thing.

    python bench/plan/two_ways.py build/release/tributary messages --work runs/two_ways
    python bench/plan/two_ways.py build/release/tributary cores --work runs/two_ways

`messages`: through memory that ranks share, and through sockets. `cores`: each rank bound to cores of
its own, and none bound. Trains each setting both ways in turns and prints steps, what a rank waited for
collectives in one, and the ratio of the steps run by run. Losses are the same to the last bit, or it
fails.
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
WAYS = {  # name: GLOO_SOCKET_IFNAME, keys
    "messages": {"memory": ("", []), "sockets": ("lo", [])},
    "cores": {"bound": ("", ["run.bind=cores"]), "free": ("", ["run.bind=none"])},
}


def lines_of(demo, name, way, number):
    interface, keys = WAYS[demo.options.what][way]
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    ranks, own = SETTINGS[name]
    directory, _, _ = demo.train(f"{name} {way}", number, ranks, own + keys)
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    demo_runs.add_options(parser, "runs/two_ways")
    parser.add_argument("what", choices=WAYS)
    options = parser.parse_args()
    demo = demo_runs.DemoRuns(options)
    first, second = ways = list(WAYS[options.what])
    print(f"| setting | step, {first}: least, median, largest of the runs' medians [ms] | {second} [ms] | "
          f"ratio, run by run | waited, {first} [ms] | waited, {second} [ms] |\n| --- | --- | --- | --- | --- | --- |")
    for name in SETTINGS:
        steps = {way: [] for way in ways}
        waits = {way: [] for way in ways}
        for number in range(options.rounds):
            losses = []
            for way in ways:
                lines = lines_of(demo, name, way, number)
                losses.append([line["loss"] for line in lines])
                counted = lines[options.skip:]
                steps[way].append(1e3 * statistics.median(sum(line["seconds"].values()) for line in counted))
                waits[way].append(1e3 * statistics.median(line["collectives"]["waited"] for line in counted))
            if losses[0] != losses[1]:
                sys.exit(f"failed: {name}: the losses differ")
        ratios = [one / other for one, other in zip(steps[first], steps[second])]
        print(f"| {name} | {spread(steps[first], 1)} | {spread(steps[second], 1)} | {spread(ratios, 2)} | "
              f"{statistics.median(waits[first]):.1f} | {statistics.median(waits[second]):.1f} |", flush=True)


def spread(values, digits):
    return " / ".join(f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))


if __name__ == "__main__":
    main()
