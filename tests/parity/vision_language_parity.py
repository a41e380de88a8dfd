"""Compares the Qwen-VL families with transformers: logits, loss and every gradient, and both round
trips."""

import dataclasses
import random

import harness
import round_trips
import torch
import transformers

IMAGE, VIDEO, START, END = 290, 291, 292, 293
VOCAB = 300

# For the table of docs/models.md: what is compared, and of which families.
COVERS = {"forward": ("qwen2_vl", "qwen2_5_vl", "qwen3_vl"),
          "export": ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")}


@dataclasses.dataclass
class Sizes:
    """The settings by which the tiny models differ. Head widths: text 16, vision 16."""

    family: str = "qwen2_5_vl"

    heads: int = 4
    kv_heads: int = 2
    tied: bool = False
    text_layers: int = 2
    vision_layers: int = 2
    full: tuple = (1,)
    patch: int = 14
    window: int = 112
    vision_heads: int = 2
    section: tuple = (2, 3, 3)
    tokens_per_second: int = 2
    deepstack: tuple = (0,)
    positions: int = 25

    def split_clips(self):
        """Qwen3-VL says the time of each frame, so that frames stand apart in the text."""
        return self.family == "qwen3_vl"


CLASSES = {
    "qwen2_vl": (transformers.Qwen2VLConfig, transformers.Qwen2VLForConditionalGeneration),
    "qwen2_5_vl": (transformers.Qwen2_5_VLConfig, transformers.Qwen2_5_VLForConditionalGeneration),
    "qwen3_vl": (transformers.Qwen3VLConfig, transformers.Qwen3VLForConditionalGeneration),
}


def vision_config(sizes):
    width, out = 16 * sizes.vision_heads, 16 * sizes.heads
    common = dict(depth=sizes.vision_layers, num_heads=sizes.vision_heads, patch_size=sizes.patch)
    if sizes.family == "qwen2_vl":
        return dict(common, embed_dim=width, hidden_size=out, mlp_ratio=3)
    common.update(hidden_size=width, intermediate_size=40, out_hidden_size=out)
    if sizes.family == "qwen3_vl":
        levels = [level for level in sizes.deepstack if level < sizes.vision_layers]
        return dict(common, deepstack_visual_indexes=levels[:sizes.text_layers],
                    num_position_embeddings=sizes.positions)
    return dict(common, window_size=sizes.window, fullatt_block_indexes=list(sizes.full),
                tokens_per_second=sizes.tokens_per_second)


def make_model(sizes, seed, lively):
    config_class, model_class = CLASSES[sizes.family]
    extra = dict(head_dim=16) if sizes.family == "qwen3_vl" else {}
    config = config_class(
        text_config=dict(
            vocab_size=VOCAB, hidden_size=16 * sizes.heads, intermediate_size=24 * sizes.heads,
            num_hidden_layers=sizes.text_layers, num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads, max_position_embeddings=512, rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=1e6,
                                 mrope_section=list(sizes.section)),
            bos_token_id=None, eos_token_id=None, **extra),
        vision_config=vision_config(sizes),
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START,
        vision_end_token_id=END, tie_word_embeddings=sizes.tied)
    model = model_class._from_config(config, attn_implementation="eager")
    model.tie_weights()
    return (harness.randomize_lively if lively else harness.randomize)(model, seed)


