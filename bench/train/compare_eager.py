#!/usr/bin/env python3
"""One process of `tributary train` beside transformers with PyTorch eager on a CPU: tokens a second, memory, start.

    bench/train/compare_eager.py build/release/tributary --threads 2 --runs 3

Both train the same Qwen3 of about 20 million parameters (random weights, fp32) on the same samples with fused
AdamW and clipping to norm 1, in alternating runs, each in a process of its own.

`equal`: samples of one length, one microbatch a step, so that neither side pads. `mixed`: lengths are
log-normal; the reference pads each of two microbatches to its longest sample, as its users do by default, and
Tributary packs. Both read each sample once, in orders of their own. Only tokens of samples are counted, and
both must count the same.

A step's time is the median of the steps after the first ones. `start` is from the start of the process to the
first step, imports included. `memory` is the largest resident set of the process.
"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import compare_fsdp2 as common

WARM_UP_STEPS = 2
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MICROBATCHES = {"equal": 1, "mixed": 2}  # of the reference, in a step
SAMPLES = {"equal": 8, "mixed": 16}  # of a step
TARGETS = {"equal": {"tokens/s": 1.3, "start": 0.1, "memory": 0.7}, "mixed": {"tokens/s": 2.5}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tributary", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--runs", type=int, default=3, help="of each side")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--letters", type=int, default=240, help="of an answer; of `mixed`, twice the median")
    parser.add_argument("--reference", nargs=2, metavar=("FOLDER", "SHAPES"), help=argparse.SUPPRESS)
    return parser.parse_args()


def draw_letters(rng, shapes, letters):
    if shapes == "equal":
        return letters
    return max(4, min(4 * letters, round(letters / 2 * math.exp(rng.gauss(0, 0.9)))))


def prepare(arguments, folder, shapes):
    """A model with a tokenizer, and samples."""
    rng = random.Random(0)
    chat = lambda letters: {"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "".join(rng.choice(LETTERS) for _ in range(letters))}]}
    records = [chat(draw_letters(rng, shapes, arguments.letters))
               for _ in range(SAMPLES[shapes] * arguments.steps)]
    (folder / "train.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    (folder / "held_out.jsonl").write_text(json.dumps(chat(4)) + "\n")
    model = folder / "model"
    vocab = common.write_tokenizer(model, folder / "held_out.jsonl")
    (model / "config.json").write_text(json.dumps(common.model_fields(arguments, vocab)))


def watch(command, environment, first_line_of=None):
    """Runs a process: its output, largest resident set [bytes], and seconds to the first line of a file."""
    started = time.time()
    process = subprocess.Popen([str(word) for word in command], env=os.environ | environment,
                               stdout=subprocess.PIPE, text=True)
    output = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
    reader.start()
    first = None
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if first is None and first_line_of and first_line_of.exists() and first_line_of.stat().st_size:
            first = time.time() - started
        if pid:
            break
        time.sleep(0.005)
    reader.join()
    if status:
        sys.exit(f"failed: {' '.join(map(str, command))}")
    return {"started": started, "output": output[0], "memory": 1024 * usage.ru_maxrss, "first": first}


def run_tributary(arguments, folder, shapes, run):
    path, out = folder / f"run-{run}.yaml", folder / f"run-{run}"
    longest = 4 * arguments.letters + 64
    path.write_text(json.dumps({
        "run": {"dir": str(out), "steps": arguments.steps, "threads": arguments.threads, "seed": 1},
        "model": {"path": str(folder / "model")},
        "data": {"sources": [{"name": "all", "path": str(folder / "train.jsonl"),
                              "held_out": str(folder / "held_out.jsonl")}], "system_prompt": ""},
        "batch": {"global_samples": SAMPLES[shapes], "capacity_tokens": max(longest, 10 * arguments.letters)},
        "optimizer": {"learning_rate": 1e-3, "clip_norm": 1},
        "schedule": {"decay": "constant", "warmup_steps": 0},
        "validation": {"every": 0, "final_samples_per_source": 1, "max_new_tokens": 1},
        "checkpoint": {"every": 1_000_000, "keep_best": False}, "metrics": {"tensorboard": False}}))
    seen = watch([arguments.tributary, "train", path], {}, out / "metrics.jsonl")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    timed = lines[WARM_UP_STEPS:]
    seconds = statistics.median(sum(line["seconds"].values()) / line["tokens"] for line in timed)
    return {"tokens": [line["tokens"] for line in lines], "tokens/s": 1 / seconds,
            "start": seen["first"] - sum(lines[0]["seconds"].values()), "memory": seen["memory"], "mfu": statistics.median(line["mfu"] for line in timed)}


def run_reference(arguments, folder, shapes):
    command = [sys.executable, __file__, arguments.tributary, "--steps", arguments.steps, "--threads",
               arguments.threads, "--reference", folder, shapes]
    seen = watch(command, {"OMP_NUM_THREADS": str(arguments.threads), "HF_HUB_OFFLINE": "1"})
    found = json.loads(seen["output"].splitlines()[-1])
    return found | {"start": found["began"] - seen["started"], "memory": seen["memory"]}


def reference(arguments, folder, shapes):
    """The other side; run_reference starts it in a process of its own."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    samples = common.read_samples(folder)
    model = transformers.Qwen3ForCausalLM(
        transformers.AutoConfig.from_pretrained(folder / "model")).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    seconds, tokens = [], []
    began = time.time()
    for step in range(arguments.steps):
        batch = samples[step * SAMPLES[shapes]:(step + 1) * SAMPLES[shapes]]
        size = len(batch) // MICROBATCHES[shapes]
        targets = sum(label != -100 for _, labels in batch for label in labels)
        start = time.perf_counter()
        for first in range(0, len(batch), size):
            microbatch = batch[first:first + size]
            longest = max(len(ids) for ids, _ in microbatch)
            pad = lambda values, filler: values + [filler] * (longest - len(values))
            model(input_ids=torch.tensor([pad(ids, 0) for ids, _ in microbatch]),
                  attention_mask=torch.tensor([pad([1] * len(ids), 0) for ids, _ in microbatch]),
                  labels=torch.tensor([pad(labels, -100) for _, labels in microbatch]),
                  num_items_in_batch=targets, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        tokens.append(sum(len(ids) for ids, _ in batch))
    of_token = statistics.median(one / count for one, count in list(zip(seconds, tokens))[WARM_UP_STEPS:])
    print(json.dumps({"tokens": tokens, "tokens/s": 1 / of_token, "began": began,
                      "parameters": sum(each.numel() for each in model.parameters())}))


def spread(values, form):
    return " / ".join(form.format(value) for value in (min(values), statistics.median(values), max(values)))


def measure(arguments, shapes):
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(arguments, folder, shapes)
        for run in range(arguments.runs):
            ours.append(run_tributary(arguments, folder, shapes, run))
            theirs.append(run_reference(arguments, folder, shapes))
            if sum(ours[-1]["tokens"]) != sum(theirs[-1]["tokens"]):
                sys.exit(f"not the same tokens: tributary {ours[-1]['tokens']}, reference {theirs[-1]['tokens']}")
    print(f"\n{shapes}: {theirs[0]['parameters']} parameters, {statistics.mean(ours[0]['tokens']):.0f} tokens a "
          f"step, {arguments.threads} threads; MFU of tributary {spread([each['mfu'] for each in ours], '{:.2f}')}\n")
    print("| | tributary | transformers | ratio, run by run | target |\n| --- | --- | --- | --- | --- |")
    for key, form, scale in (("tokens/s", "{:.0f}", 1), ("start", "{:.2f}", 1), ("memory", "{:.0f}", 1e-6)):
        sides = [[each[key] * scale for each in side] for side in (ours, theirs)]
        ratios = [mine / other for mine, other in zip(*sides)]
        unit = {"tokens/s": "", "start": " s", "memory": " MB"}[key]
        print(f"| {key}{unit} | {spread(sides[0], form)} | {spread(sides[1], form)} | {spread(ratios, '{:.2f}')} | "
              f"{TARGETS[shapes].get(key, '-')} |", flush=True)


def main():
    arguments = parse_arguments()
    if arguments.reference:
        return reference(arguments, pathlib.Path(arguments.reference[0]), arguments.reference[1])
    for shapes in TARGETS:
        measure(arguments, shapes)


if __name__ == "__main__":
    main()
