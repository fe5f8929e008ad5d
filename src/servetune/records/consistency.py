"""Where a record contradicts itself: what it says that cannot all be true of one load.

The tolerances follow from what a number is. What is computed from the same requests agrees but for
rounding; quantiles are kept to five digits; times of day are whole seconds, of a clock that may be
set meanwhile. A throughput over a part of the load is bounded alone.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

from servetune.metrics import LATENCIES, PERCENTILES
from servetune.records.measurements import (
    Attained,
    ConversationMetrics,
    MeasurementRecord,
    Metrics,
)
from servetune.records.quality import QualityRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import Launch, SessionRecord
from servetune.records.values import seconds_between

ROUNDING = 1e-6
"""Of sums of floating-point numbers, as a ratio."""

FIVE_DIGITS = 1e-4
"""Of a quantile as it is kept, as a ratio; half of that is its rounding."""

CLOCK_S = 2.0
"""Between two times of whole seconds, beside a percent for a clock that is being set."""

OVERLAP = 0.01
"""Requests in flight above the concurrency, as a ratio: one is sent as another's end is noted."""

SHORT_WINDOW = 0.5
"""The least throughput of a window, as a ratio to the whole load's."""

BURST = 2.0
"""Requests in flight above the concurrency, as a ratio, where throughput is over a window and
latencies over the load; 0.055 in the studies that are recorded here, but 0.58 in a load of seconds
on a host that stalled: what waited is answered within the window."""

Recorded = MeasurementRecord | SearchRecord | QualityRecord | SessionRecord | Launch


def inconsistencies(record: Recorded) -> Iterator[str]:
    """Yield each contradiction within a record, in a sentence that begins with the key."""
    match record:
        case MeasurementRecord():
            yield from _of_measurement(record)
        case SearchRecord():
            yield from _of_search(record)
        case QualityRecord():
            yield from _times("started_at", record.started_at, "ended_at", record.ended_at)
            for place, document in enumerate(record.documents):
                if document.tokens != len(document.top1):
                    told = f"{document.tokens}, but {len(document.top1)} are told in top1"
                    yield f"documents.{place}.tokens: {told}"
        case SessionRecord():
            yield from _of_session(record)
        case Launch():
            yield from _times("started_at", record.started_at, "stopped_at", record.stopped_at)


def differ(one: float, other: float, tolerance: float = ROUNDING) -> bool:
    """Tell whether two numbers are farther apart than a ratio of the larger one."""
    return not math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-9)


def _times(began: str, began_at: str | None, ended: str, ended_at: str | None) -> Iterator[str]:
    seconds = seconds_between(began_at, ended_at)
    if seconds is not None and seconds < 0:
        yield f"{ended}: {ended_at}, before {began} {began_at}"


def _of_session(record: SessionRecord) -> Iterator[str]:
    for place, launch in enumerate(record.launches):
        yield from (f"launches.{place}.{told}" for told in inconsistencies(launch))
    for place, (before, after) in enumerate(pairwise(record.launches), start=1):
        if after.launch <= before.launch:
            yield f"launches.{place}.launch: {after.launch}, after {before.launch}"
        yield from (
            f"launches.{place}.{told}"
            for told in _times(
                "that of the launch before,", before.started_at, "started_at", after.started_at
            )
        )


def _of_search(record: SearchRecord) -> Iterator[str]:
    if len(set(record.measurements)) < len(record.measurements):
        yield "measurements: one of them twice"
    for name, tier in record.tiers.items():
        ends = (tier.lower, tier.capacity, tier.upper)
        known = [end for end in ends if end is not None]
        if any(above < below and differ(above, below) for below, above in pairwise(known)):
            yield f"tiers.{name}: lower, capacity and upper do not rise: {known}"


def _of_measurement(record: MeasurementRecord) -> Iterator[str]:
    yield from _times("started_at", record.started_at, "ended_at", record.ended_at)
    metrics = record.metrics
    if (metrics is None) != (record.status == "failed"):
        yield f"metrics: {'none' if metrics is None else 'some'}, but status is {record.status}"
    if metrics is None:
        return
    yield from _counts(record, metrics)
    yield from _throughput(record, metrics)
    yield from _latencies(record, metrics)
    yield from _conversations(record.conversations)
    if record.attained:
        yield from _attained(record, metrics, record.attained)
    wall_s = seconds_between(record.started_at, record.ended_at)
    if wall_s is not None and metrics.duration_s > 1.01 * wall_s + CLOCK_S:
        yield f"metrics.duration_s: {metrics.duration_s:g}, but the load took {wall_s:g} s in all"


def _counts(record: MeasurementRecord, metrics: Metrics) -> Iterator[str]:
    count, ended = metrics.requests, metrics.completed_requests + metrics.failed_requests
    if count != ended:
        yield f"metrics.requests: {count}, but {ended} completed or failed"
    if record.load.requests is not None and count > record.load.requests:
        yield f"metrics.requests: {count}, but the load has {record.load.requests}"
    of_turns = sum(turn.requests for turn in record.turns)
    if record.turns and of_turns != metrics.completed_requests:
        yield f"turns: of {of_turns} requests, but {metrics.completed_requests} completed"
    of_classes = sum(each.requests for each in record.classes if each.name is not None)
    if of_classes > count:
        yield f"classes: of {of_classes} requests, but the load counted {count}"


