"""The image processors of the families of tiles, for processor_parity.py: what they make of a picture
as rows of patches, and how many tokens it becomes."""

import types

import torch
from transformers import GotOcr2ImageProcessor, InternVLVideoProcessor, LlavaOnevisionImageProcessor
from transformers import LlavaOnevisionVideoProcessor
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor

INTERN, LLAVA_ALONE, LLAVA_AMONG_OTHERS = range(1, 4)
PATCH = 14
SIDES = {INTERN: 56, LLAVA_ALONE: 60, LLAVA_AMONG_OTHERS: 60}  # pixels of a tile
MERGES = {INTERN: 2, LLAVA_ALONE: 1, LLAVA_AMONG_OTHERS: 1}
COLOURS = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
PINPOINTS = [[60 * rows, 60 * columns] for rows in range(1, 7) for columns in range(1, 7)]
# (height, width): the sizes of docs/theory/numerics.md by eighths, and the edges of both rules.
SIZES = [(56, 56), (60, 80), (90, 160), (135, 240), (125, 38), (113, 113), (168, 168), (42, 75),
         (1, 1), (1, 90), (300, 2), (60, 60), (61, 59), (360, 360), (400, 37), (200, 200)]


def items(random, pixels):
    """Yields (processor, is_clip, limits, pixels) as processor_parity.items does."""
    sizes = SIZES + [tuple(int(2 ** random.uniform(0, 8.7)) for _ in range(2)) for _ in range(24)]
    for size in sizes:
        least = int(random.integers(1, 3))
        yield INTERN, False, (least, int(random.integers(least, 13))), pixels(1, *size)
        yield LLAVA_ALONE, False, (1, 1), pixels(1, *size)
        if max(size) < 40 * min(size):
            yield LLAVA_AMONG_OTHERS, False, (1, 1), pixels(1, *size)
    for frames in (1, 3):
        yield INTERN, True, (1, 12), pixels(frames, 70, 45)
        yield LLAVA_ALONE, True, (1, 12), pixels(frames, 45, 70)


def cut(tiles, processor):
    """[tiles, 3, side, side] as rows of patches, those of a token one after the other."""
    merge, side = MERGES[processor], SIDES[processor] // PATCH
    used = tiles[..., :side * PATCH, :side * PATCH]
    return used.reshape(-1, 3, side // merge, merge, PATCH, side // merge, merge, PATCH).permute(
        0, 2, 5, 3, 6, 1, 4, 7).reshape(-1, 3 * PATCH * PATCH)


def count_llava_tokens(height, width, side):
    counter = LlavaOnevisionProcessor.__new__(LlavaOnevisionProcessor)
    counter.num_image_tokens, counter.vision_aspect_ratio = side**2, "anyres_max_9"
    counter.image_processor = types.SimpleNamespace(image_grid_pinpoints=PINPOINTS)
    return counter._get_number_of_features(height, width, 60, 60)


def run_clip(processor, pixels):
    video = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    size = dict(height=SIDES[processor], width=SIDES[processor])
    kind = InternVLVideoProcessor if processor == INTERN else LlavaOnevisionVideoProcessor
    made = kind(size=size, **COLOURS)(videos=[video], return_tensors="pt")["pixel_values_videos"][0]
    side = SIDES[processor] // PATCH
    tokens = (side // 2)**2 * len(made) if processor == INTERN else ((side + 1) // 2)**2 * len(made) + 1
    return (len(made), side, side, tokens), cut(made, processor)


def run(processor, is_clip, limits, pixels):
    """(time, rows, columns, tokens) and rows, as transformers has them."""
    if is_clip:
        return run_clip(processor, pixels)
    image = torch.from_numpy(pixels[0]).permute(2, 0, 1)
    side = SIDES[processor] // PATCH
    size = dict(height=SIDES[processor], width=SIDES[processor])
    if processor == INTERN:
        made = GotOcr2ImageProcessor(size=size, crop_to_patches=True, min_patches=limits[0],
                                     max_patches=limits[1], **COLOURS)(
            images=[image], return_tensors="pt", input_data_format="channels_first")["pixel_values"]
        tokens = len(made) * (side // 2)**2
    else:
        images = [image] if processor == LLAVA_ALONE else [image, image]
        made = LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=PINPOINTS, **COLOURS)(
            images=[images], return_tensors="pt", input_data_format="channels_first"
        )["pixel_values"][0]
        tokens = (count_llava_tokens(*pixels.shape[1:3], side) if processor == LLAVA_ALONE
                  else side**2 + 1)
    return (len(made), side, side, tokens), cut(made, processor)
