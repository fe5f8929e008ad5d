"""The measurements of a search for the capacity, planned one by one.

Probe 0 is a short closed loop, from which the first load is predicted; the others are chosen by
`servetune.capacity.search` from those before them. What decides a probe's number is its load, its
rule to stop and its place in the search, so that a search that was interrupted goes on.
"""

from itertools import takewhile

from servetune.capacity.boundary import predict
from servetune.capacity.pace import Slice
from servetune.capacity.rule import ProbeRule
from servetune.capacity.search import Capacity, NextProbe, Probed, next_step
from servetune.capacity.sequential import Judgement
from servetune.plan.identity import digest
from servetune.plan.planned import Measurement, PlannedProbe, PlannedSearch
from servetune.records.measurements import MeasurementRecord, Probe, Stopped
from servetune.records.values import seconds_between
from servetune.study.capacity import Slo
from servetune.study.workloads import LoadPoint

# A judgement: four rounds of few requests tell a mean latency, and no more is asked of them.
PILOT_CONCURRENCY = 16
PILOT_REQUESTS = 64

MOST_SENT = 4
"""At most so many requests are sent for each that may count: the others settle."""

MOST_USELESS = 3
"""So many probes in a row that failed or are invalid end a search: more would be no better."""

NEIGHBOURS = ("other-processes", "other-gpu-processes")
"""Validity rules that other processes of the host break: they say nothing of the load."""


def pilot(search: PlannedSearch) -> Measurement:
    """Return the closed loop that comes before the first probe."""
    point = LoadPoint(concurrency=PILOT_CONCURRENCY, requests=PILOT_REQUESTS)
    return measurement(search, 0, point)


def probe(search: PlannedSearch, index: int, step: NextProbe) -> Measurement:
    """Return the measurement of one probe; `index` counts from 1."""
    settings = search.settings
    is_rate = settings.over == "rate"
    point = LoadPoint(
        rate_rps=step.load if is_rate else None,
        concurrency=None if is_rate else int(step.load),
        requests=MOST_SENT * settings.probe_requests,
        duration_s=settings.probe_seconds,
    )
    rule = ProbeRule(
        tiers=settings.slo,
        tier=step.tier,
        error=settings.probe_error,
        is_open_loop=is_rate,
        settled_requests=settings.probe_requests,
    )
    return measurement(search, index, point, rule)


def measurement(
    search: PlannedSearch, index: int, point: LoadPoint, rule: ProbeRule | None = None
) -> Measurement:
    """Return a measurement of a search: its place, its load, and what ends it, if anything."""
    # Each probe has arrivals of its own, so that two at the same load are two pieces of evidence.
    seeded = search.load.model_copy(update={"seed": search.load.seed + index})
    load = seeded.at(point)
    place = {"index": index, **(rule.model_dump(exclude_none=True) if rule else {})}
    content = {**search.identity.content(load), "probe": place}
    name = search.id.rsplit("-", 1)[0]
    return Measurement(
        id=f"{name}-{index}-{point.name}-{digest(content)}",
        workload=search.workload,
        load_point=point.name,
        load=load,
        probe=PlannedProbe(search=search.id, index=index, rule=rule),
    )


def nothing_found(measurement: Measurement) -> Probe | None:
    """Return what a probe found that could not be made; None for what is no probe."""
    return probe_record(measurement.probe, "failed", {}) if measurement.probe else None


def probe_record(
    place: PlannedProbe,
    stopped: Stopped,
    judgements: dict[str, Judgement],
    slices: tuple[Slice, ...] | None = None,
) -> Probe:
    """Return what is recorded of a probe, at its place in its search."""
    return Probe(
        search=place.search,
        index=place.index,
        tier=place.rule.tier if place.rule else "",
        stopped=stopped,
        judgements=judgements,
        slices=slices,
    )


def predicted(search: PlannedSearch, record: MeasurementRecord) -> dict[str, float]:
    """Predict each tier's capacity from the closed loop; the lowest load if it told nothing."""
    settings = search.settings
    metrics = record.metrics
    if metrics is None or not metrics.e2e_mean_ms:
        return dict.fromkeys(settings.slo, settings.lowest)
    if settings.over == "concurrency":
        return dict.fromkeys(settings.slo, float(PILOT_CONCURRENCY))
    margins = {name: _margin(slo, record) for name, slo in settings.slo.items()}
    return predict(PILOT_CONCURRENCY, metrics.e2e_mean_ms / 1e3, margins)


def _margin(slo: Slo, record: MeasurementRecord) -> float:
    """Latency over limit of the worst objective, at the highest quantile that 64 requests tell."""
    ratios = [
        record.quantiles[f"{metric}_ms"][round(100 * (1 - objective.allowed_ratio))] / limit
        for objective in slo.objectives
        for metric, limit in objective.limits_ms.items()
        if f"{metric}_ms" in record.quantiles
    ]
    return max(ratios, default=1.0)


def history(search: PlannedSearch, records: list[MeasurementRecord]) -> list[Probed]:
    """Return what the probes of a search found, in their order; the closed loop is none of them.

    A probe that failed or is invalid decides nothing and bounds nothing. One that a neighbour on
    the host spoiled is none of them either: its load may be sent again.
    """
    is_rate = search.settings.over == "rate"
    nothing = dict.fromkeys(search.settings.slo, Judgement("undecided", "", ()))
    probed = []
    for record in records[1:]:
        if record.status == "invalid" and record.rule in NEIGHBOURS:
            continue
        load = record.load.rate_rps if is_rate else record.load.concurrency
        assert load is not None
        found = record.probe if record.status == "ok" else None
        probed.append(
            Probed(
                float(load),
                {**nothing, **(found.judgements if found else {})},
                began_s=seconds_between(records[0].started_at, record.started_at),
                slices=(found.slices if found else None) or (),
                preemptions=record.metrics.preemptions if record.metrics else None,
            )
        )
    return probed


def next_measurement(
    search: PlannedSearch, records: list[MeasurementRecord]
) -> Measurement | dict[str, Capacity]:
    """Return the next measurement of a search, from its records in order, or each tier's result."""
    if not records:
        return pilot(search)
    useless = list(takewhile(lambda record: record.status != "ok", reversed(records[1:])))
    if len(useless) >= MOST_USELESS:
        reason = f"{len(useless)} probes in a row are of no use: {useless[0].reason}"
        return failed_tiers(search, reason)
    seen = history(search, records)
    step = next_step(search.settings, predicted(search, records[0]), seen, search.beaten_below)
    return step if isinstance(step, dict) else probe(search, len(records), step)


def failed_tiers(search: PlannedSearch, reason: str) -> dict[str, Capacity]:
    """Return the results of a search that could not go on."""
    tiers = search.settings.slo
    return {tier: Capacity(tier, "failed", None, 0.0, None, "", reason) for tier in tiers}
