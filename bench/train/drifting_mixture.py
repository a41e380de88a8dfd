#!/usr/bin/env python3
"""Step time with a fixed number of encoders beside the run and with a range of them, while the mixture drifts.

    bench/train/drifting_mixture.py build/release/tributary --work runs/drift --share 0.35

It takes at most 12 minutes on two quiet cores. Two ranks train beside 1 encoder, beside 3, and beside `1-3`, on
the same samples, in runs that alternate. In the first half of the steps few samples have pictures, in the second
half most of them: a source whose samples have many joins there. The tower is frozen, and its work in the second
half is that of two to three encoders.

Each process has one thread. `--share 0.35` gives each that much of a core and no more, by a control group (cgroup
v1 or v2; needs root), which a process gets as soon as it is started. Encoders that have nothing to do still count
as processes: `encoder steps` are encoders that were there, summed up over the steps.

A step's time is that of the process that writes metrics.jsonl, the median; `starved` is the share of the ranks'
time that they waited for features or encoded some. `drift` are the first steps after the mixture has changed,
`after` the later ones.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading

import balanced_ranks
import pictured_model
import placements

RANKS = 2
MOST = 3
ROWS = ["1", "3", "1-3"]
TOWER_TO_BACKBONE = 3.3  # FLOP of a forward of the second mixture
RARE, FREQUENT = {"without": 0.9, "with_many": 0.0}, {"without": 0.1, "with_many": 0.15}
WEIGHT = 1000  # of the source that joins, so that hardly any sample is of the other one then


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("runs/drift"))
    parser.add_argument("--output", type=pathlib.Path, help="JSON of all figures; default: in the work folder")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--rounds", type=int, default=2, help="runs of each row")
    parser.add_argument("--steps", type=int, default=160, help="of a run")
    parser.add_argument("--drift", type=int, default=40, help="steps after the mixture has changed")
    parser.add_argument("--samples", type=int, default=16, help="of a global batch")
    parser.add_argument("--gflop", type=float, default=0.2, help="forward, of a sample of the second mixture")
    parser.add_argument("--window", type=float, default=5, help="pool.window_seconds")
    parser.add_argument("--share", type=float, default=0, help="of a core, for each process; 0: no limit")
    parser.add_argument("--quick", action="store_true", help="a tiny model, one run of each row")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.samples, arguments.gflop, arguments.window = 1, 12, 0.01, 1
    return arguments


class Bench:
    """The model, its data and its runs."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = arguments.work.resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        size = {"median_patches": 64, "max_patches": 256} if arguments.quick else {}
        records = arguments.samples * arguments.steps // 2
        drawn = {name: pictured_model.write_data(self.folder / name, records, pictured_model.Sizes(**size, **kind))
                 for name, kind in (("rare", RARE), ("frequent", FREQUENT))}
        shape = pictured_model.find_shape(1 / TOWER_TO_BACKBONE, 1e9 * arguments.gflop, drawn["frequent"], 1)
        self.flop = {name: pictured_model.flop_of(shape, each) for name, each in drawn.items()}
        ids = pictured_model.write_tokenizer(self.folder / "model", self.folder / "rare/held_out.jsonl")
        pictured_model.write_model(self.folder / "model", shape, ids, pictured_model.Sizes(**size).max_patches)
        self.longest = max(pictured_model.count_tokens(*sample) for each in drawn.values() for sample in each)

    def config(self, name):
        source = lambda kind, **keys: {"name": kind, "path": str(self.folder / kind / "train.jsonl"),
                                       "held_out": str(self.folder / kind / "held_out.jsonl"), **keys}
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({
            "run": {"name": "bench", "dir": str(self.folder / name), "steps": self.arguments.steps,
                    "threads": 1, "seed": 1, "bind": "none"},
            "model": {"path": str(self.folder / "model"), "freeze": ["vision"]},
            "data": {"sources": [source("rare"), source("frequent", weight=WEIGHT,
                                                        start_step=self.arguments.steps // 2)],
                     "min_pixels": 784, "max_pixels": 1 << 20, "system_prompt": "", "workers": 1},
            "batch": {"global_samples": self.arguments.samples, "capacity_tokens": max(1024, self.longest),
                      **placements.LEVEL},
            "pool": {"window_seconds": self.arguments.window},
            "parallel": {"dp_replicate": RANKS, **placements.tower("flow")},
            "optimizer": {"learning_rate": 1e-4}, "schedule": {"decay": "constant", "warmup_steps": 0},
            "validation": {"every": 0, "final_samples_per_source": 1, "max_new_tokens": 1},
            "checkpoint": {"every": 1_000_000, "keep_best": False},
            "metrics": {"peak_flops": 1e12, "tensorboard": False, "console_every": 1_000_000}}))
        return path

    def train(self, row, round_, groups):
        """The figures of a run."""
        name = f"{row}-{round_}"
        launcher = subprocess.Popen(
            [self.arguments.tributary, "launch", "-n", str(RANKS), "--encoders", row, "--", "train",
             self.config(name)], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=dict(os.environ, OMP_NUM_THREADS="1"))
        with limited(launcher, groups):
            _, err = launcher.communicate()
        if launcher.returncode != 0:
            sys.exit(f"{row} failed:\n{err[-2000:]}")
        return figures_of(placements.read_lines(self.folder / name / "metrics.jsonl"), self.arguments)


@contextlib.contextmanager
def limited(launcher, groups):
    """Moves each process that the launcher starts into a group of its own."""
    free, held, done = list(groups), {}, threading.Event()

    def look():
        listed = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True)
        children = set(listed.stdout.split())
        for gone in set(held) - children:
            free.append(held.pop(gone))
        for child in sorted(children - set(held), key=int):
            held[child] = free.pop(0)
            with contextlib.suppress(OSError):  # it has just ended
                pathlib.Path(held[child]).write_text(child)

    def watch():
        while not done.wait(0.05):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def figures_of(lines, arguments):
    half = arguments.steps // 2
    parts = {"before": lines[half // 2:half], "drift": lines[half:half + arguments.drift],
             "after": lines[half + arguments.drift:]}
    seconds = lambda line: sum(line["seconds"].values())
    lacking = lambda line: line["flow"]["starved"] + line["flow"]["encoding"]
    return {"losses": [line["loss"] for line in lines],
            "wall": sum(seconds(line) for line in lines),
            "encoder_steps": sum(line["flow"]["encoders"] for line in lines),
            "changes": [[line["step"], line["flow"]["wanted"], line["reallocation"]]
                        for line in lines if "reallocation" in line],
            **{name: {"step": statistics.median(map(seconds, part)),
                      "starved": sum(map(lacking, part)) / (RANKS * sum(map(seconds, part)))}
               for name, part in parts.items()}}


def print_table(seen):
    print("| encoders | step s before | drift | after | starved before | drift | after | all steps s | encoder steps |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row, runs in seen.items():
        cells = [placements.show(placements.spread([each[part][key] for each in runs]), form)
                 for key, form in (("step", "{:.2f}"), ("starved", "{:.1%}")) for part in ("before", "drift", "after")]
        cells += [placements.show(placements.spread([each[key] for each in runs]), "{:.0f}")
                  for key in ("wall", "encoder_steps")]
        print(f"| {row} | {' | '.join(cells)} |")
    for row, runs in seen.items():
        for round_, each in enumerate(runs):
            for step, wanted, reason in each["changes"]:
                print(f"\n{row}, round {round_ + 1}: {wanted} encoders after step {step}: {reason}")


def main():
    arguments = parse_arguments()
    bench = Bench(arguments)
    seen = {row: [] for row in arguments.rows}
    with balanced_ranks.cpu_groups(RANKS + MOST, arguments.share) as groups:
        for round_ in range(arguments.rounds):
            for row in arguments.rows:
                seen[row].append(bench.train(row, round_, groups))
                print(f"round {round_ + 1}: {row}: {seen[row][-1]['after']['step']:.3f} s", file=sys.stderr)
    losses = seen[arguments.rows[0]][0]["losses"]
    same = all(each["losses"] == losses for runs in seen.values() for each in runs)
    print_table(seen)
    flop = ", ".join(f"{name} {tower / 1e9:.3f}e9 and {backbone / 1e9:.3f}e9"
                     for name, (tower, backbone) in bench.flop.items())
    limit = f"{arguments.share} of a core each" if arguments.share else "no other limit"
    print(f"\nFLOP of a sample, forward, tower and backbone: {flop}. {RANKS} ranks, processes of one thread, {limit}; "
          f"{arguments.samples} samples a step, the mixture changes after {arguments.steps // 2} of {arguments.steps} "
          f"steps; {arguments.rounds} runs; min / median / max.")
    output = arguments.output or arguments.work / "drift.json"
    output.write_text(json.dumps({"share": arguments.share, "flop": bench.flop, "rows": seen}, indent=1))
    return 0 if same else "losses of the rows differ"


if __name__ == "__main__":
    sys.exit(main())
