"""What replicas and gateways did, as rows of tables: launches taken together."""

from collections.abc import Callable, Iterable
from statistics import mean
from typing import Any

import pandas as pd

from servetune.analysis.hits import Hits
from servetune.analysis.verdicts import compare
from servetune.analysis.wording import place_of, proportion, ratio, where_of
from servetune.metrics import METRIC
from servetune.numbers import NONE, number, whole
from servetune.records.fleets import FleetMetrics, ReplicaMetrics
from servetune.records.routing import BY_PREFIX
from servetune.report.measured import Measured
from servetune.report.table import Cell, Name, Table
from servetune.report.verdicts import HEADS, interval, wanting, worded
from servetune.tables.frames import grouped, records_of

COST = ("ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms", "output_throughput_tok_s")
"""The metrics in which a gateway's own cost is shown, those of them that are judged."""

Fleets = dict[tuple[str, str, str], list[tuple[dict[str, Any], FleetMetrics]]]
"""Rows with what the replicas did, by load point and variant."""


def fleets_of(measured: Measured) -> Fleets:
    """Return the valid measurements of fleets, launches of the same together."""
    if "fleet" not in measured.points:
        return {}
    ok = measured.points[measured.points["status"] == "ok"]
    told = [
        (row, FleetMetrics.model_validate_json(row["fleet"]))
        for row in records_of(ok)
        if isinstance(row["fleet"], str)
    ]
    return grouped(told, lambda pair: (*place_of(pair[0]), str(pair[0]["variant"])))


def by_replica(fleets: Fleets) -> Table | None:
    """Show what each replica did: a row a load point and variant; None without a fleet."""
    rows: list[list[Cell]] = []
    for same in fleets.values():
        row, each = same[0][0], [fleet for _, fleet in same]
        rows.append(
            [
                *(where_of(row), Name(row["variant"])),
                _mean([known["prefix_cache_hit_ratio"] for known, _ in same], proportion),
                _each(each, lambda replica: replica.prefix_cache_hit_ratio, proportion),
                _each(each, lambda replica: replica.requests, whole),
                _mean([fleet.imbalance_ratio for fleet in each], ratio),
                _mean([fleet.token_imbalance_ratio for fleet in each], ratio),
                _each(each, lambda replica: replica.running_mean, number),
                _each(each, lambda replica: replica.kv_cache_usage_mean_ratio, proportion),
                _mean([fleet.kv_cache_spread_ratio for fleet in each], proportion),
            ]
        )
    heads = (
        *("Load point", "Variant", "Hits", "Hits by replica", "Requests by replica"),
        *("Busiest, requests", "Busiest, tokens", "Running by replica"),
        *("KV cache by replica", "Fullest less emptiest"),
    )
    return Table("What each replica did", heads, rows, texts=heads[:2]) if rows else None


def by_gateway(fleets: Fleets) -> Table | None:
    """Show what each gateway did: turns that met their prefix, fallbacks, retries, breakers."""
    rows: list[list[Cell]] = []
    for same in fleets.values():
        row, each = same[0][0], [fleet for _, fleet in same]
        rows.append(
            [
                *(where_of(row), Name(row["variant"])),
                _mean([fleet.met_ratio for fleet in each], proportion),
                _mean([_fallbacks(fleet) for fleet in each], proportion),
                _mean([fleet.retries for fleet in each], _short),
                _mean([fleet.breakers_opened for fleet in each], _short),
            ]
        )
    heads = (
        *("Load point", "Variant", "Turns that met their prefix", "Decisions by load alone"),
        *("Retries", "Opened breakers"),
    )
    return Table("What the gateway did", heads, rows, texts=heads[:2]) if rows else None


def by_hits(measured: Measured) -> Table | None:
    """Show how many more prompt tokens a policy's caches held than the baseline's, in verdicts."""
    rows: list[list[Cell]] = [
        [
            *(f"{hits.workload} · {hits.load_point}", Name(hits.variant), str(hits.launches)),
            *(proportion(hits.ratio), proportion(hits.base_ratio)),
            _points_of(hits),
            hits.verdict,
        ]
        for hits in measured.hits
    ]
    heads = (
        *("Load point", "Variant", "Shared launches", "Hits", "Baseline's hits"),
        *("Difference, points", "Verdict"),
    )
    texts = (*heads[:2], heads[-1])
    return Table("Hits beside the baseline's", heads, rows, texts=texts) if rows else None


