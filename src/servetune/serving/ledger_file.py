"""The file of a launch in a ledger, to write to. Any environment can run it."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from servetune.records.spending import Amount


class Writer:
    """Writes what is sent, a line each, as long as it lives; any process may have one."""

    def __init__(self, path: Path) -> None:
        """Open a launch's file, and be counted among those that write to it."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def write(self, line: Any) -> None:
        """Write a line, at once: a process that is killed after it has written it."""
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def sending(self, most: Amount) -> None:
        """Count a request that is about to be sent."""
        self.write([most.requests, most.input_tokens, most.output_tokens])

    def settle(self, most: Amount, took: Amount) -> None:
        """Put what a request took, by its usage, in place of the most that it might."""
        self.write(
            [
                took.requests - most.requests,
                took.input_tokens - most.input_tokens,
                took.output_tokens - most.output_tokens,
            ]
        )

    def sync(self) -> None:
        """Wait until what is written would outlive the machine."""
        os.fsync(self._file)

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)
