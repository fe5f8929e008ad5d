"""Requests from pairs of questions: all first ones, then the second ones, each in a drawn order.

So a cache of answers has each first question's answer, if it keeps it, when the second one comes.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from servetune.errors import UserError
from servetune.study.datasets import PairsDataset
from servetune.study.opening import read_source
from servetune.study.rows import Row
from servetune.study.sources import records_of
from servetune.workloads.draws import Streams, below, draw_length

FIRST = "first"
"""The class of the first questions; that of a second one is its pair's category."""


def pair_rows(spec: PairsDataset, streams: Streams) -> Iterator[Row]:
    """Yield the questions of the pairs that are drawn.

    Raises:
        UserError: the first record that is no pair, or there are fewer than asked for.
    """
    pairs = _shuffled([*records_of(spec, read_source(spec.path))], streams.random("pairs"))
    if spec.pairs is not None:
        if len(pairs) < spec.pairs:
            raise UserError(f"{spec.path}: has {len(pairs)} pairs, not {spec.pairs}")
        pairs = pairs[: spec.pairs]
    lengths = streams.random("lengths")
    for pair in pairs:
        yield _row(spec, pair["a"], lengths, {"class": FIRST, "pair": pair["id"]})
    for pair in _shuffled(pairs, streams.random("second")):
        told = {"class": pair["category"], "pair": pair["id"], "is_same": pair["same_answer"]}
        yield _row(spec, pair["b"], lengths, told)


def _row(spec: PairsDataset, question: str, lengths: Random, told: dict[str, Any]) -> Row:
    asked: dict[str, Any] = {"prompt": question}
    if spec.system:
        said = (("system", spec.system), ("user", question))
        asked = {"messages": [{"role": role, "content": text} for role, text in said]}
    row: Row = {**asked, **told, "output_tokens": draw_length(lengths, spec.output_tokens)}  # type: ignore[typeddict-item]
    return row


def _shuffled(items: list[Any], random: Random) -> list[Any]:
    """Return items in a drawn order (Fisher and Yates)."""
    drawn = [*items]
    for last in range(len(drawn) - 1, 0, -1):
        other = below(random, last + 1)
        drawn[last], drawn[other] = drawn[other], drawn[last]
    return drawn
