"""No rank holds the whole model while it is loaded: its memory grows by its own shard, and by the
pages of the files that it has read, which are mapped and can be dropped at any time.

usage: load_memory.py LOAD_PROBE
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import numpy
import safetensors.numpy

WIDTH, LAYERS, VOCAB = 512, 12, 8192
MIB = 1 << 20


def write_model(folder):
    """A Qwen3 of about 40 million parameters; returns the bytes of its weights."""
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": WIDTH,
              "intermediate_size": 3 * WIDTH, "num_hidden_layers": LAYERS,
              "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
              "hidden_act": "silu", "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
              "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": VOCAB,
              "initializer_range": 0.02, "attention_bias": False}
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        shapes |= {name + "input_layernorm.weight": (WIDTH,),
                   name + "post_attention_layernorm.weight": (WIDTH,),
                   name + "self_attn.q_norm.weight": (64,), name + "self_attn.k_norm.weight": (64,),
                   name + "self_attn.q_proj.weight": (512, WIDTH),
                   name + "self_attn.k_proj.weight": (256, WIDTH),
                   name + "self_attn.v_proj.weight": (256, WIDTH),
                   name + "self_attn.o_proj.weight": (WIDTH, 512),
                   name + "mlp.gate_proj.weight": (3 * WIDTH, WIDTH),
                   name + "mlp.up_proj.weight": (3 * WIDTH, WIDTH),
                   name + "mlp.down_proj.weight": (WIDTH, 3 * WIDTH)}
    tensors = {name: numpy.zeros(shape, numpy.float32) for name, shape in shapes.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    return sum(tensor.nbytes for tensor in tensors.values())


class LoadMemory(unittest.TestCase):
    def load_on(self, ranks, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = [subprocess.Popen(
            [PROGRAM, str(folder)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                     LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
            for rank in range(ranks)]
        figures = []
        for process in processes:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            figures.append([int(word) for word in out.split()])
        return figures

    def test_every_rank_takes_its_shard_and_little_more(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            whole = write_model(folder)
            for ranks in (1, 2, 4):
                for rank, (grown, shard) in enumerate(self.load_on(ranks, folder)):
                    print(f"{ranks} ranks, rank {rank}: {grown / MIB:.1f} MiB for a shard of "
                          f"{shard / MIB:.1f} of {whole / MIB:.1f} MiB")
                    self.assertLess(shard, 1.02 * whole / ranks)
                    self.assertGreater(grown, shard * 0.9, "the probe measures nothing")
                    self.assertLess(grown, 2 * shard + 16 * MIB)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
