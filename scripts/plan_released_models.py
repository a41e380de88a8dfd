"""Plans released models on H100s, simulates each written plan, and prints a table of the answers.

usage: plan_released_models.py TRIBUTARY [DEVICES ...]

Exits 1 when a plan does not fit in memory, or simulates to another step time than was planned.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLUSTER = ROOT / "configs/clusters/h100_8.yaml"
MODELS = {"Qwen2.5-VL-7B": "models/qwen2_5_vl_7b", "Qwen3-VL-30B-A3B": "qwen3_vl_30b_a3b",
          "Qwen3-30B-A3B": "qwen3_30b_a3b", "Qwen2.5-Omni-7B": "models/qwen2_5_omni_7b"}
DEVICES = (16, 64, 1024)
BATCHES = 8
NEAR = 0.02  # tolerance when only the first batches were simulated and the others scaled


def run(*words):
    return json.loads(subprocess.run([*map(str, words), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)


def plan_and_simulate(tributary, model, devices, folder):
    """Returns the answer of `plan`, and that of `simulate` about the plan that it wrote."""
    output = folder / "plan.json"
    answer = run(tributary, "plan", ROOT / "configs" / model, "--cluster", CLUSTER, "--devices", devices,
                 "--global-samples", max(512, 2 * devices), "--batches", BATCHES, "-o", output)
    return answer, run(tributary, "simulate", output, "--cluster", CLUSTER, "--steps", BATCHES)


def problems_of(best, simulated):
    if simulated["out_of_memory"]:
        yield f"does not fit: {simulated['out_of_memory']}"
    if not best["trains"] and not best["refusal"]:
        yield "is refused without a reason"
    ratio = 1e-9 * simulated["distribution_ns"]["mean"] / best["step_s"]
    if abs(ratio - 1) > (1e-6 if best["simulated_batches"] == BATCHES else NEAR):
        yield f"simulates to {ratio:.4f} of the planned step"


def main():
    tributary, devices = sys.argv[1], [int(word) for word in sys.argv[2:]] or DEVICES
    print("| model | H100 | search | step | gap | tokens/s | MFU | fullest device | plan | `train` |")
    print("| --- |" + " --- |" * 9)
    wrong = []
    for name, model in MODELS.items():
        for count in devices:
            with tempfile.TemporaryDirectory() as folder:
                answer, simulated = plan_and_simulate(tributary, model, count, pathlib.Path(folder))
            best = answer["plans"][0]
            wrong += [f"{name} on {count}: {problem}" for problem in problems_of(best, simulated)]
            print(f"| {name} | {count} | {answer['milliseconds'] / 1e3:.1f} s | {best['step_s']:.3f} s "
                  f"| {100 * answer['gap']:.1f} % | {best['tokens_per_s'] / 1e6:.2f} M | {100 * best['mfu']:.1f} % "
                  f"| {best['peak_bytes'] / 2 ** 30:.1f} GiB | {best['plan']} "
                  f"| {'runs it' if best['trains'] else best['refusal']} |", flush=True)
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
