"""How a process ended, in words, whatever engine it ran."""

import signal

from servetune.errors import printable

LONGEST = 500
"""Characters of a cause: some engines print a whole request, or a graph."""

_MEANS = {
    signal.SIGKILL: "probably this host, or its container, ran out of memory",
    signal.SIGILL: "this build of the engine uses instructions that the processor does not have",
}


def signal_of(exit_code: int | None) -> signal.Signals | None:
    """Return the signal that ended a process, by its exit code as a shell tells it."""
    try:
        return signal.Signals(exit_code - 128) if exit_code else None
    except ValueError:
        return None


def killed(by: signal.Signals) -> str:
    """Say that a signal ended a process, and what it means."""
    meaning = f": {_MEANS[by]}" if by in _MEANS else ""
    return f"killed by signal {by.value} ({by.name}){meaning}"


def ended(exit_code: int | None) -> str | None:
    """Say how a process ended of which no more is known."""
    return None if exit_code is None else f"ended with exit code {exit_code}"


def in_one_line(text: str) -> str:
    """Return a cause in one line of bounded length."""
    line = printable(": ".join(part.strip(" :") for part in text.splitlines()))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
