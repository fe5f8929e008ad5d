"""Why a server ended: from its log, and from how its process ended."""

import re
import signal

from servetune.engines.endings import ended, in_one_line, killed, signal_of

ARGPARSE_REFUSED = 2
"""The exit code of a command whose arguments were refused."""

_NO_ERROR = re.compile(r"\b(?:INFO|WARNING) \d\d-\d\d ")
_CONSEQUENCE = re.compile(
    r"Engine core initialization failed|EngineDeadError|Engine core process \S+ died unexpectedly"
    r"|Frontend process failed|died with exit code -?\d|WorkerProc initialization failed"
)
_ASSERTED = re.compile(r"Assertion `(.*)` failed")
_PYDANTIC = re.compile(r"Value error, (.*?)(?: \[type=.*)?$")
_ERROR = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception): .*)$")
_LOGGED = re.compile(r"\b(?:ERROR|CRITICAL) \d\d-\d\d \S+ \[\S+\] (.*\S)")

_REFUSED = re.compile(r"^[\w. -]+: error: (.+(?:\n .+)*)", re.MULTILINE)
"""How argparse refuses arguments; what is wrong with a value may follow on lines of its own."""
_OF_PYDANTIC = re.compile(r" \[type=.*|\n +For further information visit .*")

_ABORTED = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"what\(\): +(.+)",
        r"terminate called after throwing an instance of '(.+)'",
        r"panicked at (.+:\n.+)",
        r"panicked at (.+)",
        r"Assertion [`'](.+)' failed",
        r"((?:malloc|realloc|free|munmap_chunk)\(\): .+|(?:double free|corrupted size) .+)",
        r"Fatal Python error: (.+)",
    )
)
"""The last words of C++, Rust, C, its library and Python, the most telling first."""

_PART_KILLED = re.compile(
    r"(?:'([^']+)': |Process (\S+) \(PID: \d+\) died with exit code"
    r" |Worker proc (\S+) died unexpectedly \(exit code: )-9\b"
)


def explain(log: list[str], exit_code: int | None = None) -> str | None:
    """Return why a server ended: the root cause if its log tells one, else how its process ended.

    `exit_code` is the process's, as a shell tells it: above 128 it is a signal's. None: not known.
    """
    lines = [line for line in log if not _NO_ERROR.search(line)]
    text = "\n".join(lines)
    killed_by = signal_of(exit_code)
    if killed_by == signal.SIGKILL:
        return killed(signal.SIGKILL)  # The process had no time to say anything.
    if part := _PART_KILLED.search(text):
        return f"{next(filter(None, part.groups()))} was {killed(signal.SIGKILL)}"
    refusal = _refusal(text) if exit_code == ARGPARSE_REFUSED else None
    cause = refusal or _error(lines) or _abort(text) or _last_words(lines)
    if cause is None:
        return killed(killed_by) if killed_by else ended(exit_code)
    cause = in_one_line(cause)
    return f"{cause}; {killed(killed_by)}" if killed_by else cause


def _error(lines: list[str]) -> str | None:
    """Return the error that others followed from, or None where only what followed is told."""
    errors = [match.group(1) for line in lines if (match := _ERROR.search(line))]
    # pydantic puts what is wrong on a line of its own, below the name of its error.
    errors += [match.group(1) for line in lines if (match := _PYDANTIC.search(line))]
    causes = [error for error in errors if not _CONSEQUENCE.search(error)]
    if not causes:
        return None
    # Wrappers re-raise the first error in other words; later ones are often its consequence.
    cause = causes[-1]
    asserted = next((match.group(1) for line in lines if (match := _ASSERTED.search(line))), None)
    return f"{cause} ({asserted})" if asserted and "assert" in cause else cause


def _refusal(text: str) -> str | None:
    refusals = _REFUSED.findall(text)
    return _OF_PYDANTIC.sub("", refusals[-1]) if refusals else None


def _abort(text: str) -> str | None:
    matches = (pattern.search(text) for pattern in _ABORTED)
    return next((match.group(1) for match in matches if match), None)


def _last_words(lines: list[str]) -> str | None:
    """Return the last error that is told without its kind, or what followed from one."""
    for pattern in (_LOGGED, _ERROR):
        told = [match.group(1) for line in lines if (match := pattern.search(line))]
        if told:
            return told[-1]
    return None
