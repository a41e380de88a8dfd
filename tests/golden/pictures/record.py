#!/usr/bin/env python3
"""Records small JPEG, PNG, WebP, GIF and BMP files of every kind with the pixels that Pillow gives for them.

    python tests/golden/pictures/record.py > tests/golden/pictures/pictures.json

A case is {name, file, width, height, rgb}: `file` and `rgb` in base64, `rgb` from
`ImageOps.exif_transpose(image).convert("RGB")`.
"""

import base64
import io
import json
import random
import struct
import sys
import zlib

import PIL
from PIL import Image, ImageOps, features

SEED = 20240607
WIDTH, HEIGHT = 23, 17  # odd on purpose: edges of blocks and of subsampled colour


def text_of(data):
    return base64.b64encode(data).decode()


def smooth_rgb():
    """A picture with slopes, an edge and a little noise, so that every DCT term is used."""
    noise = random.Random(SEED)
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            edge = 90 if x > y else 0
            image.putpixel((x, y), (x * 11 % 256, (y * 13 + edge) % 256, noise.randrange(256)))
    return image


def saved(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def raw_png(depth, colour, interlaced=False, before_data=()):
    """A PNG of any depth and colour type with random samples; Pillow cannot write most of them."""
    noise = random.Random(SEED + depth * 16 + colour)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                  (1, 0, 2, 2), (0, 1, 1, 2)]
    lines = b""
    for x0, y0, dx, dy in passes:
        columns = (WIDTH - x0 + dx - 1) // dx
        rows = (HEIGHT - y0 + dy - 1) // dy
        for _ in range(rows):
            lines += b"\0" + bytes(noise.randrange(256) for _ in range((columns * channels * depth + 7) // 8))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, int(interlaced))
    palette = b""
    if colour == 3:
        palette = chunk(b"PLTE", bytes(noise.randrange(256) for _ in range(3 * 2**depth)))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette
            + b"".join(chunk(kind, body) for kind, body in before_data)
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def exif_with_orientation(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif.tobytes()


def with_alpha(image):
    image = image.convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image


def list_webp_files(image):
    for quality in (20, 90):
        yield f"webp_quality_{quality}", saved(image, format="WEBP", quality=quality)
        yield (f"webp_alpha_quality_{quality}",
               saved(with_alpha(image), format="WEBP", quality=quality))
    yield "webp_lossless", saved(image, format="WEBP", lossless=True)
    yield "webp_lossless_alpha", saved(with_alpha(image), format="WEBP", lossless=True, exact=True)
    yield "webp_profile", saved(image, format="WEBP", quality=80, icc_profile=b"not a profile")
    for value in (1, 2, 3, 4, 5, 6, 7, 8, 9):
        yield (f"webp_orientation_{value}",
               saved(image, format="WEBP", quality=90, exif=exif_with_orientation(value)))
    frames = [image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    yield "webp_animation", saved(frames[0], format="WEBP", save_all=True, append_images=frames[1:])


def list_gif_files(image):
    for colours in (2, 3, 16, 200, 256):
        yield f"gif_colours_{colours}", saved(image.quantize(colours), format="GIF")
    yield "gif_interlaced", saved(image.quantize(64), format="GIF", interlace=1)
    yield "gif_grey", saved(image.convert("L"), format="GIF")
    yield "gif_transparent", saved(image.quantize(32), format="GIF", transparency=5)
    frames = [image.quantize(32), image.rotate(90).quantize(32)]
    yield "gif_animation", saved(frames[0], format="GIF", save_all=True, append_images=frames[1:])
    # The frame of 23 x 17 in a larger canvas, and in one that is too small for it.
    for name, size in (("larger", (30, 25)), ("smaller", (9, 11))):
        for transparency in ({}, {"transparency": 7}):
            plain = bytearray(saved(image.quantize(16), format="GIF", **transparency))
            struct.pack_into("<HH", plain, 6, *size)
            place = plain.index(b"," + bytes(4) + struct.pack("<HH", WIDTH, HEIGHT))
            struct.pack_into("<HH", plain, place + 1, 4, 3)
            yield f"gif_canvas_{name}{'_transparent' if transparency else ''}", bytes(plain)


def raw_bmp(bits, pixels, palette=b"", compression=0, masks=b"", top_down=False, colours=0):
    place = 14 + 40 + len(masks) + len(palette)
    height = -HEIGHT if top_down else HEIGHT
    info = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, bits, compression, len(pixels), 0, 0,
                       colours, 0)
    return (b"BM" + struct.pack("<IHHI", place + len(pixels), 0, 0, place) + info + masks + palette
            + pixels)


def random_rows(bits):
    noise = random.Random(SEED + bits)
    return noise.randbytes((WIDTH * bits + 31) // 32 * 4 * HEIGHT)


def list_bmp_files(image):
    noise = random.Random(SEED)
    yield "bmp_rgb", saved(image, format="BMP")
    yield "bmp_grey", saved(image.convert("L"), format="BMP")
    yield "bmp_bilevel", saved(image.convert("1"), format="BMP")
    yield "bmp_palette", saved(image.quantize(100), format="BMP")
    for bits in (1, 4, 8):
        yield f"bmp_bits_{bits}", raw_bmp(bits, random_rows(bits), noise.randbytes(4 << bits))
    for bits in (16, 24, 32):
        yield f"bmp_bits_{bits}", raw_bmp(bits, random_rows(bits))
    yield "bmp_top_down", raw_bmp(24, random_rows(24), top_down=True)
    for name, bits, masks in (("565", 16, (0xf800, 0x7e0, 0x1f)), ("555", 16, (0x7c00, 0x3e0, 0x1f)),
                              ("bgrx", 32, (0xff0000, 0xff00, 0xff))):
        yield (f"bmp_masks_{name}", raw_bmp(bits, random_rows(bits), compression=3,
                                            masks=struct.pack("<III", *masks)))


def list_files():
    image = smooth_rgb()
    for subsampling in (0, 1, 2):
        for quality in (30, 95):
            yield (f"jpeg_subsampling_{subsampling}_quality_{quality}",
                   saved(image, format="JPEG", quality=quality, subsampling=subsampling))
    yield "jpeg_progressive", saved(image, format="JPEG", quality=80, progressive=True)
    yield "jpeg_grey", saved(image.convert("L"), format="JPEG", quality=80)
    yield "jpeg_cmyk", saved(image.convert("CMYK"), format="JPEG", quality=90)
    yield "jpeg_restart_markers", saved(image, format="JPEG", quality=80, restart_marker_blocks=1)
    for value in range(10):
        yield (f"jpeg_orientation_{value}",
               saved(image, format="JPEG", quality=90, exif=exif_with_orientation(value)))
    yield "jpeg_broken_profile", saved(image, format="JPEG", quality=90, icc_profile=b"not a profile")
    for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)),
                           (6, (8, 16))):
        for depth in depths:
            yield f"png_colour_{colour}_depth_{depth}", raw_png(depth, colour)
            yield f"png_colour_{colour}_depth_{depth}_interlaced", raw_png(depth, colour, True)
    yield "png_palette_transparent", raw_png(4, 3, before_data=[(b"tRNS", bytes(range(0, 160, 10)))])
    yield "png_grey_transparent", raw_png(8, 0, before_data=[(b"tRNS", b"\0\x40")])
    yield "png_rgb_transparent", raw_png(8, 2, before_data=[(b"tRNS", b"\0\x40\0\x10\0\x20")])
    yield "png_gamma_and_text", raw_png(8, 2, before_data=[
        (b"gAMA", struct.pack(">I", 100000)), (b"tEXt", b"Comment\0hello")])
    yield from list_webp_files(image)
    yield from list_gif_files(image)
    yield from list_bmp_files(image)
    yield "png_one_pixel", saved(image.crop((3, 3, 4, 4)), format="PNG")


def main():
    cases = []
    for name, data in list_files():
        shown = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        if shown.mode == "I;16":  # Pillow clips to 255 when it converts: see decode_picture.h
            shown = Image.frombytes("L", shown.size, shown.tobytes()[1::2])
        rgb = shown.convert("RGB")
        cases.append({"name": name, "file": text_of(data), "width": rgb.width, "height": rgb.height,
                      "rgb": text_of(rgb.tobytes())})
    json.dump({"pillow": PIL.__version__, "libjpeg_turbo": features.version("libjpeg_turbo"),
               "seed": SEED, "cases": cases}, sys.stdout, indent=0)


main()
