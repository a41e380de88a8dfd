"""Small PNG files, written without a library."""

import struct
import zlib


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, pixel=lambda x, y: 0):
    """Returns a file; pixel(x, y) gives a shade of grey, or (red, green, blue)."""
    is_grey = isinstance(pixel(0, 0), int)
    rows = b"".join(
        b"\0" + bytes(value for x in range(width) for value in ([pixel(x, y)] if is_grey else pixel(x, y)))
        for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if is_grey else 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))
