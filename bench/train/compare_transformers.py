#!/usr/bin/env python3
"""Tokens a second of `tributary train` and of transformers with PyTorch, on the same samples.

    bench/train/compare_transformers.py build/release/tributary configs/demo.yaml --threads 1

Both train the same model (random weights) on the same records with the same global batch, optimizer
(fused AdamW), clipping and thread count, in alternating runs: in fp32 on a CPU; with `--device cuda`
in bf16 with fp32 masters, which in transformers means autocast. The records are drawn from
the configuration's sources by their weights and read exactly once, so both must count the same
tokens; if they do not, the program stops. Sources with clips are left out.

tributary: `tokens / seconds` of its metrics; reading, decoding and packing included.
transformers: eager mode, scaled-dot-product attention; every global batch is padded to its longest
sample and cut into as many microbatches as tributary uses on average. Images are decoded and
processed before the clock starts: that part is a gift. Padding is computed but not counted.
The first steps of a run are left out on both sides.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP_STEPS = 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tributary")
    parser.add_argument("config", help="a run's YAML file; paths in it mean the current directory")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5, help="of each side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--log", help="file for what tributary prints")
    return parser.parse_args()


def resolved_config(arguments):
    """The configuration with every default, as tributary itself prints it."""
    import yaml

    text = subprocess.run([arguments.tributary, "config", arguments.config], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    config = yaml.safe_load(text)
    for key in ("epsilon", "learning_rate"):  # 1e-08 is text to YAML 1.1
        config["optimizer"][key] = float(config["optimizer"][key])
    return config


def draw_records(config, count, rng):
    """Draws records of the mixture, images named by absolute path."""
    pools = []
    for source in config["data"]["sources"]:
        path = pathlib.Path(source["path"]).resolve()
        root = pathlib.Path(source["images"] or path.parent).resolve()
        lines = path.read_text().splitlines()
        if '"video"' in lines[0]:
            print(f"left out (clips): {source['name']}")
            continue
        rng.shuffle(lines)
        pools.append((source["weight"], root, iter(lines)))
    records = []
    while len(records) < count:
        _, root, lines = rng.choices(pools, [pool[0] for pool in pools])[0]
        record = json.loads(next(lines))
        for turn in record["messages"]:
            for part in turn["content"] if isinstance(turn["content"], list) else []:
                if part["type"] == "image":
                    part["image"] = str(root / part["image"])
        records.append(record)
    return records


def run_tributary(arguments, config, records, folder):
    """Trains one epoch of the records; returns tokens, tokens/s, microbatches a step, losses."""
    data = folder / "records.jsonl"
    images = pathlib.Path("/")
    relative = json.loads(json.dumps(records))
    for record in relative:
        for turn in record["messages"]:
            for part in turn["content"] if isinstance(turn["content"], list) else []:
                if part["type"] == "image":
                    part["image"] = str(pathlib.Path(part["image"]).relative_to(images))
    data.write_text("".join(json.dumps(record) + "\n" for record in relative))
    (folder / "held_out.jsonl").write_text(json.dumps(relative[0]) + "\n")  # every run wants one
    run = folder / "run"
    changed = json.loads(json.dumps(config))
    changed["data"]["sources"] = [
        {"name": "all", "path": str(data), "held_out": str(folder / "held_out.jsonl"),
         "images": str(images)}]
    changed["run"].update(dir=str(run), steps=arguments.steps, threads=arguments.threads)
    if arguments.device == "cuda":
        changed["run"]["device"] = "cuda"
        changed["model"]["dtype"] = "bfloat16"
    changed["validation"].update(every=0, blind=False, final_samples_per_source=1)
    changed["schedule"].update(decay="constant", warmup_steps=0, decay_steps=0, final_ratio=0)
    changed["checkpoint"].update(every=1_000_000)
    if arguments.device == "cpu":
        changed["metrics"].update(peak_flops=1e12)
    (folder / "run.yaml").write_text(json.dumps(changed))
    with open(arguments.log or os.devnull, "w") as log:
        subprocess.run([arguments.tributary, "train", folder / "run.yaml"], check=True, stdout=log)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    subprocess.run(["rm", "-r", run], check=True)
    timed = lines[WARM_UP_STEPS:]
    seconds = sum(sum(line["seconds"].values()) for line in timed)
    return {
        "tokens": sum(line["tokens"] for line in lines),
        "speed": sum(line["tokens"] for line in timed) / seconds,
        "microbatches": round(statistics.mean(line["microbatches"] for line in lines)),
        "losses": (lines[0]["loss"], lines[-1]["loss"]),
        "peak": max(line["bytes"] for line in lines),
        "mfu": statistics.median(line["mfu_causal"] for line in timed),
    }


class TransformersSide:
    """The reference: the records as padded batches, and the training loop."""

    def __init__(self, config, records, device):
        import PIL.Image
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        self.torch, self.transformers, self.config = torch, transformers, config
        self.device = device
        path = config["model"]["path"]
        self.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=path + "/tokenizer.json")
        images = transformers.AutoImageProcessor.from_pretrained(
            path, min_pixels=config["data"]["min_pixels"], max_pixels=config["data"]["max_pixels"])
        self.samples = [self.encode(record, images, PIL.Image) for record in records]

    def encode(self, record, processor, pictures):
        """ids, labels, pixel rows and grids of one chat, as the configuration asks for it."""
        encode = lambda text: self.tokenizer(text, add_special_tokens=False)["input_ids"]
        system = self.config["data"]["system_prompt"]
        prompt = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
        ids, labels, rows, grids = encode(prompt), [-100] * len(encode(prompt)), [], []

        def add(text, counts):
            new = encode(text)
            ids.extend(new)
            labels.extend(new if counts else [-100] * len(new))

        for turn in record["messages"]:
            counts = turn["role"] == "assistant"
            add(f"<|im_start|>{turn['role']}\n", False)
            content = turn["content"]
            text = ""
            for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
                if part["type"] == "text":
                    text += part["text"]
                    continue
                with pictures.open(part["image"]) as picture:
                    done = processor(picture.convert("RGB"), return_tensors="pt")
                rows.append(done["pixel_values"])
                grids.append(done["image_grid_thw"])
                merged = int(grids[-1].prod()) // 4
                text += "<|vision_start|>" + "<|image_pad|>" * merged + "<|vision_end|>"
            add(text + "<|im_end|>", counts)
            add("\n", counts and self.config["data"]["train_on_newline"])
        return ids, labels, rows, grids

    def collate(self, samples):
        torch = self.torch
        longest = max(len(ids) for ids, *_ in samples)
        pad = lambda values, filler: values + [filler] * (longest - len(values))
        batch = {
            "input_ids": torch.tensor([pad(ids, 0) for ids, *_ in samples]),
            "attention_mask": torch.tensor([pad([1] * len(ids), 0) for ids, *_ in samples]),
            "labels": torch.tensor([pad(labels, -100) for _, labels, *_ in samples]),
        }
        rows = [row for _, _, rows, _ in samples for row in rows]
        if rows:
            batch["pixel_values"] = torch.cat(rows)
            batch["image_grid_thw"] = torch.cat([grid for *_, grids in samples for grid in grids])
        image_pad = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        batch["mm_token_type_ids"] = (batch["input_ids"] == image_pad).int()
        return batch

    def run(self, steps, microbatches, threads):
        torch = self.torch
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        optimizer_section = self.config["optimizer"]
        model_config = self.transformers.AutoConfig.from_pretrained(self.config["model"]["path"])
        with torch.device(self.device):
            model = self.transformers.Qwen2_5_VLForConditionalGeneration(model_config).train()
        precision = torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda")
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=optimizer_section["learning_rate"], fused=True,
            betas=(optimizer_section["beta1"], optimizer_section["beta2"]),
            weight_decay=optimizer_section["weight_decay"])
        size = len(self.samples) // steps
        tokens = timed_tokens = 0
        seconds = 0.0
        for step in range(steps):
            samples = self.samples[step * size:(step + 1) * size]
            targets = sum(label != -100 for _, labels, *_ in samples for label in labels)
            start = time.perf_counter()
            for i in range(microbatches):
                batch = self.collate(samples[i * size // microbatches:(i + 1) * size // microbatches])
                batch = {name: value.to(self.device) for name, value in batch.items()}
                with precision:
                    loss = model(**batch, use_cache=False, num_items_in_batch=targets).loss
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer_section["clip_norm"])
            optimizer.step()
            optimizer.zero_grad()
            if self.device == "cuda":
                torch.cuda.synchronize()
            counted = sum(len(ids) for ids, *_ in samples)
            tokens += counted
            if step >= WARM_UP_STEPS:
                seconds += time.perf_counter() - start
                timed_tokens += counted
        peak = torch.cuda.max_memory_allocated() if self.device == "cuda" else 0
        del model, optimizer, batch, loss
        if self.device == "cuda":  # the other side needs the memory
            torch.cuda.empty_cache()
        return {"tokens": tokens, "speed": timed_tokens / seconds, "peak": peak}


def summary(name, values):
    print(f"{name:12} tokens/s  min {min(values):8.0f}  median {statistics.median(values):8.0f}"
          f"  max {max(values):8.0f}")


def main():
    arguments = parse_arguments()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    config = resolved_config(arguments)
    samples = config["batch"]["global_samples"]
    records = draw_records(config, samples * arguments.steps, random.Random(arguments.seed))
    theirs_side = TransformersSide(config, records, arguments.device)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(arguments.runs):
            mine = run_tributary(arguments, config, records, pathlib.Path(folder))
            other = theirs_side.run(arguments.steps, mine["microbatches"], arguments.threads)
            if mine["tokens"] != other["tokens"]:
                sys.exit(f"not the same tokens: tributary {mine['tokens']}, "
                         f"transformers {other['tokens']}")
            ours.append(mine["speed"])
            theirs.append(other["speed"])
            print(f"run {run + 1}: tributary {mine['speed']:.0f} (loss {mine['losses'][0]:.4f} to "
                  f"{mine['losses'][1]:.4f}, MFU {mine['mfu']:.3f}, peak {mine['peak'] / 1e9:.1f} GB), "
                  f"transformers {other['speed']:.0f} (peak {other['peak'] / 1e9:.1f} GB), "
                  f"ratio {mine['speed'] / other['speed']:.2f}", flush=True)
    print(f"{arguments.config}: {arguments.steps} steps of {samples} samples, "
          f"{arguments.threads} thread(s), {mine['microbatches']} microbatches a step")
    summary("tributary", ours)
    summary("transformers", theirs)
    ratios = [mine / other for mine, other in zip(ours, theirs)]
    print(f"ratio        min {min(ratios):.2f}  median {statistics.median(ratios):.2f}  "
          f"max {max(ratios):.2f}")


if __name__ == "__main__":
    main()
