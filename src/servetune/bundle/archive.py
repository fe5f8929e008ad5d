"""Unpacking an archive that anyone may have made: what it may fill is bounded before it does.

A compressed archive of 6 MB may hold 6 GB: in a file, or in the header of one, which `tarfile`
reads whole. So the archive is read as a stream that gives no more than is asked for here.
"""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from servetune.bundle.manifest import MANIFEST
from servetune.bundle.members import CutError, FlippedError, MembersReader
from servetune.errors import UserError
from servetune.files import open_given, size

MOST_FILES = 200_000
"""A judgement: more than any study has, and each takes a place on the disk, however small."""

# The most and what is free are judgements: what a host's disk can spare, and what does no harm.
MOST_BYTES = 32 * 1024**3
FREE_BYTES = 256 * 1024**2
MOST_RATIO = 50
"""Of an archive's content, once it is unpacked: FREE_BYTES, and so many times its own size, but
never more than MOST_BYTES. Logs, which compress best of what is measured, take 15 times theirs.
"""

MOST_HEADER_BYTES = 16 * 1024
"""Of all headers of a file in an archive; a long name and its times take three of 512 bytes."""

MOST_FOLDERS = 6
"""Parts of a name, with its file: as in results/raw/<study>/<session>/<folder>/<file>."""

_NAME = re.compile(r"\.?[A-Za-z0-9][A-Za-z0-9._+-]{0,250}")

_CHUNK_BYTES = 64 * 1024
"""Read at once: small beside any memory, and large beside what a call costs."""


@dataclass(frozen=True)
class Broken:
    """How an archive breaks off, and within or before which of its files, if it is known."""

    how: str
    at: str


class _TooMuchError(Exception):
    """An archive that holds more than it may; the message says of what."""


