"""Small files that would fill gigabytes: archives and Parquet files as nobody measures them."""

import gzip
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

ZEROS = bytes(1024**2)
WRITER = b"parquet-cpp-arrow version 26.0.1"


def _header(name: str, size: int, kind: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def _zeros(out: BinaryIO, count: int) -> None:
    for _ in range(count // len(ZEROS)):
        out.write(ZEROS)


def _one_header(kind: bytes) -> Callable[[BinaryIO, int], None]:
    def write(out: BinaryIO, count: int) -> None:
        out.write(_header("results/x", count, kind))
        _zeros(out, count)

    return write


def _sparse(out: BinaryIO, count: int) -> None:
    """A header that is continued, block by block, with places of parts."""
    part = b"%011o\0%011o\0" % (512, 512)
    block = (part * 21).ljust(504, b"\0") + b"\1" + bytes(7)
    header = bytearray(_header("results/x", 512, tarfile.GNUTYPE_SPARSE))
    header[386:482], header[482] = part * 4, 1
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    out.write(bytes(header))
    for _ in range(count // len(ZEROS)):
        out.write(block * (len(ZEROS) // len(block)))


def _headers_of_all(out: BinaryIO, count: int) -> None:
    """Headers of all files, each with more of what every file then has a copy of."""
    for number in range(count // 1024**2):
        line = b"%07d=%s\n" % (number, b"x" * 4000)
        content = b"%d %s" % (len(line) + 5, line)
        out.write(_header("pax", len(content), tarfile.XGLTYPE))
        out.write(content.ljust(-(-len(content) // 512) * 512, b"\0"))
        out.write(_header(f"results/{number}", 0, tarfile.REGTYPE))


def _one_file(name: str) -> Callable[[BinaryIO, int], None]:
    def write(out: BinaryIO, count: int) -> None:
        out.write(_header(name, count, tarfile.REGTYPE))
        _zeros(out, count)

    return write


def _many_files(out: BinaryIO, count: int) -> None:
    for number in range(count // 1024):
        out.write(_header(f"results/{number}", 0, tarfile.REGTYPE))


def _nested(out: BinaryIO, count: int) -> None:
    header = _header("pax", 0, tarfile.XHDTYPE)
    for _ in range(min(count // 512, 100_000)):
        out.write(header)


def _lists(out: BinaryIO, count: int) -> None:
    """A manifest of empty lists, each of which takes twenty times as much."""
    out.write(_header("bundle.json", count, tarfile.REGTYPE))
    out.write(b'{"sessions":[')
    for _ in range(count // len(ZEROS)):
        out.write((b"[]," * (len(ZEROS) // 3)).ljust(len(ZEROS)))


ARCHIVES: dict[str, Callable[[BinaryIO, int], None]] = {
    "a long name": _one_header(tarfile.GNUTYPE_LONGNAME),
    "a pax header": _one_header(tarfile.XHDTYPE),
    "a header of all files": _one_header(tarfile.XGLTYPE),
    "headers of all files": _headers_of_all,
    "headers in each other": _nested,
    "places of a sparse file": _sparse,
    "a large file": _one_file("results/x"),
    "a large manifest": _one_file("bundle.json"),
    "a manifest of lists": _lists,
    "many files": _many_files,
}


def write_archive(kind: str, path: Path, count: int) -> Path:
    """Write an archive that would fill `count` bytes or more."""
    with gzip.GzipFile(path, "wb", compresslevel=9) as out:
        ARCHIVES[kind](out, count)  # type: ignore[arg-type]
    return path


def _repeated_text(rows: int) -> pa.Table:
    indices = pa.array(memoryview(bytes(4 * rows)).cast("i"))
    return pa.table({"measurement": pa.DictionaryArray.from_arrays(indices, ["x" * 16_000])})


def _times(rows: int) -> pa.Array:
    return pa.array(memoryview(bytes(8 * rows)).cast("d"))


TABLES: dict[str, Callable[[int], pa.Table]] = {
    "a text that repeats": _repeated_text,
    "a number that repeats": lambda rows: pa.table({"time_s": _times(rows)}),
    "nothing that repeats": lambda rows: pa.table({"error": pa.nulls(rows)}),
    "a list that repeats": lambda rows: pa.table(
        {"itl_ms": pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), _times(rows))}
    ),
}


def write_parquet(kind: str, path: Path, rows: int) -> Path:
    """Write a table whose one column would fill at least `rows` values."""
    pq.write_table(TABLES[kind](rows), path, store_schema=False, row_group_size=rows)
    return path


def write_lie(path: Path, field: int, rows: int = 15_000, claimed: int = 1_000_000) -> Path:
    """Write a column whose page says that it holds more than the footer does.

    `field` is that of the header: its values, or its size once it is no longer compressed.
    """
    schema = pa.schema([pa.field("time_s", pa.float64(), nullable=False)])
    numbers = pa.table([pa.array(range(rows), pa.float64())], schema=schema)
    pq.write_table(numbers, path, compression="NONE", use_dictionary=False, data_page_size=2**30)
    content = bytearray(path.read_bytes())
    place = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    had = _varint(2 * (rows if field == 1 else 8 * rows))
    at = content.index(had, place)
    assert at < place + 64
    new = _varint(2 * claimed)
    assert len(new) == len(had)
    content[at : at + len(had)] = new
    path.write_bytes(content)
    return path


def write_footer(path: Path, count: int) -> Path:
    """Write a file whose footer is a list of `count` empty columns."""
    column = b"\x26\x00\x00"  # one number, and the end
    columns = b"\xfc" + _varint(count) + column * count
    group = b"\x19" + columns + b"\x16\x00\x16\x00\x00"
    schema = b"\x48\x01r\x15\x00\x00"
    footer = b"\x15\x04\x19\x1c" + schema + b"\x16\x00\x19\x1c" + group
    footer += b"\x28" + bytes([len(WRITER)]) + WRITER + b"\x00"
    path.write_bytes(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