def _points_of(hits: Hits) -> str:
    by = f"{100 * (hits.ratio - hits.base_ratio):+.1f}"
    if hits.low is None or hits.high is None:
        return by
    return f"{by} [{100 * hits.low:+.1f}, {100 * hits.high:+.1f}]"


def costs(measured: Measured) -> Table | None:
    """Show what gateways cost themselves: against the same servers without one, in verdicts."""
    rows: list[list[Cell]] = []
    for direct, behind in _pairs(measured):
        values = measured.judgement.one_look
        told = compare(
            values[values["variant"].isin([direct, *behind])], direct, measured.plan.equivalence
        )
        for row in records_of(told[told["metric"].isin(COST)]):
            word = worded(row["verdict"], METRIC[row["metric"]])
            more = f"; {wants}" if (wants := wanting(row)) else ""
            at = f"{row['workload']} {row['load_point']}"
            beside: list[Cell] = [Name(row["variant"]), Name(direct), at]
            rows.append([*beside, HEADS[row["metric"]], interval(row), f"{word}{more}"])
    heads = ("Behind the gateway", "Direct", "Load point", "Metric", "Ratio", "Verdict")
    texts = (*heads[:4], heads[5])
    return Table("What the gateway costs", heads, rows, texts=texts) if rows else None


def deaths(fleets: Fleets) -> Table | None:
    """Show what deaths of replicas cost: a row a launch; None without one."""
    rows: list[list[Cell]] = []
    for same in fleets.values():
        for row, fleet in same:
            if (death := fleet.death) is None:
                continue
            rows.append(
                [
                    *(where_of(row), Name(row["variant"]), str(row["repeat"])),
                    *(str(death.replica), number(death.at_s)),
                    NONE if death.in_flight is None else str(death.in_flight),
                    *(str(death.lost), str(death.not_sent), whole(fleet.retries)),
                    NONE if death.last_lost_s is None else number(death.last_lost_s),
                    NONE if death.noticed_s is None else number(death.noticed_s),
                ]
            )
    heads = (
        *("Load point", "Variant", "Launch", "Replica", "After, s", "In flight", "Lost"),
        *("Turns not sent", "Retries", "Last lost sent, s", "Noticed, s"),
    )
    return Table("Deaths of replicas", heads, rows, texts=heads[:2]) if rows else None


def _pairs(measured: Measured) -> list[tuple[str, list[str]]]:
    """Return each variant without a gateway, with those that are before the same servers."""
    sessions = [each for each in measured.plan.sessions if each.servers]
    found: dict[str, list[str]] = {}
    for session in sessions:
        if session.gateway is None:
            same = [s.variant for s in sessions if s.servers == session.servers and s.gateway]
            found[session.variant] = list(dict.fromkeys([*found.get(session.variant, []), *same]))
    return [(direct, behind) for direct, behind in found.items() if behind]


def _fallbacks(fleet: FleetMetrics) -> float | None:
    """Return the share of decisions that no prefix decided; None of a policy without prefixes."""
    outcomes = fleet.decisions
    decisions = sum(outcomes.values())
    if not decisions:
        return None
    return sum(n for name, n in outcomes.items() if not name.startswith(BY_PREFIX)) / decisions


def _short(value: float) -> str:
    return f"{value:.3g}"


def _mean(values: Iterable[Any], write: Callable[[float], str]) -> str:
    known = [float(value) for value in values if value is not None and not pd.isna(value)]
    return write(mean(known)) if known else NONE


def _each(
    fleets: list[FleetMetrics],
    value: Callable[[ReplicaMetrics], float | None],
    write: Callable[[float], str],
) -> str:
    """Write a mean over the launches of each replica: 48 / 16."""
    count = max(len(fleet.replicas) for fleet in fleets)
    of_replicas = (
        [value(fleet.replicas[i]) for fleet in fleets if i < len(fleet.replicas)]
        for i in range(count)
    )
    return " / ".join(_mean(values, write) for values in of_replicas)
