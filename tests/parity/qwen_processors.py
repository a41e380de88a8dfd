"""The image and video processors of the families of Qwen-VL, for processor_parity.py: what they make
of a picture or clip as rows of patches, and how many tokens it becomes."""

import functools

import numpy
import tokenizers
import torch
from transformers import (PreTrainedTokenizerFast, Qwen2_5OmniProcessor, Qwen2VLImageProcessor,
                          Qwen2VLVideoProcessor, Qwen3VLVideoProcessor, WhisperFeatureExtractor)

QWEN, QWEN3, OMNI = 0, 4, 5  # 1 to 3 are in tile_processors.py
WIDTHS = {QWEN: 1176, QWEN3: 1536, OMNI: 1176}
# As in the released preprocessor_config.json of Qwen3-VL, whose class is that of Qwen2-VL.
QWEN3_IMAGES = dict(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)
LIMITS = (3136, 100352)
# (height, width): the table of the size rule, size limits, extreme aspects, sides below one patch.
SIZES = [(224, 224), (336, 336), (480, 640), (100, 30), (340, 600), (42, 70), (50, 50), (13, 13),
         (1, 1), (1, 150), (14, 2000), (10, 1500), (7, 1400), (1400, 7), (3, 28), (28, 28), (29, 27),
         (333, 1000), (56, 56), (112, 896), (317, 316), (600, 90)]
OMNI_TOKENS = dict(image_token="<|IMAGE|>", audio_token="<|AUDIO|>", video_token="<|VIDEO|>",
                   vision_bos_token="<|vision_bos|>", vision_eos_token="<|vision_eos|>",
                   audio_bos_token="<|audio_bos|>", audio_eos_token="<|audio_eos|>")


def items(random, pixels):
    """Yields (processor, is_clip, limits, pixels) as processor_parity.items does."""
    for size in SIZES:
        yield QWEN, False, LIMITS, pixels(1, *size)
    for _ in range(80):
        height, width = (int(2 ** random.uniform(0, 9.5)) for _ in range(2))
        if max(height, width) <= 200 * min(height, width):
            least = int(random.integers(784, 20000))
            yield QWEN, False, (least, int(random.integers(least, 200000))), pixels(1, height, width)
    for frames in (1, 2, 3, 4, 7):
        height, width = (int(random.integers(30, 300)) for _ in range(2))
        yield QWEN, True, LIMITS, pixels(frames, height, width)
    for size in [*SIZES[::3], (64, 48), (300, 200)]:
        yield QWEN3, False, (4096, 65536), pixels(1, *size)
        if size[0] != size[1]:
            yield OMNI, False, LIMITS, pixels(1, *size)
    # The limits of Qwen3-VL hold for all frames together: above, between and below them.
    for frames, size in ((2, (64, 48)), (3, (200, 150)), (4, (20, 33)), (5, (120, 90)), (7, (96, 96)),
                         (9, (50, 250)), (2, (300, 310)), (6, (31, 17))):
        yield QWEN3, True, (4096 * frames, 131072), pixels(frames, *size)
    for frames in (2, 5):
        yield OMNI, True, LIMITS, pixels(frames, 70, 110)


def edges(limits):
    return dict(shortest_edge=limits[0], longest_edge=limits[1])


@functools.cache
def omni_processor():
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, extra_special_tokens=OMNI_TOKENS)
    return Qwen2_5OmniProcessor(Qwen2VLImageProcessor(), Qwen2VLVideoProcessor(),
                                WhisperFeatureExtractor(feature_size=128, chunk_length=300), tokenizer)


def count_omni_tokens(made, kind):
    processor = omni_processor()
    pad = processor.tokenizer.convert_tokens_to_ids(OMNI_TOKENS[f"{kind}_token"])
    return int((numpy.asarray(made["input_ids"]) == pad).sum())


def run_omni(is_clip, limits, pixels):
    processor = omni_processor()
    frames = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    if is_clip:
        made = processor(text="<|vision_bos|><|VIDEO|><|vision_eos|>", videos=[frames],
                         videos_kwargs=dict(size=edges(limits), do_sample_frames=False,
                                            cap_pixels_per_frame=False), return_tensors="pt")
        return made["video_grid_thw"], made["pixel_values_videos"], count_omni_tokens(made, "video")
    made = processor(text="<|vision_bos|><|IMAGE|><|vision_eos|>", images=[frames[0]],
                     images_kwargs=dict(size=edges(limits), input_data_format="channels_first"),
                     return_tensors="pt")
    return made["image_grid_thw"], made["pixel_values"], count_omni_tokens(made, "image")


def run_clip(processor, limits, pixels):
    kind = Qwen3VLVideoProcessor if processor == QWEN3 else Qwen2VLVideoProcessor
    video = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    made = kind(size=edges(limits))(videos=[video], return_tensors="pt", do_sample_frames=False,
                                    cap_pixels_per_frame=False)
    return made["video_grid_thw"], made["pixel_values_videos"]


def run_image(processor, limits, pixels):
    options = QWEN3_IMAGES if processor == QWEN3 else {}
    image = torch.from_numpy(pixels[0]).permute(2, 0, 1)
    made = Qwen2VLImageProcessor(size=edges(limits), **options)(
        images=[image], return_tensors="pt", input_data_format="channels_first")
    return made["image_grid_thw"], made["pixel_values"]


def run(processor, is_clip, limits, pixels):
    """(time, rows, columns, tokens) and rows, as transformers has them."""
    if processor == OMNI:
        grid, rows, tokens = run_omni(is_clip, limits, pixels)
    else:
        grid, rows = (run_clip if is_clip else run_image)(processor, limits, pixels)
        tokens = int(grid[0].prod()) // 4
    return (*grid[0].tolist(), tokens), rows
