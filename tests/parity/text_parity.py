"""Compares Qwen2, Qwen3 and Llama 3 with transformers: logits, loss and every gradient, and round trips."""

import dataclasses
import random

import harness
import round_trips
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCAB = 300

# For the table of docs/models.md: what is compared, and of which families.
COVERS = {"forward": ("qwen2", "qwen3", "llama"),
          "export": ("qwen2", "qwen3", "llama")}


@dataclasses.dataclass
class Sizes:
    """The settings by which the tiny models differ."""

    heads: int = 4
    kv_heads: int = 2
    head_width: int = 16
    width: int = 64
    mlp: int = 96
    layers: int = 2
    tied: bool = False
    theta: float = 1e6
    epsilon: float = 1e-6
    scaled: bool = False  # the rope of Llama 3.1


def make_model(family, sizes, seed):
    common = dict(
        vocab_size=VOCAB, hidden_size=sizes.width, intermediate_size=sizes.mlp,
        num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads, max_position_embeddings=512,
        rms_norm_eps=sizes.epsilon, tie_word_embeddings=sizes.tied,
        rope_parameters=dict(rope_type="default", rope_theta=sizes.theta),
        bos_token_id=None, eos_token_id=None)
    if family == "llama":
        if sizes.scaled:  # small enough for all three bands of frequencies to occur
            common["rope_parameters"] = dict(
                rope_type="llama3", rope_theta=sizes.theta, factor=8.0, low_freq_factor=1.0,
                high_freq_factor=4.0, original_max_position_embeddings=64)
        config, kind = LlamaConfig(**common, head_dim=sizes.head_width), LlamaForCausalLM
    elif family == "qwen2":
        config, kind = Qwen2Config(**common), Qwen2ForCausalLM
        assert sizes.head_width * sizes.heads == sizes.width
    else:
        config, kind = Qwen3Config(**common, head_dim=sizes.head_width), Qwen3ForCausalLM
    model = kind._from_config(config, attn_implementation="eager")
    model.tie_weights()
    return harness.randomize(model, seed)


def make_sample(draw, length):
    ids = [draw.randrange(VOCAB) for _ in range(length)]
    labels = [-100 if 3 * i < length else token for i, token in enumerate(ids)]
    labels[0] = -100  # the first token of a sample is never a target
    return ids, labels


def fixed_cases(family):
    """Yields (name, sizes, layout, lengths by row); each meets one edge."""
    qwen3 = family == "qwen3"
    yield "GQA 4/2, packed", Sizes(), "packed", [[9, 1, 17, 30]]
    yield "MHA, tied, right padding", Sizes(kv_heads=4, tied=True), "right", [[9], [23], [4]]
    yield ("MQA 8/1, left padding, theta 1e4",
           Sizes(heads=8, kv_heads=1, head_width=8 if not qwen3 else 32, theta=1e4), "left",
           [[12], [5], [31]])
    yield ("GQA 6/3, two packed rows, epsilon 1e-5",
           Sizes(heads=6, kv_heads=3, width=96, head_width=16 if not qwen3 else 10, epsilon=1e-5),
           "packed", [[6, 14, 3], [20, 2, 1]])
    yield ("one layer, tied, long sample", Sizes(layers=1, tied=True, mlp=40), "packed", [[160, 70]])
    yield "one row, nothing given", Sizes(layers=3), "plain", [[40]]
    if family == "llama":
        yield "scaled rope, packed", Sizes(theta=1e4, scaled=True), "packed", [[300, 40]]
        yield "scaled rope, right padding", Sizes(theta=5e5, scaled=True), "right", [[90], [7]]


def random_case(seed):
    draw = random.Random(seed)
    kv_heads = draw.choice([1, 2, 3])
    heads = kv_heads * draw.choice([1, 2, 3])
    head_width = draw.choice([8, 12, 16])
    sizes = Sizes(heads=heads, kv_heads=kv_heads, head_width=head_width, width=heads * head_width,
                  mlp=draw.choice([40, 72, 100]), layers=draw.choice([1, 2, 3]),
                  tied=draw.random() < 0.5, theta=draw.choice([1e4, 5e5, 1e6]),
                  epsilon=draw.choice([1e-6, 1e-5]))
    layout = draw.choice(["packed", "left", "right"])
    count = draw.randrange(2, 5)
    lengths = [draw.randrange(2, 40) for _ in range(count)]
    return f"random {seed}", sizes, layout, [lengths] if layout == "packed" else [[n] for n in lengths]


def make_case(family, name, sizes, layout, lengths):
    draw = random.Random(name)
    model = make_model(family, sizes, seed=len(name))
    rows = [[make_sample(draw, length) for length in row] for row in lengths]
    if layout == "packed":
        inputs = harness.packed(rows)
    elif layout == "plain":
        inputs = dict(harness.packed(rows), position_ids=None)
    else:
        inputs = harness.padded([row[0] for row in rows], left=layout == "left")
    return harness.Case(f"{family}: {name}", model, inputs)


def check_round_trips(suite, case):
    saves = round_trips.TheirSaves(suite, case)
    saves.check()

    def nested_config():
        harness.publish(dataclasses.replace(case, flat_config=False), saves.base / "nested")
        return saves.compare(saves.base / "nested")

    suite.check(f"{case.name}: config.json of transformers 5.x", nested_config)
    round_trips.check_export(suite, case, AutoModelForCausalLM, "auto", stale_type=True)


def cases(suite):
    for family in COVERS["forward"]:
        everything = [*fixed_cases(family), *(random_case(seed) for seed in range(6))]
        for spec in everything:
            suite.parity(make_case(family, *spec))
        for spec in everything[:2]:  # untied and tied
            check_round_trips(suite, make_case(family, *spec))


if __name__ == "__main__":
    harness.run_suite(__doc__, cases, at_least=62, covers=COVERS)
