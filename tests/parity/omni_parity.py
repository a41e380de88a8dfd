"""Compares the thinker of Qwen2.5-Omni with transformers: logits, loss and every gradient, on
samples with pictures, clips and sounds."""

import dataclasses
import itertools
import random

import harness
import round_trips
import torch
import transformers
from safetensors.torch import load_file

IMAGE, VIDEO, START, END = 290, 291, 292, 293
AUDIO, AUDIO_START, AUDIO_END = 294, 295, 296
VOCAB = 300
BINS = 16

# For the table of docs/models.md: what is compared, and of which families.
COVERS = {"forward": ("qwen2_5_omni_thinker",),
          "export": ("qwen2_5_omni_thinker",)}


@dataclasses.dataclass
class Sizes:
    heads: int = 4
    kv_heads: int = 2
    text_layers: int = 2
    vision_layers: int = 2
    audio_layers: int = 2
    full: tuple = (1,)
    window: int = 15  # half a chunk of sound
    rate: int = 25


def make_model(sizes, seed, lively):
    width = 16 * sizes.heads
    config = transformers.Qwen2_5OmniThinkerConfig(
        text_config=dict(
            vocab_size=VOCAB, hidden_size=width, intermediate_size=24 * sizes.heads,
            num_hidden_layers=sizes.text_layers, num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads, max_position_embeddings=2048, rms_norm_eps=1e-6,
            rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 3, 3]),
            tie_word_embeddings=False),
        vision_config=dict(
            depth=sizes.vision_layers, hidden_size=32, intermediate_size=40, num_heads=2,
            patch_size=14, out_hidden_size=width, window_size=112,
            fullatt_block_indexes=list(sizes.full)),
        audio_config=dict(
            d_model=32, encoder_layers=sizes.audio_layers, encoder_attention_heads=2,
            encoder_ffn_dim=40, num_mel_bins=BINS, n_window=sizes.window, output_dim=width),
        image_token_index=IMAGE, video_token_index=VIDEO, audio_token_index=AUDIO,
        audio_start_token_id=AUDIO_START, audio_end_token_id=AUDIO_END,
        position_id_per_seconds=sizes.rate, vision_start_token_id=START,
        vision_end_token_id=END, tie_word_embeddings=False)
    model = transformers.Qwen2_5OmniThinkerForConditionalGeneration._from_config(
        config, attn_implementation="eager")
    return (harness.randomize_lively if lively else harness.randomize)(model, seed)


