"""Random images for requests, made before a load begins: each request has its own."""

import base64
import random
import struct
import zlib
from typing import Any

from servetune.study.classes import Images

_BLOCK = 16
"""Pixels of one colour, in both directions: noise of single pixels would be a megabyte."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def image_parts(images: Images, seed: int, index: int) -> list[dict[str, Any]]:
    """Return the parts of a chat's message that hold a request's images, as data in the URL."""
    return [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png).decode()}"},
        }
        for png in (
            random_png(images.width, images.height, f"image {seed} {index} {place}")
            for place in range(images.count)
        )
    ]


def random_png(width: int, height: int, seed: str) -> bytes:
    """Return a PNG of coloured blocks (RGB, 8 bits each), the same for the same seed.

    PNG Specification, third edition (W3C 2025).
    """
    draw = random.Random(seed)
    across, down = -(-width // _BLOCK), -(-height // _BLOCK)
    rows = []
    for _ in range(down):
        colours = (draw.randbytes(3) * _BLOCK for _ in range(across))
        # Each line begins with the number of its filter: none.
        rows.append(b"\0" + b"".join(colours)[: 3 * width])
    lines = [row for row in rows for _ in range(_BLOCK)][:height]
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(b"".join(lines), level=1)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
