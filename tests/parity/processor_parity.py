"""Compares grids, patch rows and numbers of tokens with transformers' image and video processors:
those of Qwen2-VL, Qwen3-VL and Qwen2.5-Omni, and those of the families of tiles.

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
import qwen_processors
import tile_processors
import torch

torch.set_num_threads(1)

MAX_ERROR = 1e-5


def items(random):
    """Yields (processor, is_clip, limits, pixels [frames, height, width, 3])."""
    def pixels(frames, height, width):
        if random.random() < 0.5:  # noise, or a hard-edged picture
            return random.integers(0, 256, (frames, height, width, 3), dtype=numpy.uint8)
        coarse = random.integers(0, 2, (frames, -(-height // 9), -(-width // 9), 3)) * 255
        fine = coarse.repeat(9, 1).repeat(9, 2)[:, :height, :width]
        return numpy.ascontiguousarray(fine.astype(numpy.uint8))

    yield from qwen_processors.items(random, pixels)
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
                width = qwen_processors.WIDTHS.get(processor, 588)
                values = numpy.frombuffer(file.read(int(numpy.prod(grid[:3])) * width * 4), "<f4")
                yield grid, values.reshape(-1, width)


def run_theirs(processor, is_clip, limits, pixels):
    by_family = qwen_processors if processor in qwen_processors.WIDTHS else tile_processors
    return by_family.run(processor, is_clip, limits, pixels)


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
        if not error <= MAX_ERROR:
            faults.append(f"{name}: rows differ by {error:.2e}")
    print("\n".join(faults))
    print(f"{compared} of {len(cases)} items compared, largest difference {worst:.1e}")
    sys.exit(1 if faults or compared < 200 else 0)


if __name__ == "__main__":
    main()
