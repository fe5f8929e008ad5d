"""Traces of lengths and times: Mooncake's and BurstGPT's, and whether the study says what they are.

Mooncake's lines may be of sessions, as AIPerf writes them: a later line of one has the tokens that
it adds, and a delay after the answer to the line before in place of a time.
"""

import csv
import io
import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter

from servetune.errors import UserError
from servetune.study.base import Tokens
from servetune.study.datasets import BurstGptDataset, MooncakeDataset, TraceDataset
from servetune.study.lines import Place, check_shape, json_lines, values_of
from servetune.study.opening import Source

TRACE_EXPECTED = '{"timestamp": N, "input_length": N, "output_length": N, "hash_ids": [...]}'
BURST_EXPECTED = "the columns Timestamp, Model, Request tokens and Response tokens of BurstGPT"

PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}

_ENOUGH_LINES = 10
"""The pace of fewer says nothing of their unit: they may be a burst."""

_PLAUSIBLE_RPS = (0.01, 100)
"""What the traces of public services have, with room: a unit taken for another is outside."""


def per_second(spec: TraceDataset) -> int:
    """Return how many of a trace's units of time are a second."""
    return PER_SECOND[spec.time_unit] if isinstance(spec, MooncakeDataset) else 1


class _TraceLine(BaseModel, strict=True, extra="forbid"):
    timestamp: FiniteFloat | None = None
    input_length: Tokens
    output_length: Tokens
    hash_ids: list[int | str] = []
    session_id: str | None = None
    delay: Annotated[FiniteFloat, Field(ge=0)] | None = None
    # What a generator of traces says of a session's blocks, which the ids say themselves.
    group_id: Any = None
    is_restart: Any = None


class _BurstRow(BaseModel, extra="forbid"):
    timestamp: FiniteFloat = Field(alias="Timestamp")
    requested: Tokens = Field(alias="Request tokens")
    answered: Annotated[int, Field(ge=0)] = Field(alias="Response tokens")
    model: str | None = Field(None, alias="Model")
    total: Any = Field(None, alias="Total tokens")
    log: Any = Field(None, alias="Log Type")
    session: Any = Field(None, alias="Session ID")
    elapsed: Any = Field(None, alias="Elapsed time")


_TRACE_LINE, _BURST_ROW = TypeAdapter(_TraceLine), TypeAdapter(_BurstRow)


def trace_lines(spec: TraceDataset, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the numbers and values of a trace's lines, in Mooncake's form.

    Raises:
        UserError: the first line that is wrong, whose time is before that of the line above, or
            whose ids stand for blocks of another size than the study says.
    """
    last = -math.inf
    lines: Iterator[tuple[int, Any]]
    if isinstance(spec, MooncakeDataset):
        lines = _session_lines(spec, source)
    else:
        lines = _burst_lines(spec, source)
    for number, line in lines:
        if (now := line.get("timestamp")) is not None:
            if now < last:
                expected = f"a timestamp of at least {last}, that of the line before"
                raise Place(source, number).wrong(expected, now)
            last = now
        yield number, line


def _session_lines(spec: MooncakeDataset, source: Source) -> Iterator[tuple[int, Any]]:
    sessions: set[str] = set()
    for number, line in json_lines(source, _TRACE_LINE, TRACE_EXPECTED):
        place, session, at = Place(source, number), line.get("session_id"), line.get("timestamp")
        if session in sessions:
            if at is not None:
                expected = "a delay, as a later line of a session waits for the answer before"
                raise place.wrong(expected, at, "timestamp")
        elif at is None:
            raise UserError(f"{place}: timestamp: missing; expected {TRACE_EXPECTED}")
        elif line.get("delay"):
            expected = "none, as the line waits for no answer: its timestamp says when"
            raise place.wrong(expected, line["delay"], "delay")
        else:
            _check_blocks(spec, place, line)
        if session is not None:
            sessions.add(session)
        yield number, line


def _burst_lines(spec: BurstGptDataset, source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a model; those without an answer are failures."""
    for number, given in _burst_rows(source):
        row = check_shape(Place(source, number), given, _BURST_ROW, BURST_EXPECTED)
        if row.answered and spec.model in (None, row.model):
            lengths = {"input_length": row.requested, "output_length": row.answered}
            yield number, {"timestamp": row.timestamp, **lengths}


def _burst_rows(source: Source) -> Iterator[tuple[int, Any]]:
    if source.unit == "record":
        yield from values_of(source, BURST_EXPECTED)
        return
    reader = csv.DictReader(io.StringIO(source.text, newline=""), restkey="more than the columns")
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(f"{Place(source, reader.line_num)}: not CSV: {error}") from None


def _check_blocks(spec: MooncakeDataset, place: Place, line: dict[str, Any]) -> None:
    """Check that there is an id for each block, or for each whole one, or that there are none."""
    ids, tokens = len(line.get("hash_ids", ())), line["input_length"]
    if ids and ids not in (tokens // spec.block_tokens, math.ceil(tokens / spec.block_tokens)):
        raise UserError(
            f"{place}: {ids} hash_ids for {tokens} tokens are not blocks of"
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
