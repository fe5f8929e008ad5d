"""How far a search for the capacity is after each probe: an error model for who uses its answers.

Run: uv run python benchmarks/search_paths.py [--searches N]

Searches simulated servers whose capacity is known, as benchmarks/capacity_simulation.py does, and
writes what each knew after each probe to recorded/search_paths.json. They begin at what a short
closed loop predicts, as a search does.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from capacity_simulation import (
    BETWEEN_S,
    CASES,
    FRESH,
    TOLERANCES,
    Case,
    declared,
    search_once,
    true_capacity,
)

from servetune.capacity.boundary import locate
from servetune.capacity.search import BEYOND, observations_of
from servetune.study.capacity import Search

RECORDED = Path(__file__).parent / "recorded" / "search_paths.json"

SERVERS = (*CASES[3:6], *CASES[9:], *FRESH[3:])
"""Those that batch continuously."""


@dataclass(frozen=True)
class Known:
    """What a search knows after a probe, over the capacity.

    `requests` is the time since it began, in requests at the capacity.
    """

    requests: float
    median: float
    lower: float
    upper: float


SearchPath = tuple[Known, ...]
"""A search, probe by probe."""


def path_of(case: Case, search: Search, seed: int, truth: float) -> SearchPath:
    """Search once."""
    _, history, spent = search_once(case, search, seed)
    ends = (search.lowest / BEYOND, search.highest * BEYOND, search.confidence)
    known = []
    for count in range(1, len(history) + 1):
        # A probe began when those before it had ended.
        began_s = history[count].began_s if count < len(history) else None
        at = locate(observations_of("tier", history[:count]), *ends)
        seconds = spent.seconds if began_s is None else began_s - BETWEEN_S * count
        row = (seconds * truth, at.median / truth, at.lower / truth, at.upper / truth)
        known.append(Known(*(float(f"{value:.4g}") for value in row)))
    return tuple(known)


def recorded() -> list[SearchPath]:
    """Return the paths that were recorded."""
    rows = json.loads(RECORDED.read_bytes())
    return [tuple(Known(*each) for each in known) for known in rows]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=20, help="of each server")
    searches = parser.parse_args().searches
    lines = []
    for case in SERVERS:
        truth, search = true_capacity(case), declared(case, TOLERANCES[0])
        for seed in range(searches):
            rows = [[*vars(known).values()] for known in path_of(case, search, seed, truth)]
            lines.append(json.dumps(rows, separators=(",", ":")))
        print(f"{case.name}: capacity {truth:.4g}", flush=True)
    RECORDED.write_text("[" + ",\n".join(lines) + "]\n")


if __name__ == "__main__":
    main()
