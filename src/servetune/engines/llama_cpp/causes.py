"""Why llama.cpp's server ended: from its log, and from how its process ended."""

import re
import signal

from servetune.engines.endings import ended, in_one_line, killed, signal_of

LOADED = "model loaded"
"""From here on errors are of requests."""

_REFUSED = re.compile(r"^llama\.cpp: error: (.+)")
"""How `inside_serve` refuses an argument, or a folder."""
_ERROR = re.compile(r"^[\d.]+ E (.*\S)")
_ABORTED = re.compile(r"(GGML_ASSERT\(.+\) failed|what\(\): +.+|(?:malloc|free)\(\): .+)")
_RAISED = re.compile(r"^((?:\w+\.)*\w*Error: .+)")


def explain(log: list[str], exit_code: int | None = None) -> str | None:
    """Return why a server ended: the first error of its start, its last words, or its exit code."""
    by = signal_of(exit_code)
    if by == signal.SIGKILL:
        return killed(by)  # The process had no time to say anything.
    is_loaded = any(LOADED in line for line in log)
    patterns = (
        _REFUSED,
        _ABORTED,
        *([] if is_loaded else [_ERROR]),
        _RAISED,
    )
    matches = (pattern.search(line) for pattern in patterns for line in log)
    cause = next((match[1] for match in matches if match), None)
    if cause is None:
        return killed(by) if by else ended(exit_code)
    cause = in_one_line(" ".join(cause.split()))
    return f"{cause}; {killed(by)}" if by else cause