class _Stream:
    """The content of an archive, read once from its start, as far as `left` allows."""

    def __init__(self, content: MembersReader, most: int) -> None:
        self._content, self._most = content, most
        self._last = b""
        self.left = MOST_HEADER_BYTES

    def read(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise _TooMuchError(f"a header of more than {size(MOST_HEADER_BYTES)}")
        self.left -= count
        self._last = self._within(self._content.read(count))
        return self._last

    def expect(self, count: int) -> None:
        """Refuse so much more before any of it is read."""
        if self.tell() + count > self._most:
            raise _TooMuchError(f"more than {size(self._most)} once it is unpacked")

    def seek(self, place: int) -> None:
        if place < self.tell():
            raise tarfile.ReadError("goes back")
        while (ahead := place - self.tell()) and self._within(
            self._content.read(min(ahead, _CHUNK_BYTES))
        ):
            pass

    def tell(self) -> int:
        return self._content.tell()

    @property
    def checked(self) -> int:
        """So many bytes from the start have had their checksums compared."""
        return self._content.checked

    def end(self) -> None:
        """Read the rest, so that its checksum is compared.

        Raises:
            tarfile.ReadError: there is more than an archive's end.
            CutError: that end is not there: the file was cut between two members.
        """
        if not self._last:
            raise CutError
        self._check_zeros(self._last)
        while rest := self._within(self._content.read(_CHUNK_BYTES)):
            self._check_zeros(rest)

    def _check_zeros(self, rest: bytes) -> None:
        if rest.strip(b"\0"):
            raise tarfile.ReadError("has more after its end, or a damaged header")

    def _within(self, content: bytes) -> bytes:
        self.expect(0)
        return content


def unpack(archive: Path, folder: Path) -> Broken | None:
    """Unpack an archive's folders and plain files into an empty folder.

    Of one that was cut short or damaged on its way, the files before that are unpacked; returns
    then how it breaks off. Those whose checksums came are as they were written. Of an archive with
    a single checksum, at its end, they are taken as long as the rest is only gone: zlib finds what
    it is given well-formed. A schema and the ids have still to tell that they are what they say.

    Raises:
        UserError: it is no archive, it breaks off before its first file ends, or it holds what no
            results hold: links, other places, too much.
    """
    with open_given(archive, str(archive), MOST_BYTES) as file:
        return _unpack_file(file, archive, folder)


def _unpack_file(file: BinaryIO, archive: Path, folder: Path) -> Broken | None:
    stream, ends = _Stream(MembersReader(file), _most(file)), dict[str, int]()
    try:
        _unpack(stream, archive, folder, ends)
    except _TooMuchError as error:
        raise UserError(
            f"{archive}: not the results of a bundle: it has {error}; if it is, export and measure"
            " fewer sessions at a time"
        ) from None
    except CutError:
        return _broken("cut short", stream.checked or stream.tell(), ends, archive, folder)
    except FlippedError as error:
        if not ends:
            raise UserError(
                f"{archive}: not the results of a bundle, or damaged: {error}"
            ) from None
        return _broken("damaged", stream.checked, ends, archive, folder)
    except (OSError, tarfile.TarError, ValueError, ArithmeticError) as error:
        raise UserError(f"{archive}: not the results of a bundle, or damaged: {error}") from None
    except RecursionError:
        raise UserError(f"{archive}: not the results of a bundle: its headers nest") from None
    return None


def _broken(how: str, sound: int, ends: dict[str, int], archive: Path, folder: Path) -> Broken:
    """Remove the files that do not end within what is `sound`, so many bytes of the content."""
    at = ""
    for name, end in ends.items():
        if end > sound:
            at = at or name
            (folder / name).unlink(missing_ok=True)
    if not (folder / MANIFEST).is_file():
        raise UserError(
            f"{archive}: not the results of a bundle, or {how} before its first record; fetch it"
            " again and import it again"
        )
    return Broken(how, at or f"its end, after {next(reversed(ends))}")


def _most(file: BinaryIO) -> int:
    whole = file.seek(0, 2)
    file.seek(0)
    return min(MOST_BYTES, FREE_BYTES + MOST_RATIO * whole)


def _unpack(stream: _Stream, archive: Path, folder: Path, ends: dict[str, int]) -> None:
    """Unpack what a stream holds, and note in `ends` where in it each file's content ends."""
    for count, member in enumerate(_members(stream)):
        if count >= MOST_FILES:
            raise _TooMuchError(f"more than {MOST_FILES:,} files")
        name = member.name
        is_plain = member.isdir() or (member.isreg() and not member.issparse() and member.size >= 0)
        if not (is_plain and _is_of_results(name)):
            raise UserError(f"{archive}: {name[:200]!r}: not a file of a bundle's results")
        stream.expect(member.size)
        path = folder / name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        ends[name] = stream.tell() + member.size
        with path.open("wb") as out:
            for chunk in _content(stream, member):
                out.write(chunk)


def _members(stream: _Stream) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of an archive, of which none is kept."""
    # A reader by its protocol, though not by its type.
    content = tarfile.TarFile(fileobj=stream)  # type: ignore[arg-type]
    while member := content.next():
        if content.pax_headers:
            raise tarfile.ReadError("has headers that are of all its files")
        yield member
        content.members.clear()  # type: ignore[attr-defined]
        stream.left = MOST_HEADER_BYTES
    stream.end()


def _content(stream: _Stream, member: tarfile.TarInfo) -> Iterator[bytes]:
    left = member.size
    while left:
        stream.left = count = min(left, _CHUNK_BYTES)
        if not (chunk := stream.read(count)):
            raise tarfile.ReadError("unexpected end of data")
        left -= len(chunk)
        yield chunk


def _is_of_results(name: str) -> bool:
    parts = name.rstrip("/").split("/")
    is_placed = name == MANIFEST or (parts[0] == "results" and len(parts) <= MOST_FOLDERS)
    return is_placed and all(map(_NAME.fullmatch, parts))