def _throughput(record: MeasurementRecord, metrics: Metrics) -> Iterator[str]:
    load, output_tok_s = record.load, metrics.output_throughput_tok_s
    completed, output, input = (
        metrics.completed_requests,
        metrics.output_tokens,
        metrics.input_tokens,
    )
    mean_tok_s = output / metrics.duration_s if metrics.duration_s else 0.0
    is_window = metrics.throughput_window == "while full"
    if is_window and (load.concurrency is None or load.is_open):
        yield "metrics.throughput_window: while full, but the load is no closed loop"
    if is_window:
        is_wrong = output_tok_s < SHORT_WINDOW * mean_tok_s
    else:
        is_wrong = differ(output_tok_s, mean_tok_s)
    if is_wrong:
        yield (
            f"metrics.output_throughput_tok_s: {output_tok_s:g}, but {output} tokens in"
            f" {metrics.duration_s:g} s are {mean_tok_s:g}"
        )
    for name, value, amount in (
        ("request_throughput_rps", metrics.request_throughput_rps, completed),
        ("total_throughput_tok_s", metrics.total_throughput_tok_s, input + output),
    ):
        by_output = amount * output_tok_s / output if output else value
        if differ(value, by_output):
            yield f"metrics.{name}: {value:g}, but {by_output:g} by the output tokens"
    if load.concurrency is not None and metrics.e2e_mean_ms is not None:
        # Little's law, over the load and over the window of a throughput.
        e2e_s = metrics.e2e_mean_ms / 1e3
        in_flight = metrics.request_throughput_rps * e2e_s
        at_once = record.conversations.turns_at_once_max if record.conversations else 1
        most = load.concurrency * at_once
        but = f"but concurrency is {load.concurrency}"
        but += f" of {at_once} turns" if at_once > 1 else ""
        if completed * e2e_s > most * metrics.duration_s * (1 + OVERLAP):
            yield (
                f"metrics.e2e_mean_ms: {metrics.e2e_mean_ms:g}, of {completed} requests in"
                f" {metrics.duration_s:g} s, {but}"
            )
        elif is_window and in_flight > most * (1 + BURST):
            yield (
                f"metrics.request_throughput_rps: {metrics.request_throughput_rps:g}, which with"
                f" requests of {metrics.e2e_mean_ms:g} ms takes {in_flight:.4g} in flight, {but}"
            )


def _latencies(record: MeasurementRecord, metrics: Metrics) -> Iterator[str]:
    for latency in LATENCIES:
        mean = getattr(metrics, f"{latency}_mean_ms")
        all_told = {p: getattr(metrics, f"{latency}_p{p}_ms") for p in PERCENTILES}
        told = {p: value for p, value in all_told.items() if value is not None}
        for (low, below), (high, above) in pairwise(told.items()):
            if below > above and differ(below, above):
                yield f"metrics.{latency}_p{low}_ms: {below:g}, above p{high} of {above:g}"
        if (quantiles := record.quantiles.get(f"{latency}_ms")) is None:
            continue
        if any(below > above for below, above in pairwise(quantiles)):
            yield f"quantiles.{latency}_ms: fall"
        for percentile, value in told.items():
            if differ(value, quantiles[percentile], FIVE_DIGITS):
                yield (
                    f"metrics.{latency}_p{percentile}_ms: {value:g}, but {quantiles[percentile]:g}"
                    " by the quantiles"
                )
        least, most = quantiles[0] * (1 - FIVE_DIGITS), quantiles[-1] * (1 + FIVE_DIGITS)
        if mean is not None and not least <= mean <= most:
            yield f"metrics.{latency}_mean_ms: {mean:g}, outside of the quantiles"
    first, whole = record.quantiles.get("ttft_ms", []), record.quantiles.get("e2e_ms", [])
    if any(ttft > e2e * (1 + FIVE_DIGITS) for ttft, e2e in zip(first, whole, strict=False)):
        yield "quantiles.ttft_ms: above those of e2e_ms"
    if whole and whole[-1] > 1e3 * metrics.duration_s * (1 + FIVE_DIGITS):
        yield f"metrics.duration_s: {metrics.duration_s:g}, but a request took {whole[-1]:g} ms"


def _conversations(conversations: ConversationMetrics | None) -> Iterator[str]:
    """Conversations last at least as long as their turns are in flight."""
    for name in ("p50", "p99") if conversations else ():
        busy, e2e = (getattr(conversations, f"{time}_{name}_s") for time in ("busy", "e2e"))
        if busy is not None and (e2e is None or (busy > e2e and differ(busy, e2e))):
            yield f"conversations.busy_{name}_s: {busy}, above e2e_{name}_s of {e2e}"


def _attained(record: MeasurementRecord, metrics: Metrics, attained: Attained) -> Iterator[str]:
    """At most so many requests keep to a limit as its quantiles tell, and a whole number."""
    within = attained.ratio * metrics.requests
    most = metrics.completed_requests
    # A request may have no TPOT, and the limit of the ITL is of its longest gap.
    for latency in {"ttft", "e2e"} & attained.limits_ms.keys():
        limit_ms = attained.limits_ms[latency] * (1 + FIVE_DIGITS)
        for percent, value in enumerate(record.quantiles.get(f"{latency}_ms", [])):
            if value > limit_ms:
                most = min(most, math.ceil(percent / 100 * (metrics.completed_requests - 1)))
                break
    if differ(within, round(within)) or round(within) > most:
        yield (
            f"attained.ratio: {attained.ratio:g} of {metrics.requests} requests, but at most {most}"
            " kept to the limits"
        )
