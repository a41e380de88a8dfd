#!/usr/bin/env python3
"""Step time of the placements of one model on the same processes: where the tower runs, and what that gains.

    bench/train/placements.py build/release/tributary --work runs/placements --share 0.45

It takes at most 15 minutes on two quiet cores. Two models, whose tower costs as much as the backbone and
a quarter of it, train on four or six processes under placements that alternate: A B C ..., A B C .... Samples
have pictures of very unequal sizes, some none and some many. All placements train on the same samples
and must have the losses of the first one.

What DFLOP's plan and its scheduler gain, alone and together, over a pipeline whose stages all modules share:

    bench/train/placements.py build/release/tributary --work runs/parts --share 0.45 \
        --models 1:1 1:2 1:4 1:8 --baseline "first stage, in turn" --placements "first stage" \
        "separate 2+2, in turn" "separate 2+2" "separate 1+3, in turn" "separate 1+3"

Each process has one thread and is bound to one core: the first half of the processes share the first,
the others the second, under every placement. A process that waits lends its time to its neighbour on the core, which
hides what imbalance costs on machines of their own. `--share 0.45` (0.3 of six processes) gives each
that much of a core and no more, by a control group (cgroup v1 or v2; needs root).

A step's time is that of the process that writes metrics.jsonl, whose steps end when those of all end:
the median of the steps after the first ones. `predicted` is what `tributary simulate` says of the
run's plan from a profile of this machine and the sizes of the samples.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import balanced_ranks
import compare_fsdp2 as common
import pictured_model

WARM_UP_STEPS = 3
MAX_LOSS_DIFFERENCE = 1e-4  # relative; sums have another order
MODELS = {"1:1": 1, "1:2": 2, "1:4": 4, "1:8": 8}  # FLOP of the tower to those of the backbone

IN_TURN = {"balance": "none"}
LEVEL = {"balance": "lpt_2d"}
# Microbatches let a tower work on one while the backbone works on another.
IN_FLOW = LEVEL | {"packing": "level", "microbatches": 4}


def tower(placement, **keys):
    return {"vision": {"placement": placement, **keys}}


CHOICE = "the planner's choice"


def list_placements(ranks):
    """name: (section parallel, section batch). The levels are those of LoongForge: its tower lies on the
    first stage with the degrees of the backbone, there with replicas that take turns, and on all ranks."""
    half = ranks // 2
    deep = IN_FLOW | {"microbatches": 8}
    stages = {"pp": half, "tp": 2}

    def separate(own, batch=IN_FLOW):
        return {"dp_replicate": ranks - own} | tower("separate", dp_replicate=own), batch

    found = {
        "inline, in turn": ({"dp_replicate": ranks}, IN_TURN),
        "inline": ({"dp_replicate": ranks}, LEVEL),
        "colocated, dp": ({"dp_replicate": ranks} | tower("colocated", dp_replicate=ranks), LEVEL),
        "colocated, 2 passes": ({"dp_replicate": ranks} | tower("colocated", dp_replicate=ranks, passes=2),
                                IN_FLOW | {"microbatches": 2}),
        "colocated, tp": ({"dp_replicate": half, "tp": 2} | tower("colocated", dp_replicate=ranks), LEVEL),
        "level 1": (stages | tower("colocated", stages="first", tp=2), deep),
        "level 2": (stages | tower("colocated", stages="first", dp_replicate=2, passes=4, turns=True), deep),
        "level 3": (stages | tower("colocated", dp_replicate=ranks), deep),
        "own form": (stages | tower("colocated", dp_replicate=ranks, passes=2, turns=True), deep),
        "first stage": ({"pp": ranks, "vision_stages": 1}, deep),
        "first stage, in turn": ({"pp": ranks, "vision_stages": 1}, IN_TURN)}
    for own in range(1, half + 1):
        found[f"separate {own}+{ranks - own}"] = separate(own)
        found[f"separate {own}+{ranks - own}, in turn"] = separate(own, IN_TURN)
    return found


def usual_placements(ranks):
    """Those that are compared unless others are asked for."""
    splits = [f"separate {own}+{ranks - own}" for own in (ranks // 3, ranks // 2)]
    return [name for name in list_placements(ranks)
            if name in splits or not name.startswith(("separate", "first stage, in turn"))] + [CHOICE]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("runs/placements"))
    parser.add_argument("--output", type=pathlib.Path, help="JSON of all figures; default: in the work folder")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["1:1", "1:4"])
    parser.add_argument("--ranks", type=int, default=4, choices=[4, 6], help="processes")
    parser.add_argument("--placements", nargs="+", help="names of rows, as tables have them; default: all but "
                        "those that deal samples in turn")
    parser.add_argument("--baseline", default="inline, in turn")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each placement")
    parser.add_argument("--steps", type=int, default=8, help="of a run")
    parser.add_argument("--samples", type=int, default=32, help="of a global batch")
    parser.add_argument("--gflop", type=float, default=0.3, help="forward, of a sample")
    parser.add_argument("--share", type=float, default=0, help="of a core, for each process; 0: no limit")
    parser.add_argument("--profile", type=lambda path: pathlib.Path(path).resolve(),
                        help="of an earlier call with the same model, processes and share; default: it is measured, "
                        "which takes 5 minutes")
    parser.add_argument("--no-profile", action="store_true", help="do without predictions")
    parser.add_argument("--quick", action="store_true", help="two placements of a tiny model for 4 steps")
    arguments = parser.parse_args()
    arguments.placements = arguments.placements or usual_placements(arguments.ranks)
    if arguments.quick:
        arguments.models, arguments.rounds = ["1:1"], 1
        arguments.placements = [f"separate 1+{arguments.ranks - 1}"]
        arguments.steps, arguments.samples, arguments.gflop, arguments.no_profile = 4, 12, 0.01, True
    if arguments.baseline not in arguments.placements:
        arguments.placements.insert(0, arguments.baseline)
    if arguments.profile and len(arguments.models) > 1:
        parser.error("--profile is of one of --models")
    if arguments.no_profile and CHOICE in arguments.placements:
        arguments.placements.remove(CHOICE)
    unknown = set(arguments.placements) - {CHOICE, *list_placements(arguments.ranks)}
    if unknown:
        parser.error(f"unknown placements: {', '.join(sorted(unknown))}; expected some of "
                     f"{', '.join(list_placements(arguments.ranks))}, {CHOICE}")
    return arguments


class Bench:
    """One model, its data and its runs."""

    def __init__(self, arguments, name, sizes):
        self.arguments = arguments
        self.folder = (arguments.work / name.replace(":", "-")).resolve()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        drawn = pictured_model.write_data(self.folder / "data", arguments.samples * arguments.steps, sizes)
        self.shape = pictured_model.find_shape(MODELS[name], 1e9 * arguments.gflop, drawn,
                                               fewest_layers=arguments.ranks - 1)
        self.flop = pictured_model.flop_of(self.shape, drawn)
        ids = pictured_model.write_tokenizer(self.folder / "model", self.folder / "data/held_out.jsonl")
        pictured_model.write_model(self.folder / "model", self.shape, ids, sizes.max_patches)
        self.longest = max(pictured_model.count_tokens(*sample) for sample in drawn)
        self.placements = list_placements(arguments.ranks)
        if not arguments.no_profile:
            self.profile, self.sizes = arguments.profile or self.take_profile(), self.write_sizes()
        if CHOICE in arguments.placements:
            self.choice = self.plan()

    def config(self, name, parallel, batch):
        data = self.folder / "data"
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({
            "run": {"name": "bench", "dir": str(self.folder / name), "steps": self.arguments.steps,
                    "threads": 1, "seed": 1, "bind": "none"},
            "model": {"path": str(self.folder / "model")},
            "data": {"sources": [{"name": "all", "path": str(data / "train.jsonl"),
                                  "held_out": str(data / "held_out.jsonl")}],
                     "min_pixels": 784, "max_pixels": 1 << 20, "system_prompt": "", "workers": 1},
            "batch": {"global_samples": self.arguments.samples,
                      "capacity_tokens": max(1024, self.longest), **batch},
            "optimizer": {"learning_rate": 1e-4}, "schedule": {"decay": "constant", "warmup_steps": 0},
            "validation": {"every": 0, "final_samples_per_source": 1, "max_new_tokens": 1},
            "checkpoint": {"every": 1_000_000, "keep_best": False}, "parallel": parallel,
            "metrics": {"peak_flops": 1e12, "tensorboard": False, "console_every": 1_000_000}}))
        return path

    def train(self, placement, round_, groups):
        """The figures of a run."""
        name = f"{[*self.placements, CHOICE].index(placement)}-{round_}"
        if placement == CHOICE:
            config, words = self.config(name, {}, LEVEL), ["--plan", str(self.choice)]
        else:
            config, words = self.config(name, *self.placements[placement]), []
        self.launch(groups, [["train", str(config), *words]] * len(groups), len(groups))
        lines, later = self.read_steps(name)
        mean = lambda key: statistics.mean(line["balance"][key] for line in lines)
        return {"step": statistics.median(sum(line["seconds"].values()) for line in later),
                "losses": [line["loss"] for line in lines],
                "imbalance": {key: mean(key) for key in ("time", "vision", "backbone")},
                "feature_bytes": statistics.mean(line.get("feature_bytes", 0) for line in lines),
                "plan": str(self.folder / name / "plan.json")}

    def launch(self, groups, commands, ranks):
        """Runs a command of the program in each group, bound to a core; the first `ranks` are ranks."""
        cores = sorted(os.sched_getaffinity(0))
        join = 'echo $$ > "$0" || exit 1; exec taskset -c "$@"'
        common.launch([["sh", "-c", join, group, str(cores[place * len(cores) // len(groups)]),
                        str(self.arguments.tributary), *words]
                       for place, (group, words) in enumerate(zip(groups, commands, strict=True))], ranks)

    def read_steps(self, name):
        """The lines of all steps of a run, and of those after the first ones."""
        lines = read_lines(self.folder / name / "metrics.jsonl")
        return lines, lines[min(WARM_UP_STEPS, len(lines) - 1):]

    def write_sizes(self):
        """Sizes of the samples, one a line, as a model of one layer meets them."""
        small = json.loads((self.folder / "model/config.json").read_text()) | {"num_hidden_layers": 1}
        small["vision_config"] |= {"depth": 1, "fullatt_block_indexes": [0]}
        shutil.copytree(self.folder / "model", self.folder / "small")
        (self.folder / "small/config.json").write_text(json.dumps(small))
        config = self.config("sizes", {}, {"packing": "none"})
        run(self.arguments.tributary, "train", config, f"model.path={self.folder / 'small'}")
        path = self.folder / "sizes.csv"
        path.write_text("".join(f"{each[0]},{each[3]},{each[5]}\n"
                                for line in read_lines(self.folder / "sizes/shapes.jsonl")
                                for each in line["microbatches"]))
        return path

    def take_profile(self):
        """A profile of this machine; with shares, of as many such machines as there are processes."""
        path = self.folder / "profile.json"
        # Larger microbatches go at the rate of the largest here: measuring them takes too long.
        config = self.config("profiled", {}, {"capacity_tokens": max(512, self.longest)})
        for ranks in range(self.arguments.ranks, 1, -1):  # the groups of all placements have these sizes
            run(self.arguments.tributary, "launch", "-n", ranks, "--", "profile", config, "-o", path, "--here")
        if self.arguments.share:
            path.write_text(json.dumps(json.loads(path.read_text()) | {"cores": self.arguments.ranks}))
        return path

    def plan(self):
        """The plan that the planner writes from the profile and the sizes."""
        path = self.folder / "choice.json"
        run(self.arguments.tributary, "plan", self.config("planned", {}, LEVEL), "--profile", self.profile,
            "--threads", "1", "--devices", self.arguments.ranks, "--lengths", self.sizes, "--runnable", "-o", path)
        return path

    def predict(self, figures):
        """Adds the step [s] that the simulator expects, or why it expects none."""
        for of_placement in figures.values():
            done = subprocess.run(
                [self.arguments.tributary, "simulate", of_placement["plan"], "--profile", self.profile,
                 "--lengths", self.sizes, "--steps", "20", "--threads", "1", "--json"],
                capture_output=True, text=True)
            if done.returncode:
                of_placement["no_prediction"] = done.stderr.strip()
                continue
            step = 1e-9 * json.loads(done.stdout)["distribution_ns"]["median"]
            of_placement["predicted"] = step / (self.arguments.share or 1)


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")


def spread(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def alternate(bench, names, rounds):
    """The figures of each run by name, from runs that alternate."""
    seen = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        groups = stack.enter_context(balanced_ranks.cpu_groups(bench.arguments.ranks, bench.arguments.share))
        for round_, name in itertools.product(range(rounds), names):
            seen[name].append(bench.train(name, round_, groups))
            print(f"round {round_ + 1}: {name}: {seen[name][-1]['step']:.3f} s", file=sys.stderr)
    return seen


def measure(bench, placements, rounds):
    """Figures by placement."""
    seen = alternate(bench, placements, rounds)
    base = seen[bench.arguments.baseline]
    losses = base[0]["losses"]
    return {name: {"step": spread([each["step"] for each in runs]),
                   "ratio": spread([each["step"] / other["step"] for each, other in zip(runs, base)]),
                   "imbalance": runs[0]["imbalance"], "feature_bytes": runs[0]["feature_bytes"],
                   "loss_difference": max(abs(a - b) / b for each in runs
                                          for a, b in zip(each["losses"], losses, strict=True)),
                   "plan": runs[-1]["plan"]} for name, runs in seen.items()}


def order_of(figures):
    """How many pairs of placements the simulator puts in the order that was measured."""
    known = [each for each in figures.values() if "predicted" in each]
    pairs = list(itertools.combinations(known, 2))
    right = sum((a["predicted"] < b["predicted"]) == (a["step"]["median"] < b["step"]["median"])
                for a, b in pairs)
    return {"pairs": len(pairs), "right": right}


def show(values, form):
    return " / ".join(form.format(values[key]) for key in ("min", "median", "max"))


def print_table(figures, bench):
    shape, (tower_flop, backbone_flop) = bench.shape, bench.flop
    print(f"Tower of {shape.tower_layers} layers of {shape.tower_width}, backbone of {shape.layers} layers of "
          f"{shape.width}; FLOP of a sample, forward: {tower_flop / 1e9:.3f}e9 and {backbone_flop / 1e9:.3f}e9.\n")
    print("| placement | step s | ratio | max/mean: time | vision | backbone | features MB | loss | predicted s | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    base = figures[bench.arguments.baseline].get("predicted")
    for name, each in figures.items():
        levels = " | ".join(f"{each['imbalance'][key]:.2f}" for key in ("time", "vision", "backbone"))
        predicted = each.get("predicted")
        foreseen = f"{predicted:.2f} | {predicted / base:.2f}" if predicted and base else "- | -"
        print(f"| {name} | {show(each['step'], '{:.2f}')} | {show(each['ratio'], '{:.2f}')} | {levels} | "
              f"{each['feature_bytes'] / 1e6:.1f} | {each['loss_difference']:.0e} | {foreseen} |")
    for name, each in figures.items():
        if "no_prediction" in each:
            print(f"\nNo prediction of {name}: {each['no_prediction']}")


def main():
    arguments = parse_arguments()
    sizes = pictured_model.Sizes(median_patches=64, max_patches=256) if arguments.quick else pictured_model.Sizes()
    found = {}
    for name in arguments.models:
        bench = Bench(arguments, name, sizes)
        figures = measure(bench, arguments.placements, arguments.rounds)
        if not arguments.no_profile:
            bench.predict(figures)
        found[name] = {"shape": vars(bench.shape), "flop": bench.flop, "placements": figures,
                       "order": order_of(figures)}
        print(f"\n### {name}\n")
        print_table(figures, bench)
        if not arguments.no_profile:
            print("\nThe simulator has {right} of {pairs} pairs in order.".format(**found[name]["order"]))
    limit = f"{arguments.share} of a core each" if arguments.share else "no other limit"
    print(f"\n{arguments.ranks} processes of one thread, two neighbours bound to a core, {limit}; {arguments.samples} "
          f"samples a step, {arguments.rounds} runs of {arguments.steps} steps; min / median / max over the "
          f"runs, ratios to `{arguments.baseline}` run beside run.")
    output = arguments.output or arguments.work / "placements.json"
    output.write_text(json.dumps({"share": arguments.share, "models": found}, indent=1))
    worst = max(each["loss_difference"] for model in found.values() for each in model["placements"].values())
    return f"losses differ by {worst:.1e}" if worst > MAX_LOSS_DIFFERENCE else 0


if __name__ == "__main__":
    sys.exit(main())
