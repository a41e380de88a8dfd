#!/usr/bin/env python3
"""Step time with encoders beside the run, next to towers that keep step with it.

    bench/train/flow.py build/release/tributary --work runs/flow --share 0.45

It takes at most 10 minutes on two quiet cores. Models and data are those of placements.py, with a frozen
tower. Four processes train: all as ranks, or some of them as encoders beside the run (`flow 1+3`: one encoder,
three ranks). The rows without a part of FlowTrain's are the ablations of its table 1: without the pool encoders keep step with the
backbone (`separate`), without the scheduler samples go to ranks in turn, without the allocator the split is
the other one. With a barrier (`flow 1+3, barrier`) encoders begin with a batch when the ranks do. All train on the
same samples and must have the losses of the first one. With `--trains` the tower trains too.

`starved` is the share of the ranks' time that they waited for features. With `--encoder-share` encoders get
another part of a core than ranks, so that they are just as fast as wanted.
"""

import argparse
import json
import pathlib
import statistics
import sys

import balanced_ranks
import pictured_model
import placements

RANKS = 4


def list_rows(trains=False):
    """name: (encoders, section parallel, section batch)."""
    level, in_turn = placements.LEVEL, placements.IN_TURN
    found = {"inline, in turn": (0, {"dp_replicate": RANKS}, in_turn),
             "inline": (0, {"dp_replicate": RANKS}, level)}
    for own in (1, 2):
        ranks = {"dp_replicate": RANKS - own}
        found |= {
            f"separate {own}+{RANKS - own}": (0, ranks | placements.tower("separate", dp_replicate=own),
                                              placements.IN_FLOW),
            # Encoders of a tower that trains work on a microbatch while ranks are at another one.
            f"flow {own}+{RANKS - own}": (own, ranks | placements.tower("flow"),
                                          placements.IN_FLOW if trains else level),
            f"flow {own}+{RANKS - own}, in turn": (own, ranks | placements.tower("flow"), in_turn),
            f"flow {own}+{RANKS - own}, barrier": (own, ranks | placements.tower("flow"), level)}
    return found


class Bench(placements.Bench):
    def __init__(self, arguments, name, sizes):
        super().__init__(arguments, name, sizes)
        self.rows = list_rows(arguments.trains)
        self.frozen = [] if arguments.trains else ["vision"]

    def train(self, row, round_, groups):
        """The figures of a run."""
        name = f"{list(self.rows).index(row)}-{round_}"
        encoders, parallel, batch = self.rows[row]
        config = self.config(name, parallel, batch)
        run = json.loads(config.read_text())
        run["model"]["freeze"] = self.frozen
        run["pool"] = {"encoders": encoders} if encoders else {}
        if row.endswith("barrier"):
            run["pool"]["ahead"] = 1
        config.write_text(json.dumps(run))
        ranks = RANKS - encoders
        verbs = ["train"] * ranks + ["encoder"] * encoders
        with balanced_ranks.cpu_groups(encoders, self.arguments.encoder_share or self.arguments.share,
                                       "encoder") as own:
            self.launch(groups[:ranks] + own, [[verb, str(config)] for verb in verbs], ranks)
        lines, later = self.read_steps(name)
        step = statistics.median(sum(line["seconds"].values()) for line in later)
        flow = [line.get("flow", {}) for line in later]
        mean = lambda key: statistics.mean(each.get(key, 0) for each in flow)
        return {"step": step, "losses": [line["loss"] for line in lines],
                "starved": mean("starved") / (ranks * step), "encoded_here": mean("encoded_here"),
                # Over the run, as encoders tell what they did once a second.
                "busy": sum(each.get("encoder_busy", 0) for each in flow)
                        / max(1e-9, sum(each.get("encoder_seconds", 0) for each in flow)),
                "bytes": mean("bytes")}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("runs/flow"))
    parser.add_argument("--output", type=pathlib.Path, help="JSON of all figures; default: in the work folder")
    parser.add_argument("--models", nargs="+", choices=placements.MODELS, default=["1:1", "1:4"])
    parser.add_argument("--rows", nargs="+", choices=list_rows(), default=list(list_rows()))
    parser.add_argument("--rounds", type=int, default=3, help="runs of each row")
    parser.add_argument("--steps", type=int, default=8, help="of a run")
    parser.add_argument("--samples", type=int, default=32, help="of a global batch")
    parser.add_argument("--gflop", type=float, default=0.3, help="forward, of a sample")
    parser.add_argument("--share", type=float, default=0, help="of a core, for each process; 0: no limit")
    parser.add_argument("--encoder-share", type=float, default=0,
                        help="of a core, for each encoder; 0: as the others")
    parser.add_argument("--trains", action="store_true", help="the tower is not frozen")
    parser.add_argument("--quick", action="store_true", help="two rows of a tiny model for 4 steps")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.models, arguments.rounds, arguments.steps = ["1:1"], 1, 4
        arguments.samples, arguments.gflop, arguments.rows = 12, 0.01, ["flow 1+3"]
    if "inline, in turn" not in arguments.rows:
        arguments.rows.insert(0, "inline, in turn")
    # What placements.Bench reads beside these.
    arguments.ranks, arguments.placements, arguments.no_profile = RANKS, [], True
    return arguments


def measure(bench, arguments):
    seen = placements.alternate(bench, arguments.rows, arguments.rounds)
    base = seen["inline, in turn"]
    losses = base[0]["losses"]
    return {row: {"step": placements.spread([each["step"] for each in runs]),
                  "ratio": placements.spread([each["step"] / other["step"]
                                              for each, other in zip(runs, base)]),
                  "starved": placements.spread([each["starved"] for each in runs]),
                  "busy": placements.spread([each["busy"] for each in runs]),
                  "encoded_here": runs[-1]["encoded_here"], "bytes": runs[-1]["bytes"],
                  "loss_difference": max(abs(a - b) / b for each in runs
                                         for a, b in zip(each["losses"], losses, strict=True))}
            for row, runs in seen.items()}


def main():
    arguments = parse_arguments()
    sizes = pictured_model.Sizes(median_patches=64, max_patches=256) if arguments.quick else pictured_model.Sizes()
    found = {}
    for name in arguments.models:
        bench = Bench(arguments, name, sizes)
        found[name] = measure(bench, arguments)
        print(f"\n### {name}\n\n| row | step s | ratio | starved | encoders busy | encoded by ranks | features MB | loss |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for row, each in found[name].items():
            print(f"| {row} | {placements.show(each['step'], '{:.2f}')} | "
                  f"{placements.show(each['ratio'], '{:.2f}')} | {placements.show(each['starved'], '{:.1%}')} | "
                  f"{placements.show(each['busy'], '{:.0%}')} | "
                  f"{each['encoded_here']:.0f} | {each['bytes'] / 1e6:.1f} | {each['loss_difference']:.0e} |")
    limit = f"{arguments.share} of a core each" if arguments.share else "no other limit"
    print(f"\n{RANKS} processes of one thread, two neighbours bound to a core, {limit}; {arguments.samples} samples "
          f"a step, {arguments.rounds} runs of {arguments.steps} steps; min / median / max, ratios run beside run.")
    output = arguments.output or arguments.work / "flow.json"
    output.write_text(json.dumps({"share": arguments.share, "models": found}, indent=1))
    worst = max(each["loss_difference"] for model in found.values() for each in model.values())
    return f"losses differ by {worst:.1e}" if worst > placements.MAX_LOSS_DIFFERENCE else 0


if __name__ == "__main__":
    sys.exit(main())
