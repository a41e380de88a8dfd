"""Sets plans that a person wrote beside the answer of the search, on the same batches.

The hand plans are data-parallel over all devices and recompute the modules differently; a review found them faster
than what the search answered then.

usage: beside_hand.py TRIBUTARY
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "configs/clusters/h100_8.yaml"
MODEL = ROOT / "configs/models/qwen2_5_vl_7b"
BATCHES = 8
# devices: samples of a step, recompute of the backbone, of the encoder, microbatches
HAND = {8: (256, "selective", "none", 12), 16: (256, "none", "full", 8), 32: (256, "none", "full", 4),
        64: (512, "none", "full", 4)}
AMPLE = 1 << 20  # tokens of a microbatch: packing is level


def run(*words):
    return json.loads(subprocess.run([*map(str, words), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)


def simulate(tributary, plan):
    answer = run(tributary, "simulate", plan, "--cluster", CLUSTER, "--steps", BATCHES)
    if answer["out_of_memory"]:
        raise SystemExit(f"{plan}: {answer['out_of_memory']}")
    return answer["distribution_ns"]["mean"] / 1e9


def hand_plan(found, backbone, encoder, microbatches, devices):
    plan = json.loads(found.read_text())
    modules = plan["modules"]
    degrees = {"pp": 1, "dp_replicate": 1, "dp_shard": devices, "cp": 1, "ulysses": 1, "tp": 1, "ep": 1}
    modules["backbone"] |= {"ranks": f"0-{devices - 1}", "mesh": degrees, "schedule": "1f1b", "recompute": backbone}
    modules["backbone"].pop("stages", None)
    modules["vision"] = {"placement": "inline", "recompute": encoder}
    plan["batch"] |= {"microbatches": microbatches, "capacity_tokens": AMPLE}
    del plan["predicted"]
    return plan


def main():
    tributary = sys.argv[1]
    print("| H100 | the search | by hand | search / hand |\n| --- | --- | --- | --- |")
    for devices, (samples, backbone, encoder, microbatches) in HAND.items():
        with tempfile.TemporaryDirectory() as name:
            found, hand = pathlib.Path(name, "found.json"), pathlib.Path(name, "hand.json")
            run(tributary, "plan", MODEL, "--cluster", CLUSTER, "--devices", devices, "--global-samples", samples,
                "--batches", BATCHES, "-o", found)
            hand.write_text(json.dumps(hand_plan(found, backbone, encoder, microbatches, devices)))
            steps = simulate(tributary, found), simulate(tributary, hand)
        print(f"| {devices} | {steps[0]:.3f} s | {steps[1]:.3f} s, backbone {backbone}, encoder {encoder}, "
              f"{microbatches} microbatches | {steps[0] / steps[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
