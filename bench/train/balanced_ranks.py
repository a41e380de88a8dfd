#!/usr/bin/env python3
"""Step time of many ranks on the demo's mixed data: samples balanced over ranks, or dispatched in turn.

    tributary data make-demo -o runs/demo-data
    bench/train/balanced_ranks.py build/release/tributary --data runs/demo-data --ranks 4 --runs 5

Trains the demo's model on all five sources from the first step on, under each rule in turn, in
alternating runs over the same samples. A step's time is that of rank 0, the median of the steps
after the first ones; the gain is that of runs beside each other. `max/mean` compares the ranks'
predicted work of a step, by dimension, the mean over all steps.

With fewer cores than ranks, idle ranks lend their time to busy ones, which hides what imbalance
costs on machines of their own. `--share 0.4` gives each rank that much of a core and no more, before
whatever else runs, by a control group (cgroup v1 or v2; needs root).
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile

import compare_fsdp2 as common

SOURCES = ("text", "shapes", "clips", "pairs", "document")
WEIGHTS = {"text": 0.8, "shapes": 1, "clips": 0.8, "pairs": 1.2, "document": 1.6}
DIMENSIONS = ("time", "vision", "backbone", "tokens", "patches", "attention")
WARM_UP_STEPS = 3
PERIOD = 10_000  # us, of a control group


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tributary")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("runs/demo-data"))
    parser.add_argument("--model", default="configs/demo_model")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--samples", type=int, default=64, help="of a global batch")
    parser.add_argument("--capacity", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5, help="of each rule")
    parser.add_argument("--rules", nargs="+", default=["none", "lpt_2d"])
    parser.add_argument("--mesh", choices=("dp_shard", "dp_replicate"), default="dp_shard")
    parser.add_argument("--set", nargs="*", default=[], help="key.path=value, for all")
    parser.add_argument("--share", type=float, default=0, help="of a core, for each rank; 0: no limit")
    return parser.parse_args()


@contextlib.contextmanager
def cpu_groups(ranks, share, name="rank"):
    """A control group for each of `ranks` processes: the file that a process joins it by."""
    if share == 0:
        yield [os.devnull] * ranks
        return
    first = pathlib.Path("/sys/fs/cgroup/cpu")
    root = first if first.is_dir() else pathlib.Path("/sys/fs/cgroup")
    quota = int(share * PERIOD)
    groups = [root / f"tributary-bench-{os.getpid()}-{name}-{rank}" for rank in range(ranks)]
    try:
        for group in groups:
            group.mkdir()
            if root == first:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
                (group / "cpu.shares").write_text("262144")
            else:
                (group / "cpu.max").write_text(f"{quota} {PERIOD}")
                (group / "cpu.weight").write_text("10000")
        yield [str(group / "cgroup.procs") for group in groups]
    finally:
        for group in groups:
            if group.is_dir():
                group.rmdir()


def write_config(arguments, folder, name, rule):
    source = lambda each: {"name": each, "weight": WEIGHTS[each],
                           "path": str(arguments.data / each / "train.jsonl"),
                           "held_out": str(arguments.data / each / "held_out.jsonl")}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({
        "run": {"name": "bench", "dir": str(folder / name), "steps": arguments.steps, "threads": 1,
                "seed": 1},
        "model": {"path": arguments.model},
        "data": {"sources": [source(each) for each in SOURCES], "max_pixels": 50176,
                 "system_prompt": "", "workers": 1},
        "batch": {"global_samples": arguments.samples, "capacity_tokens": arguments.capacity,
                  "balance": rule},
        "validation": {"final_samples_per_source": 1, "max_new_tokens": 1},
        "checkpoint": {"every": 1_000_000}, "parallel": {arguments.mesh: arguments.ranks},
        "metrics": {"peak_flops": 1e12, "tensorboard": False, "console_every": 1_000_000}}))
    return path


def measure(arguments, folder, groups, rule, run):
    name = f"{rule}-{run}"
    config = write_config(arguments, folder, name, rule)
    join = 'echo $$ > "$0" || exit 1; exec "$@"'
    common.launch([["sh", "-c", join, group, arguments.tributary, "train", str(config),
                    *arguments.set] for group in groups], arguments.ranks)
    lines = [json.loads(line) for line in (folder / name / "metrics.jsonl").read_text().splitlines()]
    later = lines[WARM_UP_STEPS:]
    balance = [line["balance"] for line in lines]
    return {"step": statistics.median(sum(line["seconds"].values()) for line in later),
            "waited": statistics.median(line["collectives"]["waited"] for line in later),
            "planning": statistics.median(line["planning"] for line in balance),
            "exposed": statistics.median(line["exposed"] for line in balance[WARM_UP_STEPS:]),
            "most exposed": max(line["exposed"] for line in balance[WARM_UP_STEPS:]),
            "loss": lines[-1]["loss"], "microbatches": lines[-1]["microbatches"],
            **{key: statistics.mean(line[key] for line in balance) for key in DIMENSIONS},
            "worst time": max(line["time"] for line in balance)}


def show(values, scale=1.0, form="{:.1f}"):
    values = sorted(scale * value for value in values)
    return " / ".join(form.format(value)
                      for value in (values[0], statistics.median(values), values[-1]))


def main():
    arguments = parse_arguments()
    seen = {rule: [] for rule in arguments.rules}
    with tempfile.TemporaryDirectory() as folder, \
            cpu_groups(arguments.ranks, arguments.share) as groups:
        for run in range(arguments.runs):
            for rule in arguments.rules:
                seen[rule].append(measure(arguments, pathlib.Path(folder), groups, rule, run))
    print(f"{arguments.ranks} ranks, {arguments.mesh}, {arguments.samples} samples, "
          f"{arguments.runs} runs of {arguments.steps} steps; least / median / most over the runs")
    for rule, runs in seen.items():
        print(f"{rule:8} step {show([run['step'] for run in runs], 1e3)} ms, "
              f"rank 0 waited {show([run['waited'] for run in runs], 1e3)} ms")
        print("         max/mean " + ", ".join(f"{key} {statistics.mean(run[key] for run in runs):.3f}"
                                               for key in DIMENSIONS) +
              f"; worst step {max(run['worst time'] for run in runs):.3f}")
        print(f"         planning {show([run['planning'] for run in runs], 1e3)} ms, exposed "
              f"{show([run['exposed'] for run in runs], 1e3, '{:.3f}')} ms, in one step at most "
              f"{1e3 * max(run['most exposed'] for run in runs):.3f} ms; last loss "
              f"{runs[0]['loss']:.6f}, {runs[0]['microbatches']} microbatches")
        if rule != arguments.rules[0]:
            gains = [other["step"] / run["step"] - 1
                     for run, other in zip(runs, seen[arguments.rules[0]])]
            print(f"         faster than {arguments.rules[0]} by {show(gains, 100)} %")


if __name__ == "__main__":
    sys.exit(main())
