"""Where clients run in lockstep, so that TTFT tells nothing of a variant."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from servetune.analysis.lockstep import is_of_wave
from servetune.analysis.wording import listed, place_of, places
from servetune.tables.frames import grouped

MARK = "\N{PILCROW SIGN}"
"""Stands beside a TTFT that is the time of a wave of prompts."""

Place = tuple[str, str]


def mark(row: Mapping[str, Any], metric: str, waves: Collection[Place]) -> str:
    """Return the mark of a row's metric; empty of all but a TTFT among the `waves`."""
    return MARK if is_of_wave(metric) and place_of(dict(row)) in waves else ""


def cautions(waves: Mapping[Place, list[str]]) -> Iterator[str]:
    """Say where TTFT tells nothing, a sentence for the load points of the same variants."""
    for variants, at in grouped(waves, lambda place: tuple(waves[place])).items():
        yield (
            f"{MARK} At {places(at)} the clients of {listed(variants)} send in lockstep:"
            " TTFT is the time of a wave of prompts there, and tells nothing of any variant."
        )
