"""Random images: whole PNGs of the size that was asked for."""

import struct
import zlib

import pytest

from servetune.load.images import random_png


@pytest.mark.parametrize(("width", "height"), [(16, 16), (40, 24), (512, 300)])
def test_an_image_is_a_png_of_its_size(width: int, height: int) -> None:
    png = random_png(width, height, "seed")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, chunks = 8, {}
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        (crc,) = struct.unpack(">I", png[place + 8 + length : place + 12 + length])
        assert crc == zlib.crc32(kind + data)
        chunks[kind] = data
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">2I", chunks[b"IHDR"][:8]) == (width, height)
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)


def test_two_seeds_give_two_images_and_one_gives_one() -> None:
    assert random_png(32, 32, "a") == random_png(32, 32, "a") != random_png(32, 32, "b")
