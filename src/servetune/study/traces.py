"""Traces in Mooncake's format: their lines, and whether they are what the study says they are."""

import math
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, FiniteFloat, TypeAdapter

from servetune.errors import UserError
from servetune.study.base import Tokens
from servetune.study.datasets import MooncakeDataset
from servetune.study.lines import json_lines, wrong_line

TRACE_EXPECTED = '{"timestamp": N, "input_length": N, "output_length": N, "hash_ids": [...]}'

PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}

_ENOUGH_LINES = 10
_PLAUSIBLE_RPS = (0.01, 100)
"""What the traces of public services have, with room: a unit taken for another is outside."""


class _TraceLine(BaseModel, strict=True, extra="forbid"):
    timestamp: FiniteFloat
    input_length: Tokens
    output_length: Tokens
    hash_ids: list[int | str]


_TRACE_LINE = TypeAdapter(_TraceLine)


def trace_lines(spec: MooncakeDataset, text: str) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of a trace's lines.

    Raises:
        UserError: the first line that is wrong, whose time is before that of the line above, or
            whose ids stand for blocks of another size than the study says.
    """
    last = None
    for number, line in json_lines(spec.path, text, _TRACE_LINE, TRACE_EXPECTED):
        now = line["timestamp"]
        if last is not None and now < last:
            expected = f"a timestamp of at least {last}, that of the line before"
            raise wrong_line(spec.path, number, expected, now)
        last = now
        _check_blocks(spec, number, line)
        yield number, line


def _check_blocks(spec: MooncakeDataset, number: int, line: dict[str, Any]) -> None:
    """Check that there is an id for each block, or for each whole one, or that there are none."""
    ids, tokens = len(line["hash_ids"]), line["input_length"]
    if ids and ids not in (tokens // spec.block_tokens, math.ceil(tokens / spec.block_tokens)):
        raise UserError(
            f"{spec.path}: line {number}: {ids} hash_ids for {tokens} tokens are not blocks of"
            f" {spec.block_tokens} (block_tokens); {_fitting(ids, tokens)}"
        )


def _fitting(ids: int, tokens: int) -> str:
    """Say which sizes of a block give so many ids."""
    least = math.ceil(tokens / ids)
    if ids == 1:
        return f"expected at least {least}"
    most = math.ceil(tokens / (ids - 1)) - 1
    if most < least:
        return "no size of a block gives so many"
    usual = 2 ** int(math.log2(most))
    return f"write block_tokens: {usual}" if usual >= least else f"expected {least} to {most}"


def check_times(spec: MooncakeDataset, times: list[float]) -> None:
    """Check that a unit that nobody declared gives a pace that servers have.

    Raises:
        UserError: it does not; asks for the unit.
    """
    if "time_unit" in spec.model_fields_set or len(times) < _ENOUGH_LINES or times[0] == times[-1]:
        return
    span_s = (times[-1] - times[0]) / PER_SECOND[spec.time_unit]
    rate_rps = (len(times) - 1) / span_s
    if not _PLAUSIBLE_RPS[0] <= rate_rps <= _PLAUSIBLE_RPS[1]:
        raise UserError(
            f"{spec.path}: {len(times):,} lines in {span_s:,.6g} s, {rate_rps:.3g} requests per"
            f" second, if timestamps are in {spec.time_unit}; write the unit that they have as"
            f" time_unit: {', '.join(PER_SECOND)}"
        )
