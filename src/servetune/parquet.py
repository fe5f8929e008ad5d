"""Parquet files, of others too: what they would fill is known before any of it is decoded.

A few kilobytes can stand for gigabytes: a run of one value, a page that was compressed, a long text
that a dictionary repeats. The footer says how much there is, and the header of each page has to say
the same; that much must be in proportion to the file. What `write_table` never writes is refused.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from servetune.errors import RUN, DamagedError, UserError
from servetune.files import size

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["text", "number", "bool", "list"]
"""What a column holds; a list is of numbers. One without any value may be of any type."""

MOST_FOOTER_BYTES = 1024**2
"""Each byte may become some 300 in memory; the largest table of ours has a footer of 70 kB."""

# The most and what is free are judgements: what a host's memory can spare, and what does no harm.
FREE_BYTES = 128 * 1024**2
MOST_RATIO = 32
MOST_BYTES = 8 * 1024**3
"""A file may fill FREE_BYTES, and MOST_RATIO times its own size, but never more than MOST_BYTES.

A day of samples of eight idle GPUs takes 26 times its size.
"""

_VALUE_BYTES = 16
"""Of a number or a place in a dictionary, with its levels."""

_WRITER = "parquet-cpp-arrow version "
_PHYSICAL = {"BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY"}
_ENCODINGS = {0, 2, 3, 8}
"""PLAIN, PLAIN_DICTIONARY, RLE and RLE_DICTIONARY: a page of another may repeat what it holds."""

_DATA_PAGE, _DICTIONARY_PAGE = 0, 2

_HEADER_BYTES = 64 * 1024
"""Of a page: some 30 bytes, and two values of its statistics, which long texts make longer."""

_DEEPEST = 4
"""Structs within structs: more than the three levels of the format."""


def read_table(
    path: Path, *columns: str, kind_of: Callable[[str], Kind | None] | None = None
) -> "pd.DataFrame":
    """Read a table that `write_table` wrote as Parquet; it has `columns` at least.

    With `kind_of`, only the columns are read that it knows by name, and they must be of its kind.

    Raises:
        UserError: there is none.
        DamagedError: it is cut, no Parquet, another table, or would fill more than its size allows.
    """
    import pandas as pd

    if path.is_dir():
        # Which pandas reads as parts of a table.
        raise DamagedError(path, "a folder")
    try:
        names = _checked(path, kind_of)
        # Not the columns that pandas makes of the folders that it lies in.
        table = pd.read_parquet(path, columns=names, partitioning=None)
    except FileNotFoundError:
        raise UserError(f"{path}: no such table; run: {RUN}") from None
    except Exception as error:
        # What is no Parquet makes the reader raise what it likes.
        raise DamagedError(path, str(error).partition("\n")[0] or type(error).__name__) from None
    if lacking := [name for name in columns if name not in table]:
        raise DamagedError(path, f"has no column {lacking[0]}")
    return table


def _checked(path: Path, kind_of: Callable[[str], Kind | None] | None) -> list[str]:
    """Return the columns to read of a file that fills no more than it may.

    Raises:
        ValueError: it fills more, or holds what no table of ours does.
        Exception: it is no Parquet.
    """
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        most = _most(file)
        options = {
            "thrift_string_size_limit": MOST_FOOTER_BYTES,
            "thrift_container_size_limit": MOST_FOOTER_BYTES,
        }
        content = pq.ParquetFile(file, **options)
        if not str(content.metadata.created_by).startswith(_WRITER):
            raise ValueError(f"not written by {_WRITER.split()[0]}")
        names = _names(content.schema_arrow, kind_of)
        filled = _filled(file, content.metadata, most)
        texts = [field.name for field in content.schema_arrow if _is_text(field.type)]
        texts = [name for name in texts if name in names]
        if texts:
            # A text that is repeated stands there once as long as it is not asked for as a text.
            coded = pq.ParquetFile(file, read_dictionary=texts, **options).read(texts)
            filled += sum(map(_text_bytes, coded.columns))
            _refuse_over(filled, most)
        return names


def _most(file: BinaryIO) -> int:
    """Return how much a file may fill, once its footer is of a size to be read."""
    whole = file.seek(0, io.SEEK_END)
    file.seek(max(0, whole - 8))
    end = file.read(8)
    if len(end) < 8 or end[4:] != b"PAR1":
        raise ValueError("not a Parquet file, or cut")
    footer = int.from_bytes(end[:4], "little")
    if footer > min(MOST_FOOTER_BYTES, whole - 8):
        raise ValueError(
            f"has a footer of {size(footer)}; expected at most {size(MOST_FOOTER_BYTES)}"
        )
    return min(MOST_BYTES, FREE_BYTES + MOST_RATIO * whole)


def _refuse_over(filled: int, most: int) -> None:
    if filled > most:
        raise ValueError(f"would fill {size(filled)} of memory; expected at most {size(most)}")


def _names(schema: Any, kind_of: Callable[[str], Kind | None] | None) -> list[str]:
    """Return the columns to read, all of types that are written here."""
    if not schema.names or len({*schema.names}) < len(schema.names):
        raise ValueError("has no columns, or two of a name")
    names = []
    for field in schema:
        kind, expected = _kind(field.type), kind_of(field.name) if kind_of else None
        if kind_of and expected is None:
            continue
        if kind is None or (expected and kind not in ("empty", expected)):
            raise ValueError(f"{field.name} is {field.type}; expected {expected or 'numbers'}")
        names.append(field.name)
    return names


def _kind(type: Any) -> str | None:
    from pyarrow import types

    if types.is_null(type):
        return "empty"
    if types.is_boolean(type):
        return "bool"
    if types.is_integer(type) or types.is_floating(type):
        return "number"
    if _is_text(type):
        return "text"
    is_numbers = types.is_list(type) and _kind(type.value_type) in ("number", "empty")
    return "list" if is_numbers else None


def _is_text(type: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(type) or types.is_large_string(type))


def _text_bytes(column: Any) -> int:
    """Return how long the texts of a dictionary column are together."""
    from pyarrow import compute

    lengths = (
        compute.sum(compute.take(compute.binary_length(chunk.dictionary), chunk.indices))
        for chunk in column.chunks
        if len(chunk.dictionary)
    )
    return sum(length.as_py() or 0 for length in lengths)


def _filled(file: BinaryIO, metadata: Any, most: int) -> int:
    """Return how much the pages of a file fill, by their headers.

    Raises:
        ValueError: it is more than `most`, or the headers and the footer say different things.
    """
    filled = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.file_path or column.physical_type not in _PHYSICAL:
                raise ValueError(f"{column.path_in_schema}: not of a type that is written here")
            if column.num_values < group.num_rows:
                raise ValueError(f"{column.path_in_schema}: has fewer values than rows")
            filled += column.num_values * _VALUE_BYTES + column.total_uncompressed_size
            _refuse_over(filled, most)
            _check_pages(file, column)
    return filled


def _check_pages(file: BinaryIO, column: Any) -> None:
    """Refuse a column whose pages hold something else than the footer says."""
    starts = (column.dictionary_page_offset, column.data_page_offset)
    place = min(start for start in starts if start)
    end, values, uncompressed = place + column.total_compressed_size, 0, 0
    while place < end:
        file.seek(place)
        stream = io.BytesIO(file.read(min(_HEADER_BYTES, end - place)))
        header = _struct(stream)
        if (kind := _integer(header, 1)) not in (_DATA_PAGE, _DICTIONARY_PAGE):
            raise ValueError(f"{column.path_in_schema}: a page of another kind")
        page = _inside(header, 5 if kind == _DATA_PAGE else 7)
        if _integer(page, 2) not in _ENCODINGS:
            raise ValueError(f"{column.path_in_schema}: a page in another encoding")
        if kind == _DATA_PAGE:
            values += _integer(page, 1)
        elif _integer(page, 1) > _integer(header, 2):
            raise ValueError(f"{column.path_in_schema}: a dictionary larger than its page")
        uncompressed += stream.tell() + _integer(header, 2)
        place += stream.tell() + _integer(header, 3)
    is_as_said = (place, values, uncompressed) == (
        end,
        column.num_values,
        column.total_uncompressed_size,
    )
    if not is_as_said:
        raise ValueError(f"{column.path_in_schema}: its pages are not as its footer says")


# The header of a page, in Thrift's compact protocol: no reader of Python's gives it.


def _struct(stream: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """Read a struct: its 32-bit integers and structs by their numbers, None for all else.

    Each number once, in ascending order, as every writer writes them: of a number that comes
    twice, two readers may take different ones.
    """
    fields: dict[int, Any] = {}
    number = 0
    while (kind := (first := _byte(stream)) & 15) != 0:
        step = first >> 4 or _zigzag(_varint(stream)) - number
        if step <= 0 or depth > _DEEPEST:
            raise ValueError("a page's header is damaged")
        number += step
        fields[number] = None
        if kind == 5:
            fields[number] = _zigzag(_varint(stream))
        elif kind == 12:
            fields[number] = _struct(stream, depth + 1)
        elif kind in (4, 6):
            _varint(stream)
        elif kind == 8:
            stream.seek(_varint(stream), io.SEEK_CUR)
        elif kind not in (1, 2):
            raise ValueError("a page's header is damaged")
    return fields


def _integer(fields: dict[int, Any], number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError("a page's header is damaged")
    return value


def _inside(fields: dict[int, Any], number: int) -> dict[int, Any]:
    value = fields.get(number)
    if not isinstance(value, dict):
        raise ValueError("a page's header is damaged")
    return value


def _byte(stream: BinaryIO) -> int:
    if not (read := stream.read(1)):
        raise ValueError("a page's header is cut, or too long")
    return read[0]


def _varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 64, 7):
        byte = _byte(stream)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("a page's header is damaged")


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
