"""What runs now, how far it is: one line at a time on standard error."""

import sys
import time

_BEGAN = time.monotonic()


def say(message: str) -> None:
    """Print one line of progress, with the seconds since this process began."""
    seconds = int(time.monotonic() - _BEGAN)
    print(f"[{seconds // 60:2d}:{seconds % 60:02d}] {message}", file=sys.stderr, flush=True)
