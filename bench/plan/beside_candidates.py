"""Plans drawn models with the default search and with other numbers of --candidates, and simulates the default's
plan: is the list long enough, and is the plan worth what the search says?

usage: beside_candidates.py TRIBUTARY [--problems N] [--candidates N ...]
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile

CLUSTERS = pathlib.Path(__file__).resolve().parents[2] / "configs/clusters"
VISION = [(1152, 26, 4304), (1280, 32, 3420), (1024, 24, 4096)]  # width, layers, width of the MLP
BACKBONE = [(3584, 28, 28, 4, 18944, 152064), (2048, 16, 16, 2, 11008, 151936),
            (8192, 24, 64, 8, 28672, 152064), (4096, 32, 32, 8, 14336, 128256)]
BATCHES = 8  # that `plan` judges with


def write_model(folder, vision, backbone):
    folder.mkdir()
    width, layers, heads, kv_heads, mlp, vocab = backbone
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llava_onevision",
        "vision_config": {"hidden_size": vision[0], "num_hidden_layers": vision[1], "num_attention_heads": 16,
                          "intermediate_size": vision[2], "patch_size": 14},
        "text_config": {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
                        "num_key_value_heads": kv_heads, "intermediate_size": mlp, "vocab_size": vocab}}))


def answer(program, *words):
    """The verb's JSON; none where nothing fits."""
    done = subprocess.run([program, *map(str, words), "--json"], capture_output=True, text=True, check=False)
    if done.returncode == 5:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def run_problem(program, seed, folder, candidates):
    draw = random.Random(seed)
    model, plan = folder / f"model-{seed}", folder / f"plan-{seed}.json"
    write_model(model, draw.choice(VISION), draw.choice(BACKBONE))
    cluster = CLUSTERS / f"{draw.choice(['a100_8', 'ethernet', 'h100_8'])}.yaml"
    words = ["plan", model, "--cluster", cluster, "--devices", draw.choice([4, 8, 16, 32]),
             "--global-samples", draw.choice([64, 128, 256, 512])]
    if draw.random() < 0.4:
        words += ["--freeze", "vision"]
    found = answer(program, *words, "-o", plan)
    if found is None:
        return None
    simulated = answer(program, "simulate", plan, "--cluster", cluster, "--steps", BATCHES)
    best = found["plans"][0]
    others = [answer(program, *words, "--candidates", each)["plans"][0]["step_s"] for each in candidates]
    return {"listed": [best["step_s"] / each for each in others],
            "simulated": 1e-9 * simulated["distribution_ns"]["mean"] / best["step_s"],
            "in_full": best["simulated_batches"] == BATCHES,
            "fits": simulated["out_of_memory"] == ""}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--candidates", type=int, nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [run_problem(options.program, seed, pathlib.Path(folder), options.candidates)
                 for seed in range(options.problems)]
    found = [each for each in found if each]
    for place, candidates in enumerate(options.candidates):
        ratios = sorted(each["listed"][place] for each in found)
        print(f"default / {candidates} candidates: least {ratios[0]:.3f}, mean {sum(ratios) / len(ratios):.4f}, "
              f"most {ratios[-1]:.3f}; faster by 1 % on {sum(each < 0.99 for each in ratios)}, "
              f"slower by 1 % on {sum(each > 1.01 for each in ratios)}")
    full = [each["simulated"] for each in found if each["in_full"]]
    rest = [each["simulated"] for each in found if not each["in_full"]]
    print(f"{len(found)} of {options.problems} problems have plans")
    print(f"simulate / search, all batches simulated ({len(full)}): {min(full):.6f} to {max(full):.6f}")
    if rest:
        print(f"simulate / search, some batches simulated ({len(rest)}): {min(rest):.3f} to {max(rest):.3f}")
    print(f"plans that do not fit when simulated: {sum(not each['fits'] for each in found)}")


main()
