"""Simulates each row of a table of measured steps and says how far the simulator is off.

Usage: simulate_rows.py TRIBUTARY CLUSTER.yaml ROWS.csv [--recompute none|full] [--sample N]

The rows are GPT models under Megatron-DeepSpeed: 1F1B, data parallel replicas that sum 16-bit
gradients, attention by products, no sequence parallelism, a tied head over 50,257 tokens
(docs/formats/training_rows.md). Each becomes a plan and a module graph; nothing is fitted here.
"""

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

VOCABULARY = 50257


def whole(row, name):
    return int(row[name])


def model_of(row):
    width = whole(row, "hidden size")
    heads = whole(row, "attention heads")
    ends = {"width": width, "vocab": VOCABULARY}
    block = {"kind": "block", "layers": whole(row, "# layers"), "width": width, "heads": heads,
             "kv_heads": heads, "head_width": width // heads, "mlp_width": 4 * width,
             "mlp_matrices": 2}
    layers = [{"kind": "embedding", **ends}, block, {"kind": "head", "tied": True, **ends}]
    return {"format": "tributary.module_graph/1", "name": "row",
            "modules": {"backbone": {"layers": layers}}, "edges": []}


def stages_of(layers, stages):
    """As many layers on each stage as can be; the first ones have one more."""
    cut = [layers * stage // stages for stage in range(stages + 1)]
    named = [[f"{first}-{end - 1}"] if end > first else [] for first, end in zip(cut, cut[1:])]
    named[0].insert(0, "embed")
    named[-1].append("head")
    return named


def plan_of(row, recompute):
    tp = whole(row, "tensor parallelism")
    dp = whole(row, "data parallelism")
    pp = whole(row, "pipeline parallelism")
    batch = whole(row, "global batch")
    samples = whole(row, "micro batch")
    backbone = {"ranks": f"0-{tp * dp * pp - 1}", "mesh": {"pp": pp, "dp_replicate": dp, "tp": tp},
                "stages": stages_of(whole(row, "# layers"), pp), "recompute": recompute}
    return {"format": "tributary.plan/1", "modules": {"backbone": backbone}, "edges": [],
            "batch": {"global_samples": batch, "microbatches": batch // (samples * dp),
                      "capacity_tokens": samples * whole(row, "sequence length")},
            "model": "model.json"}


def simulate(arguments, row, folder):
    texts = {"plan.json": json.dumps(plan_of(row, arguments.recompute)),
             "model.json": json.dumps(model_of(row)),
             "lengths.csv": f"{whole(row, 'sequence length')},0,0\n"}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    is_cut = whole(row, "tensor parallelism") > 1
    done = subprocess.run(
        [arguments.tributary, "simulate", os.path.join(folder, "plan.json"),
         "--cluster", arguments.cluster, "--lengths", os.path.join(folder, "lengths.csv"),
         "--unfused-attention", *(["--no-sequence-parallel"] if is_cut else []), "--reduce-dtype", "same", "--json"],
        capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{row}: {done.stderr}")
    return json.loads(done.stdout)["step_ns"] * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tributary")
    parser.add_argument("cluster")
    parser.add_argument("rows")
    parser.add_argument("--recompute", choices=["none", "full"], default="none")
    parser.add_argument("--sample", type=int, help="so many rows, drawn; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--print", action="store_true", help="every row")
    arguments = parser.parse_args()
    with open(arguments.rows) as file:
        rows = list(csv.DictReader(file))
    if arguments.sample is not None:
        rows = random.Random(arguments.seed).sample(rows, arguments.sample)
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            measured = float(row["iteration time (ms)"])
            predicted = simulate(arguments, row, folder)
            errors.append(predicted / measured - 1)
            if arguments.print:
                print(f"{measured:10.1f} ms {predicted:10.1f} ms {100 * errors[-1]:6.1f} %  "
                      + " ".join(row.values()))
    sizes = sorted(abs(error) for error in errors)
    print(f"{len(errors)} rows: error mean {100 * statistics.mean(sizes):.1f} %, "
          f"median {100 * statistics.median(sizes):.1f} %, largest {100 * sizes[-1]:.1f} %, "
          f"bias {100 * statistics.mean(errors):+.1f} %")


if __name__ == "__main__":
    main()
