"""The tables of capacities: one row a (search, tier), and one a (probe, tier, objective)."""

import json
from dataclasses import asdict, fields

import pandas as pd

from servetune.capacity.launches import Interval, over_launches
from servetune.capacity.sequential import Evidence
from servetune.records.measurements import MeasurementRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import SEVERAL
from servetune.tables.frames import PENDING, measured_together

OF_SEARCH = ("search", "variant", "workload", "over", "repeat", "confidence")
SEARCHED = ("workload", "tier", "variant")
PLACE = ("measurement", "variant", "workload", "load_point", "repeat")

CAPACITIES = {
    **dict.fromkeys(("search", "variant", "workload", "tier", "over", "ended"), "object"),
    "repeat": "int64",
    **dict.fromkeys(("capacity", "lower", "upper", "confidence"), "float64"),
    **dict.fromkeys(("binding", "reason", "slo"), "object"),
    **dict.fromkeys(("probes", "launches"), "int64"),
    **dict.fromkeys(("requests", "seconds"), "float64"),
    **dict.fromkeys(("device", "servers", "is_steady"), "object"),
    "preemptions": "float64",
}
"""Columns of the table of capacities; `requests` and `seconds` are those of all its probes.

`launches` are those of the server that the probes ran on, and `device` those launches' devices, as
records name them. `device`, `is_steady` and `preemptions` are null where they are not known.
`servers` is the launch of servers that variants share; null where it was the search's own, or the
search went on upon another.
"""


def capacities(searches: list[SearchRecord], records: dict[str, MeasurementRecord]) -> pd.DataFrame:
    """Make the table of capacities: one row a (search, tier), in the unit of `over`."""
    rows = []
    for search in searches:
        probed = [records[id] for id in search.measurements]
        measured = [record.metrics for record in probed if record.metrics is not None]
        devices = dict.fromkeys(record.device for record in probed if record.device)
        servers = [*{record.servers for record in probed}]
        for tier, capacity in search.tiers.items():
            rows.append(
                {
                    **{name: getattr(search, name) for name in OF_SEARCH},
                    **asdict(capacity),
                    "is_steady": None if capacity.changes is None else not capacity.changes,
                    "slo": json.dumps(search.slo[tier]),
                    "probes": max(len(search.measurements) - 1, 0),
                    "launches": len({(record.session, record.launch) for record in probed}),
                    "device": SEVERAL.join(devices) or None,
                    "servers": servers[0] if len(servers) == 1 else None,
                    "requests": sum(metrics.requests for metrics in measured),
                    "seconds": sum(metrics.duration_s for metrics in measured),
                }
            )
    return pd.DataFrame(rows, columns=list(CAPACITIES)).astype(CAPACITIES)


NO_ANSWER = ("failed", "unsteady", PENDING)
"""Ends of a search without a capacity: its server failed, was not steady, or it is to come."""

PROBES = (*PLACE, "search", "probe", "load", "tier", "verdict", "binding", "stopped", "sent_for")


def probes(records: list[MeasurementRecord]) -> pd.DataFrame:
    """Make the table of probes: one row a (probe, tier, objective).

    `probe` counts from 1, `load` is in the unit of the search, `sent_for` is a tier, and
    `objective` null without settled requests.
    """
    rows = []
    for record in records:
        if record.probe is None or not record.probe.index:
            continue
        load = record.load.rate_rps or record.load.concurrency
        assert load is not None
        columns = {
            **{name: getattr(record, name) for name in PLACE},
            **record.probe.model_dump(include={"search", "stopped"}),
            "probe": record.probe.index,
            "sent_for": record.probe.tier,
            "load": float(load),
            "status": record.status,
            "duration_s": record.metrics.duration_s if record.metrics else None,
        }
        for tier, judgement in record.probe.judgements.items():
            columns |= {"tier": tier, "verdict": judgement.verdict, "binding": judgement.binding}
            evidence = [asdict(of) for of in judgement.evidence] or [{"objective": None}]
            rows += [{**columns, **of} for of in evidence]
    names = [field.name for field in fields(Evidence)]
    return pd.DataFrame(rows, columns=[*PROBES, "status", "duration_s", *names])


def metrics(table: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """Nest capacities as `<variant>.<workload>.<tier>_capacity_rps`, with `_lower` and `_upper`.

    A workload with a single tier needs no name of it: `capacity_rps`. A search over concurrency
    says `capacity_concurrency`. Repeats are taken `together`, and averaged where some are only
    bounded, without an `_upper` that one of them lacks; `_not_steady` counts those that have no
    capacity because the server was not steady.
    """
    joint = together(table)
    nested: dict[str, dict[str, dict[str, float]]] = {}
    tiers = table.groupby("workload")["tier"].nunique().to_dict()
    for (variant, workload, tier, over), rows in table.groupby(
        ["variant", "workload", "tier", "over"], sort=False
    ):
        name = "capacity_rps" if over == "rate" else "capacity_concurrency"
        name = name if tiers[workload] == 1 else f"{tier}_{name}"
        values = nested.setdefault(str(variant), {}).setdefault(str(workload), {})
        of = joint.get((str(workload), str(tier), str(variant)))
        answered = rows[~rows["ended"].isin(NO_ANSWER)]
        for column, suffix in (("capacity", ""), ("lower", "_lower"), ("upper", "_upper")):
            # An upper end that one of them lacks is none of all.
            mean = getattr(of, column) if of else answered[column].mean(skipna=False)
            if pd.notna(mean):
                values[name + suffix] = float(f"{mean:.4g}")
        if not_steady := int((rows["ended"] == "unsteady").sum()):
            values[f"{name}_not_steady"] = not_steady
    return nested


def together(table: pd.DataFrame) -> dict[tuple[str, str, str], Interval]:
    """Return the capacity over its launches of each (workload, tier, variant) with several.

    It is of the searches that are `two_sided`.
    """
    found: dict[tuple[str, str, str], Interval] = {}
    for (workload, tier), here in two_sided(table).groupby(["workload", "tier"]):
        searches = {
            str(variant): list(of["interval"])
            for variant, of in here.groupby("variant", sort=False)
        }
        confidence = float(here["confidence"].min())
        joint = over_launches(searches, confidence, measured_together(here))
        found |= {(str(workload), str(tier), name): of for name, of in joint.items()}
    return found


def two_sided(table: pd.DataFrame) -> pd.DataFrame:
    """Return the searches with both ends, and an Interval each in the column `interval`.

    Those without an answer do not count; a variant of which one search at the place found only a
    bound has none.
    """
    rows = table[~table["ended"].isin(NO_ANSWER)]
    has_ends = (rows["lower"].astype(float) > 0) & rows["upper"].notna()
    kept = rows[has_ends.groupby([rows[name] for name in SEARCHED]).transform("all")]
    ends = kept[["capacity", "lower", "upper"]].astype(float).to_numpy().tolist()
    intervals = pd.Series([Interval(*of) for of in ends], kept.index, dtype="object")
    return kept.assign(interval=intervals)
