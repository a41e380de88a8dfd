"""Compares grids, patch rows and numbers of tokens with transformers' image and video processors:
Qwen2-VL's, and those of the families of tiles.

Both sides resize with ATen's kernel on 8-bit pixels (the torchvision backend), so the rows must be
equal to within the last bits of the normalisation; grids must be equal.
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy
import tile_processors
import torch
from transformers import Qwen2VLImageProcessor, Qwen2VLVideoProcessor

torch.set_num_threads(1)

QWEN = tile_processors.QWEN
MOST_ERROR = 1e-5
LIMITS = (3136, 100352)
# (height, width): the table of the size rule, size limits, extreme aspects, sides below one patch.
SIZES = [(224, 224), (336, 336), (480, 640), (100, 30), (340, 600), (42, 70), (50, 50), (13, 13),
         (1, 1), (1, 150), (14, 2000), (10, 1500), (7, 1400), (1400, 7), (3, 28), (28, 28), (29, 27),
         (333, 1000), (56, 56), (112, 896), (317, 316), (600, 90)]


def items(random):
    """Yields (processor, is_clip, limits, pixels [frames, height, width, 3])."""
    def pixels(frames, height, width):
        if random.random() < 0.5:  # noise, or a hard-edged picture
            return random.integers(0, 256, (frames, height, width, 3), dtype=numpy.uint8)
        coarse = random.integers(0, 2, (frames, -(-height // 9), -(-width // 9), 3)) * 255
        fine = coarse.repeat(9, 1).repeat(9, 2)[:, :height, :width]
        return numpy.ascontiguousarray(fine.astype(numpy.uint8))

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
    yield from tile_processors.items(random, pixels)


def run_ours(binary, cases):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/in", "wb") as file:
            for processor, is_clip, limits, pixels in cases:
                file.write(struct.pack("<7i", processor, is_clip, *pixels.shape[:3], *limits))
                file.write(pixels.tobytes())
        subprocess.run([binary, f"{folder}/in", f"{folder}/out"], check=True)
        with open(f"{folder}/out", "rb") as file:
            for processor, *_ in cases:
                grid = struct.unpack("<4i", file.read(16))
                width = 1176 if processor == QWEN else 588
                values = numpy.frombuffer(file.read(int(numpy.prod(grid[:3])) * width * 4), "<f4")
                yield grid, values.reshape(-1, width)


def run_theirs(processor, is_clip, limits, pixels):
    if processor != QWEN:
        return tile_processors.run(processor, is_clip, limits, pixels)
    grid, rows = run_qwen(is_clip, limits, pixels)
    grid = tuple(grid[0].tolist())
    return (*grid, grid[0] * grid[1] * grid[2] // 4), rows


def run_qwen(is_clip, limits, pixels):
    if is_clip:
        processor = Qwen2VLVideoProcessor(min_pixels=limits[0], max_pixels=limits[1])
        video = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        result = processor(videos=[video], return_tensors="pt", cap_pixels_per_frame=False)
        return result["video_grid_thw"], result["pixel_values_videos"]
    processor = Qwen2VLImageProcessor(min_pixels=limits[0], max_pixels=limits[1])
    image = torch.from_numpy(pixels[0]).permute(2, 0, 1)
    result = processor(images=[image], return_tensors="pt", input_data_format="channels_first")
    return result["image_grid_thw"], result["pixel_values"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the executable patch_rows")
    options = parser.parse_args()
    cases = list(items(numpy.random.default_rng(1)))
    worst, faults, compared = 0.0, [], 0
    for (processor, is_clip, limits, pixels), (grid, rows) in zip(
        cases, run_ours(options.binary, cases), strict=True
    ):
        their_grid, their_rows = run_theirs(processor, is_clip, limits, pixels)
        name = f"{processor} {'clip' if is_clip else 'image'} {pixels.shape[:3]} in {limits}"
        if their_grid != grid:
            faults.append(f"{name}: grid and tokens {grid}, expected {their_grid}")
            continue
        error = numpy.abs(rows - their_rows.numpy()).max()
        worst = max(worst, float(error))
        compared += 1
        if not error <= MOST_ERROR:
            faults.append(f"{name}: rows differ by {error:.2e}")
    print("\n".join(faults))
    print(f"{compared} of {len(cases)} items compared, largest difference {worst:.1e}")
    sys.exit(1 if faults or compared < 200 else 0)


if __name__ == "__main__":
    main()
