#!/usr/bin/env python3
"""Step time and start-up of sharded training: `tributary train` and PyTorch's fully_shard (FSDP2).

    bench/train/compare_fsdp2.py build/release/tributary --ranks 2 --runs 5

Both train the same Qwen3 (random weights, fp32) with one thread a rank, PyTorch over Gloo on loopback, on the
same samples of equal length (so that neither pads), one microbatch a rank and step, one unit a
layer, fused AdamW, clipping to norm 1, in alternating runs. The reference is transformers' model,
eager mode, scaled-dot-product attention. Step times are medians after the first steps; the start is
from the launch of the processes to the end of the first step, imports included on both sides.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP_STEPS = 3
WORDS = 24  # of a sample: one token each
PER_RANK = 8  # samples a step


def parse_arguments(text=__doc__):
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("tributary")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5, help="of each side")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--words", type=int, default=WORDS)
    parser.add_argument("--rank-of-reference", help=argparse.SUPPRESS)
    return parser.parse_args()


def model_fields(arguments, vocab):
    return {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
            "hidden_size": arguments.width, "intermediate_size": 3 * arguments.width,
            "num_hidden_layers": arguments.layers, "num_attention_heads": 8,
            "num_key_value_heads": 4, "head_dim": arguments.width // 8, "hidden_act": "silu",
            "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "tie_word_embeddings": False, "vocab_size": vocab, "initializer_range": 0.02,
            "attention_bias": False}


def environment_of(rank, ranks, port):
    return dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")


def launch(commands, ranks):
    """Runs a command on all ranks, or one for each; returns when they started, and what rank 0 wrote."""
    if isinstance(commands[0], str):
        commands = [commands] * ranks
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = time.time()
    reference = {"GLOO_SOCKET_IFNAME": "lo"}  # it would keep Tributary from sharing memory
    processes = [subprocess.Popen(command, env=environment_of(rank, ranks, port) |
                                  (reference if command[0] == sys.executable else {}),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for rank, command in enumerate(commands)]
    outputs = [process.communicate() for process in processes]
    for process, (_, err) in zip(processes, outputs):
        if process.returncode != 0:
            sys.exit(f"{commands[0][0]} failed:\n{err[-2000:]}")
    return start, outputs[0][0]


def write_tokenizer(model, text):
    """Returns the size of the vocabulary."""
    model.mkdir()
    scripts = pathlib.Path(__file__).resolve().parents[2] / "scripts"
    subprocess.run([sys.executable, scripts / "train_tokenizer.py", "--vocab-size", "264", "--output",
                    model, text], check=True, stdout=subprocess.DEVNULL)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    return 1 + max([token["id"] for token in tokenizer["added_tokens"]] +
                   list(tokenizer["model"]["vocab"].values()))


def read_samples(folder):
    """Ids and labels of the chats, as Tributary reads them."""
    import transformers

    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "model/tokenizer.json"))
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    samples = []
    for line in (folder / "train.jsonl").read_text().splitlines():
        ids, labels = [], []
        for turn in json.loads(line)["messages"]:
            head = encode(f"<|im_start|>{turn['role']}\n")
            body = encode(turn["content"] + "<|im_end|>")
            tail = encode("\n")
            ids += head + body + tail
            counts = turn["role"] == "assistant"
            labels += [-100] * len(head) + (body if counts else [-100] * len(body)) + [-100] * len(tail)
        samples.append((ids, labels))
    return samples


def prepare(arguments, folder):
    """A model directory with a tokenizer, and samples whose tokens both sides count alike."""
    rng = random.Random(0)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    chat = lambda text: {"messages": [{"role": "user", "content": "go"},
                                      {"role": "assistant", "content": text}]}
    records = [chat("".join(rng.choice(alphabet) for _ in range(arguments.words)))
               for _ in range(PER_RANK * arguments.ranks * arguments.steps)]
    (folder / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    (folder / "held_out.jsonl").write_text(json.dumps(records[0]) + "\n")
    model = folder / "model"
    vocab = write_tokenizer(model, folder / "held_out.jsonl")
    (model / "config.json").write_text(json.dumps(model_fields(arguments, vocab)))
    return model


def train(arguments, folder, model, run, more=None):
    """Runs `tributary train`; returns when its processes started and the lines of its metrics."""
    config = {"run": {"name": "bench", "dir": str(folder / f"run-{run}"), "steps": arguments.steps,
                      "threads": 1, "seed": 1},
              "model": {"path": str(model)},
              "data": {"sources": [{"name": "all", "path": str(folder / "train.jsonl"),
                                    "held_out": str(folder / "held_out.jsonl")}],
                       "system_prompt": "", "workers": 1},
              "batch": {"global_samples": PER_RANK * arguments.ranks,
                        "capacity_tokens": 1 << 16},
              "optimizer": {"learning_rate": 1e-3, "clip_norm": 1},
              "schedule": {"decay": "constant", "warmup_steps": 0},
              "validation": {"every": 0, "final_samples_per_source": 1, "max_new_tokens": 1},
              "checkpoint": {"every": 1000000}, "metrics": {"peak_flops": 1e12, "tensorboard": False},
              **(more or {})}
    path = folder / f"run-{run}.yaml"
    path.write_text(json.dumps(config))
    process_start, _ = launch([arguments.tributary, "train", str(path)], arguments.ranks)
    return process_start, [json.loads(line) for line in
                           (folder / f"run-{run}" / "metrics.jsonl").read_text().splitlines()]


def run_tributary(arguments, folder, model, run):
    process_start, lines = train(arguments, folder, model, run)
    steps = [sum(line["seconds"].values()) for line in lines]
    started = (folder / f"run-{run}" / "config.yaml").stat().st_mtime - process_start + steps[0]
    return statistics.median(steps[WARM_UP_STEPS:]), started, lines[0]["tokens"]


def reference(arguments, folder):
    """One rank of the reference; run by launch() in a process of its own."""
    import torch
    import torch.distributed as dist
    import transformers
    from torch.distributed.fsdp import fully_shard

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
    samples = read_samples(folder)
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(
        transformers.AutoConfig.from_pretrained(folder / "model")).train()
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    seconds = []
    for step in range(arguments.steps):
        first = step * PER_RANK * ranks + rank * PER_RANK
        batch = samples[first:first + PER_RANK]
        start = time.perf_counter()
        out = model(input_ids=torch.tensor([ids for ids, _ in batch]),
                    labels=torch.tensor([labels for _, labels in batch]), use_cache=False)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        if step == 0:
            first_done = time.time()
    if rank == 0:
        print(json.dumps({"step": statistics.median(seconds[WARM_UP_STEPS:]), "first": first_done,
                          "tokens": sum(len(ids) for ids, _ in samples[:PER_RANK * ranks])}))
    dist.destroy_process_group()


def main():
    arguments = parse_arguments()
    if arguments.rank_of_reference:
        return reference(arguments, pathlib.Path(arguments.rank_of_reference))
    ours, theirs, our_starts, their_starts = [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = prepare(arguments, folder)
        command = [sys.executable, __file__, arguments.tributary, "--steps", str(arguments.steps),
                   "--ranks", str(arguments.ranks), "--rank-of-reference", str(folder)]
        for run in range(arguments.runs):
            step, started, tokens = run_tributary(arguments, folder, model, run)
            launched, out = launch(command, arguments.ranks)
            other = json.loads(out.splitlines()[-1])
            if tokens != other["tokens"]:
                sys.exit(f"not the same tokens: tributary {tokens}, reference {other['tokens']}")
            ours.append(step)
            theirs.append(other["step"])
            our_starts.append(started)
            their_starts.append(other["first"] - launched)
            print(f"run {run + 1}: step {1e3 * step:.0f} ms against {1e3 * other['step']:.0f} ms, "
                  f"start {started:.2f} s against {their_starts[-1]:.2f} s", flush=True)
    for what, mine, other in (("step time", ours, theirs), ("start", our_starts, their_starts)):
        ratios = sorted(a / b for a, b in zip(mine, other))
        print(f"{what:10} ratio  min {ratios[0]:.2f}  median {statistics.median(ratios):.2f}  "
              f"max {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
