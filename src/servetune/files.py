"""Files that are whole or not there, and files of others, which may be anything."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from servetune.errors import DamagedError, UserError

if TYPE_CHECKING:
    import pandas as pd

M = TypeVar("M", bound=BaseModel)

MOST_JSON_BYTES = 32 * 1024**2
"""Of a file that this project wrote, each of which may take twenty in memory; the largest plans
have half a megabyte."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a hidden path beside `path` to write to, which then takes its place at once.

    A process that is killed before leaves the hidden file, and `path` as it was.

    Raises:
        UserError: it cannot be written, as on a full disk; nothing is left of it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def left_by(name: str) -> int | None:
    """Return the process that wrote to a hidden path of `whole_file`; None of another name."""
    match = re.fullmatch(r"\..+\.(\d{1,9})", name)
    return int(match[1]) if match else None


def read_model(path: Path, model: type[M]) -> M:
    """Read a JSON file that this project wrote.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: it is cut, is no JSON, too large, or holds something else than `model`.
    """
    try:
        if (count := path.stat().st_size) > MOST_JSON_BYTES:
            most = size(MOST_JSON_BYTES)
            raise DamagedError(path, f"has {size(count)}; expected at most {most}")
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValidationError) as error:
        raise DamagedError(path, _why(error)) from None


def _why(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    first = error.errors(include_url=False, include_context=False)[0]
    if first["loc"] == ("schema_version",):
        return f"of format {first['input']}, which this version of servetune does not read"
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


@contextmanager
def open_given(path: Path, name: str, most_bytes: int) -> Iterator[BinaryIO]:
    """Open a file that a user named, without waiting for whoever writes to it.

    Raises:
        UserError: it is not there, no regular file (a folder, a FIFO, a device), cannot be read,
            or is larger than `most_bytes`; the message begins with `name`.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{name}: is a pipe or a device; expected a regular file")
            if status.st_size > most_bytes:
                raise UserError(
                    f"{name}: has {size(status.st_size)}; expected at most {size(most_bytes)}"
                )
            yield file
    except FileNotFoundError:
        raise UserError(f"{name}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{name}: is a folder; expected a file") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from None


def read_given(path: Path, name: str, most_bytes: int) -> str:
    """Read a text that a user named; raises UserError as `open_given` and `text_of` do."""
    with open_given(path, name, most_bytes) as file:
        return text_of(file.read(most_bytes), name)


def text_of(content: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        UserError: it is not UTF-8; the message begins with `name` and the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}: line {line}: not text in UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None


def json_of(text: str, name: str) -> Any:
    """Parse JSON.

    Raises:
        UserError: it is none; the message begins with `name` and the line.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{name}: line {error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: not JSON: {error}") from None


def _without_waiting(path: str, flags: int) -> int:
    # A FIFO without a writer would hold an open that waits.
    return os.open(path, flags | os.O_NONBLOCK)


def size(count: int) -> str:
    """Write a number of bytes: 3.2 GB."""
    unit = next(unit for unit in (10**9, 10**6, 10**3, 1) if count >= unit or unit == 1)
    return f"{count / unit:.3g} { {10**9: 'GB', 10**6: 'MB', 10**3: 'kB', 1: 'bytes'}[unit] }"


def sha256(path: Path) -> str:
    """Return the digest of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a whole text file."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_table(path: Path, table: "pd.DataFrame") -> None:
    """Write a table as Parquet, or as CSV with five significant digits, by the path's suffix."""
    with whole_file(path) as temporary:
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False, float_format="%.5g", lineterminator="\n")


def write_json(path: Path, content: BaseModel | dict[str, Any]) -> None:
    """Write a whole JSON file."""
    data = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
    # A list of numbers on one line: a record's diff is as long as what it says.
    text = json.dumps(data, indent=1)
    numbers = r"\[\n(?:[\s\d.,eE+-]|null)+\]"
    text = re.sub(numbers, lambda found: " ".join(found[0].split()), text)
    write_text(path, text + "\n")