class Sample:
    """Parts: an int is that many text tokens, (h, w) an image, (t, h, w, seconds) a clip."""

    def __init__(self, draw, parts, sizes):
        self.ids, self.types, self.images, self.videos, self.seconds = [], [], [], [], []
        self.pixels, self.video_pixels = [], []
        for part in parts:
            if isinstance(part, int):
                self.add([draw.randrange(280) for _ in range(part)], 0)
                continue
            is_video = len(part) == 4
            grid = part[:3] if is_video else (1, *part)
            (self.videos if is_video else self.images).append(grid)
            if is_video:
                self.seconds.append(part[3])
            patches = grid[0] * grid[1] * grid[2]
            rows = torch.rand(patches, 6 * sizes.patch**2,
                              generator=torch.Generator().manual_seed(draw.randrange(2**30)))
            (self.video_pixels if is_video else self.pixels).append(rows * 4 - 2)
            steps = grid[0] if is_video and sizes.split_clips() else 1
            for _ in range(steps):
                self.add([START], 0)
                self.add([VIDEO if is_video else IMAGE] * (patches // 4 // steps),
                         2 if is_video else 1)
                self.add([END], 0)
        # The last two thirds count; the first token of a sample never does.
        self.labels = [-100 if 3 * i < len(self.ids) or t else t_id
                       for i, (t_id, t) in enumerate(zip(self.ids, self.types))]
        self.labels[0] = -100

    def add(self, ids, kind):
        self.ids += ids
        self.types += [kind] * len(ids)


def media(samples):
    """The media of all samples under their Hugging Face names; None where there are none."""

    def joined(name):
        return [item for sample in samples for item in getattr(sample, name)]

    def rows(name):
        return torch.cat(joined(name)) if joined(name) else None

    def table(name, dtype):
        return torch.tensor(joined(name), dtype=dtype) if joined(name) else None

    return dict(pixel_values=rows("pixels"), image_grid_thw=table("images", torch.long),
                pixel_values_videos=rows("video_pixels"), video_grid_thw=table("videos", torch.long),
                second_per_grid_ts=table("seconds", torch.float))


def positions_alone(model, sample):
    """[4, tokens]: the text position, then time, row and column as transformers derives them."""
    count = torch.arange(len(sample.ids))
    if not sample.images and not sample.videos:
        return count.expand(4, -1)
    found = media([sample])
    seconds = ({"second_per_grid_ts": found["second_per_grid_ts"]}
               if model.config.model_type == "qwen2_5_vl" else {})
    three, _ = model.model.get_rope_index(
        torch.tensor([sample.ids]), torch.tensor([sample.types]), found["image_grid_thw"],
        found["video_grid_thw"], **seconds)
    return torch.cat([count[None], three[:, 0]])


def make_inputs(model, samples, layout):
    """Positions of rows that are filled are left to both sides to derive."""
    inputs = harness.text_of(samples, layout) | media(samples)
    if model.config.model_type != "qwen2_5_vl":
        inputs["second_per_grid_ts"] = None
    if layout == "packed":
        inputs["position_ids"] = torch.cat([positions_alone(model, s) for s in samples], 1)[:, None]
    elif any(s.images or s.videos for s in samples):
        inputs["mm_token_type_ids"] = harness.fill_rows([s.types for s in samples], 0, layout == "left")
    return inputs


def fixed_cases():
    """Yields (name, sizes, layout, lists of parts); each meets one edge."""
    yield "windows do not divide the image, GQA 4/2", Sizes(), "packed", [[5, (12, 12), 9, (4, 6), 12]]
    yield ("clips of whole and broken seconds, MHA, tied", Sizes(kv_heads=4, tied=True), "packed",
           [[3, (3, 4, 8, 1.5), 8, (2, 6, 4, 0.4), 9], [4, (2, 4, 4, 2.0), 7]])
    yield ("images at the size limits, MQA 8/1", Sizes(heads=8, kv_heads=1, section=(4, 2, 2)),
           "packed", [[4, (2, 2), 3, (36, 36), 5, (2, 60), 6, (16, 16), 8, (50, 2), 7]])
    yield ("mixed pack with text-only samples, GQA 6/3", Sizes(heads=6, kv_heads=3), "packed",
           [[11], [6, (8, 8), 7], [2], [3, (2, 10, 4, 1.0), 4, (4, 4), 6], [9], [5, (6, 6), (4, 8), 8]])
    yield ("right padding, derived positions", Sizes(tokens_per_second=3), "right",
           [[6, (8, 12), 9], [17], [4, (2, 4, 6, 2.3), 12, (4, 4), 5]])
    yield ("left padding, derived positions, tied", Sizes(tied=True, kv_heads=1), "left",
           [[6, (4, 4), 9], [3, (3, 4, 4, 1.2), 5], [8, (10, 6), 3, (4, 6), 5]])
    yield ("small windows, no full attention", Sizes(patch=8, window=32, full=(), vision_layers=3),
           "packed", [[5, (10, 6), 9], [4, (3, 6, 10, 1.0), 6]])
    yield ("full attention in every layer", Sizes(full=(0, 1, 2), vision_layers=3, vision_heads=3),
           "packed", [[5, (18, 10), 9, (2, 4, 4, 1.0), 6]])
    yield "text alone", Sizes(), "packed", [[12], [7], [1, 20]]


def random_case(seed):
    draw = random.Random(seed)
    kv_heads = draw.choice([1, 2, 3])
    layers = draw.choice([1, 2, 3])
    first = draw.randrange(1, 5)
    second = draw.randrange(1, 8 - first)
    sizes = Sizes(
        heads=kv_heads * draw.choice([1, 2, 3]), kv_heads=kv_heads, tied=draw.random() < 0.5,
        text_layers=draw.choice([1, 2]), vision_layers=layers,
        full=tuple(i for i in range(layers) if draw.random() < 0.5),
        vision_heads=draw.choice([1, 2, 4]), section=(first, second, 8 - first - second),
        tokens_per_second=draw.choice([1, 2, 4]),
        deepstack=tuple(i for i in range(layers) if draw.random() < 0.6),
        positions=draw.choice([9, 16, 49]))

    def parts():
        yield draw.randrange(2, 9)
        for _ in range(draw.choice([0, 1, 1, 2])):
            side = [2 * draw.randrange(1, 10) for _ in range(2)]
            is_clip = draw.random() < 0.4
            yield (draw.randrange(1, 4), *side, draw.uniform(0.2, 3)) if is_clip else tuple(side)
            yield draw.randrange(1, 9)
        yield draw.randrange(3, 9)

    samples = [list(parts()) for _ in range(draw.randrange(1, 5))]
    return f"random {seed}", sizes, draw.choice(["packed", "packed", "left", "right"]), samples


def make_case(family, name, sizes, layout, samples):
    sizes = dataclasses.replace(sizes, family=family)
    draw = random.Random(name)
    model = make_model(sizes, seed=len(name), lively=name.startswith("random"))
    made = [Sample(draw, parts, sizes) for parts in samples]
    case = harness.Case(f"{family}: {name}", model, make_inputs(model, made, layout))
    if family == "qwen3_vl":  # released as transformers writes it
        case = dataclasses.replace(case, flat_config=False, published=harness.same_name)
    return case


def cases(suite):
    everything = [*fixed_cases(), *(random_case(seed) for seed in range(6))]
    for family in CLASSES:
        for spec in everything:
            suite.parity(make_case(family, *spec))
        for spec in everything[:2]:  # untied and tied
            round_trips.check_all(suite, make_case(family, *spec))


if __name__ == "__main__":
    harness.run_suite(__doc__, cases, at_least=69, covers=COVERS)
