"""What a closed loop takes, by one with fewer clients: on all that was recorded."""

from collections import defaultdict
from itertools import pairwise
from statistics import median

import pytest

from servetune.files import read_model
from servetune.plan.estimate import latency_s
from servetune.plan.times import times_of
from servetune.records.excerpts import LoadExcerpt
from servetune.sessions.watch import CRAWLS
from tests.paths import GALLERY


@pytest.fixture(scope="module")
def off() -> list[float]:
    """How many times as long a recorded closed loop took as the one before it tells."""
    launched = defaultdict(list)
    for path in (GALLERY / "results").glob("*/records/*.json"):
        load = read_model(path, LoadExcerpt)
        launched[path.parts[-3], load.variant, load.repeat].append(load)
    ratios = []
    for loads in launched.values():
        for seen in times_of([], loads, []).latencies.values():
            for lighter, (clients, took_s) in pairwise(sorted(seen)):
                if lighter[0] < clients:
                    ratios.append(took_s / latency_s([lighter], clients))
    return ratios


def test_a_closed_loop_takes_as_long_as_one_with_fewer_clients_tells(off: list[float]) -> None:
    assert len(off) > 300
    assert 0.9 < median(off) < 1.1


def test_no_recorded_load_would_have_been_said_to_crawl(off: list[float]) -> None:
    assert max(off) < CRAWLS
