"""Which cores a process may use, given to what it starts."""

import contextlib
import os
from collections.abc import Collection, Iterator


@contextlib.contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Start on these cores what this thread starts meanwhile; on its own where there are none."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
