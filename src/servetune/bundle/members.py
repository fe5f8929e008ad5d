"""Gzip with a member, and so a checksum, for each file of an archive.

`tar` and `gzip` read it as any other. Where the rest is lost or damaged, what came before is known
to be as it was written; a single member's checksum comes last, and is lost with the rest.
"""

import gzip
import zlib
from typing import BinaryIO

_CHUNK_BYTES = 64 * 1024
_GZIP = 31
"""For zlib: a gzip header, whose window has any size, and a checksum that is compared."""


class CutError(Exception):
    """The file ends before its content does."""


class FlippedError(Exception):
    """The file is not as it was written; the message says what zlib found."""


class MembersWriter:
    """Writes what `tarfile` gives it, compressed; a member ends where it is told so."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._count = file, 0
        self._member: gzip.GzipFile | None = None

    def write(self, content: bytes) -> int:
        """Write to the present member, or begin one."""
        # Most of a host's results is Parquet, compressed already, and written while a GPU waits.
        self._member = self._member or gzip.GzipFile("", "wb", 1, self._file, mtime=0)
        self._count += len(content)
        return self._member.write(content)

    def tell(self) -> int:
        """Return how much was written, before it was compressed."""
        return self._count

    def end_member(self) -> None:
        """Write the checksum of the present member, if one was begun."""
        if self._member:
            self._member.close()
        self._member = None


class MembersReader:
    """Reads the content of all members, no more than is asked for at a time.

    `checked` counts the bytes of members that ended, whose checksums are theirs.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(_GZIP)
        self._input = b""
        self._place = self.checked = 0

    def read(self, count: int) -> bytes:
        """Read so many bytes, or fewer at the end.

        Raises:
            CutError: the file ends within a member.
            FlippedError: a member is damaged.
        """
        content = bytearray()
        while len(content) < count and (some := self._some(count - len(content))):
            content += some
        return bytes(content)

    def tell(self) -> int:
        """Return how much was read, once it was decompressed."""
        return self._place

    def _some(self, most: int) -> bytes:
        while self._has_member():
            self._input = self._input or self._file.read(_CHUNK_BYTES)
            is_last = not self._input
            try:
                some = self._inflate.decompress(self._input, most)
            except zlib.error as error:
                raise FlippedError(str(error)) from None
            self._input = self._inflate.unconsumed_tail
            self._place += len(some)
            if some:
                return some
            if is_last and not self._inflate.eof:
                raise CutError
        return b""

    def _has_member(self) -> bool:
        """Begin the next member where one has ended; tells whether there is one."""
        if self._inflate.eof:
            self.checked = self._place
            # Zeros may fill up a block behind the last.
            self._input = self._inflate.unused_data.lstrip(b"\0")
            while not self._input:
                if not (more := self._file.read(_CHUNK_BYTES)):
                    return False
                self._input = more.lstrip(b"\0")
            self._inflate = zlib.decompressobj(_GZIP)
        return True