class Sample:
    """Parts: an int is that many text tokens, (frames,) a sound, (h, w) an image, (t, h, w, seconds)
    a clip."""

    def __init__(self, draw, parts):
        self.ids, self.images, self.videos, self.seconds = [], [], [], []
        self.pixels, self.video_pixels, self.features = [], [], []

        def rows(*shape):
            seed = torch.Generator().manual_seed(draw.randrange(2**30))
            return torch.rand(shape, generator=seed) * 4 - 2

        for part in parts:
            if isinstance(part, int):
                self.ids += [draw.randrange(280) for _ in range(part)]
            elif len(part) == 1:
                tokens = ((part[0] - 1) // 2 + 1 - 2) // 2 + 1
                self.ids += [AUDIO_START, *[AUDIO] * tokens, AUDIO_END]
                self.features.append(rows(BINS, part[0]))
            else:
                is_video = len(part) == 4
                grid = part[:3] if is_video else (1, *part)
                patches = grid[0] * grid[1] * grid[2]
                (self.videos if is_video else self.images).append(grid)
                (self.video_pixels if is_video else self.pixels).append(rows(patches, 6 * 14**2))
                if is_video:
                    self.seconds.append(part[3])
                self.ids += [START, *[VIDEO if is_video else IMAGE] * (patches // 4), END]
        self.labels = [-100 if 3 * i < len(self.ids) or token >= IMAGE else token
                       for i, token in enumerate(self.ids)]
        self.labels[0] = -100


def padded(samples, left):
    def joined(name):
        return [item for sample in samples for item in getattr(sample, name)]

    def table(name, dtype):
        return torch.tensor(joined(name), dtype=dtype) if joined(name) else None

    features = joined("features")
    frames = max((f.shape[1] for f in features), default=0) + 3
    return dict(
        harness.padded([(s.ids, s.labels) for s in samples], left),
        pixel_values=torch.cat(joined("pixels")) if joined("pixels") else None,
        image_grid_thw=table("images", torch.long),
        pixel_values_videos=torch.cat(joined("video_pixels")) if joined("video_pixels") else None,
        video_grid_thw=table("videos", torch.long),
        video_second_per_grid=table("seconds", torch.float),
        input_features=torch.stack([torch.nn.functional.pad(f, (0, frames - f.shape[1]), value=1.0)
                                    for f in features]) if features else None,
        feature_attention_mask=torch.tensor([[1] * f.shape[1] + [0] * (frames - f.shape[1])
                                             for f in features]) if features else None)


def fixed_cases():
    yield "one of each", Sizes(), False, [[5, (47,), 4, (4, 6), 3, (2, 4, 4, 1.0), 9]]
    yield "sounds in chunks", Sizes(), False, [[3, (90,), 5, (61,), 4], [4, (59,), 7, (30,), 5]]
    yield ("clips of fractions of seconds, left", Sizes(kv_heads=4), True,
           [[3, (3, 4, 8, 1.5), 8, (33,), 4], [9], [4, (2, 4, 4, 0.4), 7]])
    yield "pictures without sound, right", Sizes(rate=13), False, [[3, (12, 12), 8], [5, (4, 4), 6]]
    yield "sound without pictures, left", Sizes(), True, [[6, (3,), 5], [4, (44,), 12, (7,), 5]]
    yield "text alone", Sizes(), False, [[12], [7]]


def random_case(seed):
    draw = random.Random(seed)
    kv_heads = draw.choice([1, 2])
    layers = draw.choice([1, 2, 3])
    sizes = Sizes(heads=kv_heads * draw.choice([1, 2, 3]), kv_heads=kv_heads,
                  text_layers=draw.choice([1, 2]), vision_layers=layers,
                  audio_layers=draw.choice([1, 2, 3]), window=draw.choice([10, 25]),
                  full=tuple(i for i in range(layers) if draw.random() < 0.5),
                  rate=draw.choice([13, 25]))

    def parts():
        yield draw.randrange(2, 9)
        for _ in range(draw.choice([1, 2, 3])):
            side = [2 * draw.randrange(1, 7) for _ in range(2)]
            yield draw.choice([(draw.randrange(3, 120),), tuple(side),
                               (draw.randrange(1, 4), *side, draw.uniform(0.2, 3))])
            yield draw.randrange(1, 9)
        yield draw.randrange(3, 9)

    return (f"random {seed}", sizes, draw.random() < 0.5,
            [list(parts()) for _ in range(draw.randrange(1, 4))])


def make_case(name, sizes, left, samples):
    draw = random.Random(name)
    model = make_model(sizes, seed=len(name), lively=name.startswith("random"))
    inputs = padded([Sample(draw, parts) for parts in samples], left)
    return harness.Case(f"qwen2_5_omni_thinker: {name}", model, inputs, flat_config=False,
                        published=harness.same_name)


def make_whole(thinker):
    """The model as it is released: the thinker, the talker and what turns codes into sound."""
    config = transformers.Qwen2_5OmniConfig(
        thinker_config=thinker.config.to_dict(),
        talker_config=dict(
            vocab_size=40, embedding_size=thinker.config.text_config.hidden_size, hidden_size=16,
            intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[1, 1, 2])),
        token2wav_config=dict(
            dit_config=dict(
                hidden_size=16, num_hidden_layers=1, num_attention_heads=2, emb_dim=8, head_dim=8,
                num_embeds=20, mel_dim=4, enc_emb_dim=8, enc_dim=8, enc_channels=[8, 8, 8, 8, 24],
                enc_attention_channels=4, enc_res2net_scale=2, enc_se_channels=4),
            bigvgan_config=dict(mel_dim=4, upsample_initial_channel=8, resblock_kernel_sizes=[3],
                                resblock_dilation_sizes=[[1, 3, 5]], upsample_rates=[2],
                                upsample_kernel_sizes=[4])))
    whole = transformers.Qwen2_5OmniForConditionalGeneration._from_config(
        config, attn_implementation="eager")
    harness.randomize(whole, seed=7).thinker.load_state_dict(thinker.state_dict())
    return whole


def check_whole(suite, case):
    """We read the thinker of the whole model, and export the whole model with the rest as it was."""

    def body():
        source, target = suite.directory(case) / "whole", suite.directory(case) / "whole_exported"
        whole = make_whole(case.model)
        whole.save_pretrained(source)
        torch.save({"Speaker": {"bos_token": 1}}, source / "spk_dict.pt")
        measures, faults = harness.compare(
            harness.reference(case), harness.run_forward(suite.binary, source, case.inputs),
            case.inputs["attention_mask"])
        suite.export(source, target)
        again = type(whole).from_pretrained(target, dtype=torch.float32)
        for found in again.state_dict(), load_file(target / "model.safetensors"):
            expected = whole.state_dict()
            if found.keys() != expected.keys():
                faults.append(f"other tensors: {sorted(found.keys() ^ expected.keys())}")
            faults += [f"{name} differs" for name in found.keys() & expected.keys()
                       if not torch.equal(expected[name], found[name])]
        return {**measures, "tensors": len(expected)}, faults

    suite.check(f"{case.name}: inside of the whole model", body)


def cases(suite):
    for spec in itertools.chain(fixed_cases(), (random_case(seed) for seed in range(6))):
        suite.parity(make_case(*spec))
    case = make_case(*next(fixed_cases()))
    round_trips.TheirSaves(suite, case).check()
    round_trips.check_export(suite, case, type(case.model), torch.float32)
    check_whole(suite, case)


if __name__ == "__main__":
    harness.run_suite(__doc__, cases, at_least=16, covers=COVERS)
