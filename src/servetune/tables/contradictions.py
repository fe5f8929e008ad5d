"""Where a record contradicts itself, or the requests that it was computed from."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.load.by_class import by_class
from servetune.load.request_table import (
    aggregate,
    attained,
    by_turn,
    quantiles,
    read_request_table,
)
from servetune.metrics import LATENCIES, PERCENTILES
from servetune.records.base import Record
from servetune.records.consistency import FIVE_DIGITS, ROUNDING, Recorded, differ, inconsistencies
from servetune.records.measurements import MeasurementRecord

_SUMS = (
    *("requests", "completed_requests", "failed_requests", "duration_s"),
    *("input_tokens", "output_tokens"),
)
_LATENCIES = tuple(
    f"{latency}_{statistic}_ms"
    for latency in LATENCIES
    for statistic in ("mean", *(f"p{percentile}" for percentile in PERCENTILES))
)
_THROUGHPUTS = (
    *("request_throughput_rps", "output_throughput_tok_s", "total_throughput_tok_s"),
    "throughput_window",
)


def contradictions(record: Recorded, requests: Path | None = None) -> list[str]:
    """Return what in a record cannot be true together, each in a sentence that begins with its key.

    `requests` is where the request table of a measurement would be. If it is there, all metrics
    that follow from it are computed again, by the definitions that the record names.

    Raises:
        DamagedError: what is there is no request table.
    """
    found = list(inconsistencies(record))
    if isinstance(record, MeasurementRecord) and requests is not None and requests.exists():
        found += _by_requests(record, read_request_table(requests))
    return found


def _by_requests(record: MeasurementRecord, requests: pd.DataFrame) -> Iterator[str]:
    """Yield what differs from what the requests give."""
    metrics = record.metrics
    if metrics is None:
        return
    by_requests = aggregate(requests, {}, record.load)
    # Of an older record the throughputs are over the whole load, which its own sums tell.
    throughputs = _THROUGHPUTS if metrics.throughput_window else ()
    if record.definitions:
        # Before definitions had a number, more was certain.
        throughputs = (*throughputs, "throughput_is_uncertain")
    for name in (*_SUMS, *throughputs, *_LATENCIES):
        yield from _differs(f"metrics.{name}", getattr(metrics, name), getattr(by_requests, name))
    for name, values in quantiles(requests).items():
        for recorded, value in zip(record.quantiles.get(name, []), values, strict=False):
            yield from _differs(f"quantiles.{name}", recorded, value, FIVE_DIGITS)
    if record.attained and (again := attained(requests, record.attained.limits_ms)):
        yield from _differs("attained.ratio", record.attained.ratio, again.ratio)
    if record.turns:
        yield from _rows_differ("turns", record.turns, by_turn(requests))
    if record.classes:
        yield from _rows_differ("classes", record.classes, by_class(requests, record.load))


def _rows_differ(key: str, recorded: Sequence[Record], rows: Sequence[Record]) -> Iterator[str]:
    for place, (row, other) in enumerate(zip(recorded, rows, strict=False)):
        for name, value in other:
            yield from _differs(f"{key}.{place}.{name}", getattr(row, name), value)


def _differs(key: str, recorded: Any, value: Any, tolerance: float = ROUNDING) -> Iterator[str]:
    """Yield a sentence if a record tells another value; None, of an older record, tells none."""
    if recorded is None:
        return
    are_numbers = all(isinstance(each, int | float) for each in (recorded, value))
    if differ(recorded, value, tolerance) if are_numbers else recorded != value:
        told = f"{value:g}" if isinstance(value, int | float) else value
        yield f"{key}: {recorded}, but its requests give {told}"
