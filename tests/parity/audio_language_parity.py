"""Compares Qwen2-Audio with transformers: logits, loss and every gradient, and both round trips."""

import dataclasses
import itertools
import random

import harness
import round_trips
import torch
import transformers

AUDIO, START, END = 290, 291, 292
VOCAB = 300

# For the table of docs/models.md: what is compared, and of which families.
COVERS = {"forward": ("qwen2_audio",),
          "export": ("qwen2_audio",)}


@dataclasses.dataclass
class Sizes:
    """The settings by which the tiny models differ. Width of a text head: 16."""

    heads: int = 4
    kv_heads: int = 2
    text_layers: int = 2
    audio_layers: int = 2
    audio_heads: int = 2
    head_width: int = 16
    bins: int = 16
    positions: int = 50


def published_name(name):
    """The name in released checkpoints of a parameter of the transformers class."""
    for own, released in (("model.language_model.", "language_model.model."),
                          ("lm_head.", "language_model.lm_head."), ("model.", "")):
        if name.startswith(own):
            return released + name.removeprefix(own)
    return name


def make_model(sizes, seed, lively):
    config = transformers.Qwen2AudioConfig(
        text_config=dict(
            model_type="qwen2", vocab_size=VOCAB, hidden_size=16 * sizes.heads,
            intermediate_size=24 * sizes.heads, num_hidden_layers=sizes.text_layers,
            num_attention_heads=sizes.heads, num_key_value_heads=sizes.kv_heads,
            max_position_embeddings=512, rms_norm_eps=1e-5,
            rope_parameters=dict(rope_type="default", rope_theta=1e4),
            bos_token_id=None, eos_token_id=None),
        audio_config=dict(
            model_type="qwen2_audio_encoder", d_model=sizes.head_width * sizes.audio_heads,
            encoder_layers=sizes.audio_layers, encoder_attention_heads=sizes.audio_heads,
            encoder_ffn_dim=40, num_mel_bins=sizes.bins, max_source_positions=sizes.positions),
        audio_token_index=AUDIO)
    model = transformers.Qwen2AudioForConditionalGeneration._from_config(
        config, attn_implementation="eager")
    return (harness.randomize_lively if lively else harness.randomize)(model, seed)


class Sample:
    """Parts: an int is that many text tokens, (frames,) a sound."""

    def __init__(self, draw, parts, sizes):
        self.ids, self.labels, self.features, self.masks = [], [], [], []
        frames_of_all = 2 * sizes.positions
        for part in parts:
            if isinstance(part, int):
                self.ids += [draw.randrange(280) for _ in range(part)]
                continue
            frames = part[0]
            tokens = ((frames - 1) // 2 + 1 - 2) // 2 + 1
            self.ids += [START, *[AUDIO] * tokens, END]
            # Padding holds numbers too: none of them may show.
            self.features.append(torch.rand(
                sizes.bins, frames_of_all,
                generator=torch.Generator().manual_seed(draw.randrange(2**30))) * 3 - 1)
            self.masks.append([1] * frames + [0] * (frames_of_all - frames))
        self.labels = [-100 if 3 * i < len(self.ids) or token == AUDIO else token
                       for i, token in enumerate(self.ids)]
        self.labels[0] = -100


def media(samples):
    features = [each for sample in samples for each in sample.features]
    masks = [each for sample in samples for each in sample.masks]
    return dict(input_features=torch.stack(features) if features else None,
                feature_attention_mask=torch.tensor(masks) if masks else None)


def fixed_cases():
    """Yields (name, sizes, layout, lists of parts); each meets one edge."""
    yield "two sounds in a sample, GQA 4/2", Sizes(), "packed", [[5, (47,), 9, (62,), 12]]
    yield ("sounds of the greatest and the least length", Sizes(kv_heads=4), "packed",
           [[3, (100,), 8], [4, (99,), 7], [2, (98,), 6], [6, (3,), 5], [6, (4,), 5]])
    yield "odd positions, MQA", Sizes(kv_heads=1), "packed", [[3, (13,), 8, (14,), 7], [4, (17,), 7]]
    yield "samples of text alone between", Sizes(), "packed", [[11], [6, (21,), 7], [2], [3, (8,), 6]]
    yield "right padding", Sizes(bins=20), "right", [[6, (33,), 9], [17], [4, (50,), 12, (7,), 5]]
    yield "left padding", Sizes(positions=40), "left", [[6, (33,), 9], [4, (50,), 12, (80,), 5]]
    yield "text alone", Sizes(), "packed", [[12], [7], [1, 20]]


def random_case(seed):
    draw = random.Random(seed)
    kv_heads = draw.choice([1, 2, 3])
    sizes = Sizes(heads=kv_heads * draw.choice([1, 2, 3]), kv_heads=kv_heads,
                  text_layers=draw.choice([1, 2]), audio_layers=draw.choice([1, 2, 3]),
                  audio_heads=draw.choice([1, 2, 4]), head_width=draw.choice([8, 16, 20]),
                  bins=draw.choice([8, 13, 80]), positions=draw.choice([30, 50, 75]))

    def parts():
        yield draw.randrange(2, 9)
        for _ in range(draw.choice([1, 1, 2, 3])):
            yield (draw.randrange(5, 2 * sizes.positions + 1),)
            yield draw.randrange(1, 9)
        yield draw.randrange(3, 9)

    samples = [list(parts()) for _ in range(draw.randrange(1, 5))]
    return f"random {seed}", sizes, draw.choice(["packed", "packed", "left", "right"]), samples


def make_case(name, sizes, layout, samples):
    draw = random.Random(name)
    model = make_model(sizes, seed=len(name), lively=name.startswith("random"))
    made = [Sample(draw, parts, sizes) for parts in samples]
    inputs = harness.text_of(made, layout) | media(made)
    return harness.Case(f"qwen2_audio: {name}", model, inputs, flat_config=False,
                        published=published_name)


def cases(suite):
    for spec in itertools.chain(fixed_cases(), (random_case(seed) for seed in range(6))):
        suite.parity(make_case(*spec))
    round_trips.check_all(suite, make_case(*next(fixed_cases())))


if __name__ == "__main__":
    harness.run_suite(__doc__, cases, at_least=17, covers=COVERS)
