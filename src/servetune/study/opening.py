"""Opening a file of requests: as it is, packed by gzip, or Parquet, always as lines of text."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, NamedTuple, cast

from servetune.errors import UserError
from servetune.files import open_given, size, text_of

LARGEST_SOURCE = 1_000_000_000
"""Bytes of a file that requests are made from: a plan hashes it, and a step holds it in memory."""

CHECKED_BYTES = 10_000_000
"""How much of a file a plan checks."""

Unit = Literal["line", "record"]

_GZIP, _PARQUET, _POINTER = b"\x1f\x8b", b"PAR1", b"version https://git-lfs.github.com/spec/"

_ROWS = 256
"""Made into Python's objects at once: few, so that reading ends soon after what is asked for."""


class Source(NamedTuple):
    """The text of a file by its declared path, or whole lines from its beginning.

    Its parts are lines, or the records of a JSON list or of a Parquet file.
    """

    path: Path
    text: str
    is_whole: bool = True
    unit: Unit = "line"
    is_list: bool = False


def read_source(path: Path) -> Source:
    """Read a file of text in UTF-8, with or without a byte order mark, or of Parquet.

    Raises:
        UserError: it cannot be read, is too large, cut, or is not UTF-8.
    """
    with open_source(path, path, LARGEST_SOURCE + 1) as (file, unit):
        content = file.read(LARGEST_SOURCE + 1)
    if len(content) > LARGEST_SOURCE:
        raise UserError(f"{path}: holds more than {size(LARGEST_SOURCE)}; cut it into parts")
    return _source(path, content, True, unit)


def read_beginning(path: Path, name: Path) -> Source:
    """Read whole lines up to `CHECKED_BYTES` of a file that a study calls `name`."""
    with open_source(path, name, CHECKED_BYTES + 1) as (file, unit):
        return _beginning(file, name, unit)


def plain_beginning(path: Path, name: Path) -> Source:
    """Read the same of a file of lines that is neither packed nor a list."""
    with open_given(path, str(name), LARGEST_SOURCE) as file:
        return _beginning(file, name, "line")._replace(unit="line", is_list=False)


def _beginning(file: IO[bytes], name: Path, unit: Unit) -> Source:
    content = file.read(CHECKED_BYTES + 1)
    if len(content) <= CHECKED_BYTES:
        return _source(name, content, True, unit)
    # Without an end of a line it is a single one, such as a JSON list.
    cut = content.rfind(b"\n") + 1 or content.rfind(b" ") + 1
    return _source(name, content[:cut], False, unit)


def _source(name: Path, content: bytes, is_whole: bool, unit: Unit) -> Source:
    if content.startswith(_POINTER):
        raise UserError(f"{name}: a pointer of Git LFS in place of the file; run git lfs pull")
    text = text_of(content, str(name))
    is_list = text.lstrip().startswith("[")
    return Source(name, text, is_whole, "record" if is_list else unit, is_list)


@contextmanager
def open_source(path: Path, name: Path, most: int) -> Iterator[tuple[IO[bytes], Unit]]:
    """Open a file to read lines from, each a row of Parquet until they have `most` bytes.

    Raises:
        UserError: as `open_given`, or it is damaged; begins with `name`.
    """
    with open_given(path, str(name), LARGEST_SOURCE) as file:
        begins = file.read(4)
        file.seek(0)
        if begins == _PARQUET or path.suffix == ".parquet":
            yield io.BytesIO(_parquet_lines(file, name, most)), "record"
        elif begins.startswith(_GZIP) or path.suffix == ".gz":
            try:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield cast(IO[bytes], unpacked), "line"
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise UserError(f"{name}: not a whole file of gzip: {error}") from None
        else:
            yield file, "line"


def _parquet_lines(file: BinaryIO, name: Path, most: int) -> bytes:
    """Return rows as lines of JSON, until they have `most` bytes; what is null is left out."""
    import pyarrow
    import pyarrow.parquet as pq

    lines = io.BytesIO()
    try:
        content = pq.ParquetFile(file)
        groups = map(content.metadata.row_group, range(content.metadata.num_row_groups))
        if (filled := sum(group.total_byte_size for group in groups)) > LARGEST_SOURCE:
            raise UserError(
                f"{name}: holds {size(filled)}; expected at most {size(LARGEST_SOURCE)}"
            )
        for batch in content.iter_batches(batch_size=_ROWS):
            for row in batch.to_pylist():
                text = json.dumps(_without_nulls(row), ensure_ascii=False, default=str)
                lines.write(text.encode() + b"\n")
                if lines.tell() >= most:
                    return lines.getvalue()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise UserError(f"{name}: not a whole Parquet file: {why}") from None
    return lines.getvalue()


def _without_nulls(value: Any) -> Any:
    """Leave out the keys that other rows have."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
