"""A load in shares, a process each, where one core does not carry all of its streams."""

import math

from servetune.load.schedule import ScheduledRequest
from servetune.records.loads import Load

STREAMS, CHUNKS_PER_S = 2_000, 20_000
"""A process takes so many streams, or chunks a second, at most: half of what one core carries
(`benchmarks/load_scale.py`)."""


def count_shares(schedule: list[ScheduledRequest], load: Load, cores: int) -> int:
    """Return how many processes a load needs, at most one a core."""
    first = sum(request.turn == 0 for request in schedule)
    streams = min(load.concurrency or first, first)
    tokens = sum(request.output_tokens for request in schedule) / max(len(schedule), 1)
    finite = load.rate_rps if load.rate_rps and math.isfinite(load.rate_rps) else 0.0
    # Of an open loop the rate bounds the chunks, and its streams are not known before.
    needed = finite * tokens / CHUNKS_PER_S if finite else streams / STREAMS
    return max(1, min(cores, math.ceil(needed), streams))


def shares(
    schedule: list[ScheduledRequest], load: Load, count: int
) -> list[tuple[list[ScheduledRequest], Load]]:
    """Deal the conversations of a schedule in turn, and the concurrency of the load evenly."""
    places = {number: i for i, number in enumerate(dict.fromkeys(r.conversation for r in schedule))}
    dealt = []
    for share in range(count):
        part = [r for r in schedule if places[r.conversation] % count == share]
        concurrency = load.concurrency
        if concurrency is not None:
            concurrency = concurrency // count + (share < concurrency % count)
        dealt.append((part, load.model_copy(update={"concurrency": concurrency})))
    return dealt
