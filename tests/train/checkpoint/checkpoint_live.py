"""Reads checkpoints and their exports with other people's software, and runs the verb `checkpoint`.

Usage: checkpoint_live.py PROBE TRIBUTARY
For a tiny Qwen2 and a tiny Qwen2.5-VL: the shards open in safetensors and in PyTorch's
HuggingFaceStorageReader; the export loads in transformers with no missing or unexpected key and
equal tensors; damage ends with exit code 4 and the file.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
)

probe, tributary = sys.argv[1:3]
SHARD = "shard-00001-model-00001-of-00001.safetensors"


def run(*words, code=0):
    """Runs the program and returns what it printed."""
    done = subprocess.run([tributary, "checkpoint", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def tiny_text():
    return Qwen2ForCausalLM(Qwen2Config(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=100, tie_word_embeddings=True))


def tiny_vision():
    return Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(
        text_config=dict(
            hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=200,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}),
        vision_config=dict(
            depth=2, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=32,
            fullatt_block_indexes=[1]),
        image_token_id=190, video_token_id=191, vision_start_token_id=192, vision_end_token_id=193))


def check(make, directory):
    model_directory, run_directory, exported = (directory / n for n in ("model", "run", "exported"))
    model = make()
    model.save_pretrained(model_directory)
    (model_directory / "tokenizer_config.json").write_text("{}\n")
    (model_directory / "notes.txt").write_text("not for export\n")
    subprocess.run([probe, model_directory, run_directory], check=True)
    step = run_directory / "checkpoints/step-7"
    stored = load_file(model_directory / "model.safetensors")

    shard = load_file(step / "model" / SHARD)
    assert shard.keys() == stored.keys()
    assert all(torch.equal(shard[name], stored[name]) for name in stored)
    moments = load_file(step / "optim" / SHARD)
    assert {f"exp_avg.{name}" for name in stored} < moments.keys()

    read = {name: torch.zeros_like(tensor) for name, tensor in stored.items()}
    dcp.load(read, storage_reader=dcp.HuggingFaceStorageReader(str(step / "model")), no_dist=True)
    assert all(torch.equal(read[name], stored[name]) for name in stored)

    facts = json.loads(run("inspect", run_directory, "--json"))
    assert facts["step"] == 7 and facts["steps"] == [7] and facts["score"] == "0.75", facts
    assert facts["state"]["loader"]["next_index"] == 224
    assert facts["parameters"] == sum(tensor.numel() for tensor in stored.values())
    assert len(facts["tensors"]) == 3 * len(stored) + 1
    listing = run("inspect", step)
    assert "model/model.norm.weight  F32 [32]  128 bytes" in listing, listing
    weights = json.loads(run("inspect", model_directory, "--json"))
    assert weights["kind"] == "weights" and weights["parameters"] == facts["parameters"]
    assert run("inspect", model_directory / "model.safetensors").startswith("weights ")
    assert "every block of 4 files is right" in run("verify", run_directory)

    run("export", run_directory, "-o", exported)
    assert sorted(path.name for path in exported.iterdir()) == sorted(
        path.name for path in model_directory.iterdir() if path.name != "notes.txt")
    loaded, info = type(model).from_pretrained(exported, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    expected = model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.state_dict().items())

    assert "the directory exists already" in run("export", step, "-o", exported, code=2)
    assert "has no config.json" in run(
        "export", step, "-o", directory / "other", "--model", directory, code=2)
    assert not (directory / "other").exists()
    assert "none in the directory" in run("verify", directory, code=2)
    assert "no such directory" in run("inspect", directory / "nothing", code=2)

    path = step / "optim" / SHARD
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)
    words = run("verify", run_directory, code=4)
    assert "input error: checkpoint: block checksum differs" in words and str(path) in words, words
    assert "tensor optim/exp_avg." in words, words
    run("export", step, "-o", directory / "again")  # touches only the model
    path.write_bytes(content[:-1])
    assert "file has another size" in run("export", step, "-o", directory / "third", code=4)


for make in (tiny_text, tiny_vision):
    with tempfile.TemporaryDirectory() as name:
        check(make, Path(name))
    print(make.__name__, "is read back by safetensors, PyTorch and transformers")
