"""Verdicts as a reader sees them, in words and cells."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.devices import are_blocks
from servetune.analysis.judgement import Judgement
from servetune.analysis.launches import PLACE, devices_in
from servetune.analysis.lockstep import LOCKSTEP
from servetune.analysis.planning import DIFFERENCE, MOST, MOST_TOLD, POWER, unseen_share
from servetune.analysis.wording import TIMES, change, inside, listed, plural, ratio, where_of
from servetune.metrics import JUDGED, METRIC, Metric
from servetune.numbers import NBSP, NONE, known, percent, share
from servetune.plan.deciding import describe
from servetune.plan.planned import Plan
from servetune.records.sessions import SEVERAL
from servetune.report.gfm import escaped
from servetune.report.lockstep import MARK
from servetune.report.table import Table
from servetune.study.base import DECIDING
from servetune.tables.frames import grouped, records_of

HEADS = {name: METRIC[name].title for name in JUDGED}


def rows(judgement: Judgement) -> list[dict[str, Any]]:
    """Return a row a (workload, load point, variant) with any verdict: by metric in `cells`."""
    names, given = ("workload", "load_point", "variant"), judgement.verdicts["verdict"] != "none"
    every = grouped(
        records_of(judgement.verdicts[given]), lambda row: tuple(row[name] for name in names)
    )
    return [
        {**dict(zip(names, key, strict=True)), "cells": {row["metric"]: row for row in same}}
        for key, same in every.items()
    ]


_OF_A_SHARE = {"faster": "better", "slower": "worse", "fastest": "best"}


def worded(verdict: str, metric: Metric) -> str:
    """Write a verdict on a metric: a share is better or worse, but not fast."""
    word = _OF_A_SHARE.get(verdict, verdict) if metric.needs_slo else verdict
    return "undecided" if word == "none" else word


def word_of(row: dict[str, Any]) -> str:
    """Write the verdict of a row; lockstep with its mark."""
    if row["verdict"] == LOCKSTEP:
        return f"{LOCKSTEP} {MARK}"
    return worded(row["verdict"], METRIC[row["metric"]])


def interval(row: dict[str, Any]) -> str:
    """Write a ratio with its interval: 0.84 times [0.81, 0.88]."""
    return interval_of(row["ratio"], known(row["ratio_low"]), known(row["ratio_high"]))


def interval_of(value: float | None, low: float | None, high: float | None) -> str:
    """Write a ratio with the ends of its interval, where it has one."""
    if low is None or high is None:
        return ratio(value)
    return f"{ratio(value)} [{ratio(low).rstrip(TIMES)}, {ratio(high).rstrip(TIMES)}]"


def wanting(row: dict[str, Any]) -> str:
    """Say what would decide an undecided comparison; nothing of the others."""
    is_told = row["verdict"] == "undecided" and not np.isnan(row["further_repeats"])
    return further(row["further_repeats"]) if is_told else ""


def further(launches: float) -> str:
    """Say how many launches more would decide: about 9 more launches."""
    if np.isinf(launches):
        return f"more than {MOST} launches"
    return f"about {launches:.0f} more launch{'' if launches == 1 else 'es'}"


def method(plan: Plan, judgement: Judgement) -> str:
    """Say what a verdict here can carry, in a few sentences."""
    if plan.repeats == 1:
        return (
            "One launch decides nothing: it does not show how much launches vary, and a difference"
            " of a few percent may be noise. Set repeats to 3 or more."
        )
    if judgement.verdicts.empty:
        lines = " ".join(f"{line}." for line in describe(plan.deciding))
        return f"Nothing is compared here, so there is no verdict. {lines}".rstrip()
    count = int(judgement.verdicts["p_value"].count())
    together = f" All {plural(count, 'verdict')} hold together at the 95{NBSP}% level."
    few = (
        f" With fewer than {DECIDING} repeats, there is a verdict only where the other variants"
        " show well how much launches vary."
        if plan.repeats < DECIDING
        else ""
    )
    alone = (
        ": it is of that ratio alone, and verdicts that hold together ask for more, so one that"
        " leaves out 1 may be undecided"
        if count > 1
        else ""
    )
    return (
        "Faster and slower: the difference is proven to be more than"
        f" {share(plan.equivalence)}. Indistinguishable: it is proven to be"
        f" less.{together if count > 1 else ''} Each ratio is of geometric means over launches,"
        f" with its own 95{NBSP}% interval{alone}. How much launches vary is estimated from all"
        f" variants, but for one that varies more.{few} At a rate or in a trace,"
        " throughput is the pace and is not judged."
        f"{_blocks(judgement)}{_rule(plan)}"
    )


def _rule(plan: Plan) -> str:
    """Say how far launches until decided came, and what else is to know of them."""
    if plan.deciding is None:
        return ""
    lines = " ".join(f"{line}." for line in describe(plan.deciding))
    return (
        f" {lines} A verdict is one over all of these looks: what was proven stays so, and an"
        " interval is of all launches, without a correction for the looks. Other comparisons take"
        f" the first {plan.deciding.until.least} launches."
    )


def _blocks(judgement: Judgement) -> str:
    launches, told = judgement.launches, ""
    if launches["device"].nunique() > 1:
        told = (
            f" Launches ran on {plural(len(devices_in(launches)), 'GPU')}, {_as_blocks(launches)}."
        )
    if launches["servers"].notna().any():
        told += (
            " Variants that differ in their gateways alone share launches, and are compared within"
            " them where launches are proven to differ."
        )
    return told


def _as_blocks(launches: pd.DataFrame) -> str:
    """Say how launches on several GPUs are compared, which depends on where variants met."""
    launches = launches.assign(device=launches["device"].fillna(""))
    places = [here for _, here in launches.drop_duplicates("measurement").groupby(PLACE[:2])]
    within = [
        are_blocks(list(here["variant"]), list(here["device"]))
        for here in places
        if here["variant"].duplicated().any()
    ]
    if all(within):
        return "which are blocks in the comparison"
    where = f" at {within.count(False)} of {plural(len(within), 'load point')}"
    return (
        f"too many to compare within each{where if any(within) else ''}: GPUs are part of how much"
        " launches vary, and launches of a variant on one GPU count as one"
    )


def cautions(plan: Plan, judgement: Judgement) -> list[str]:
    """Say what a reader has to know of the order of runs before trusting a verdict."""
    if plan.repeats == 1:
        return []
    before = dict.fromkeys(session.variant for session in plan.sessions if session.results)
    notes = []
    if before:
        notes.append(
            f"Measured before, by other tools: {few(before)}. Nobody saw their machines and"
            " settings, and nothing ran in turn: all of that is part of their differences."
        )
    notes += [
        f"The machine changed while it measured: from {row['changed_at']} on,"
        f" {HEADS[row['metric']]} is {ratio(row['change_ratio'])} what it was before, over all"
        f" variants. {_under_drift(judgement, row['metric'])}"
        for row in records_of(judgement.drift)
        if row["has_drifted"]
    ]
    if not judgement.order_was_kept:
        notes.append(
            "Sessions did not run in the interleaved order of the plan, so a drift of the machine"
            " can look like a difference between variants."
        )
    if judgement.on_the_same_devices:
        notes.append(_on_few_gpus(judgement.on_the_same_devices))
    return notes


def _on_few_gpus(devices: Mapping[str, str]) -> str:
    """Name the variants that ran on some of the GPUs alone, by those GPUs."""
    where = [
        f"{listed(variants)} on {listed(map(_short_of, of_these.split(SEVERAL)))}"
        for of_these, variants in grouped(devices, lambda variant: devices[variant]).items()
    ]
    return (
        f"These variants did not run on every GPU: {'; '.join(where)}. Their differences from"
        " variants that also ran on others may be those of the GPUs."
    )


def _short_of(device: str) -> str:
    """Write the first part of a UUID, as nvidia-smi takes it too: GPU-82c032b2."""
    return "-".join(device.split("-")[:2])


def _under_drift(judgement: Judgement, metric: str) -> str:
    verdicts = judgement.verdicts
    if verdicts.loc[verdicts["metric"] == metric, "is_blocked"].any():
        return "Its verdicts compare launches of the same round."
    return "Its verdicts mix both conditions."


def checked(judgement: Judgement) -> str:
    """Say what the check for drift saw, where it had enough sessions and saw nothing."""
    tested = [
        inside(HEADS[r["metric"]]) for r in records_of(judgement.drift) if known(r["p_value"])
    ]
    if not tested or judgement.drift["has_drifted"].any():
        return ""
    return f"No drift over the order of sessions in {listed(tested)}."


def power_table(resolution: pd.DataFrame) -> Table | None:
    """Show what the launches at hand can tell apart, a row a metric; None without repeats."""
    rows = records_of(resolution)
    if not rows:
        return None
    launches = f"{rows[0]['repeats']:.0f} launches"
    heads = (
        *("Metric", "Launches vary by", f"Detectable with {launches}"),
        f"Launches for {share(DIFFERENCE)}",
    )
    cells = [
        [
            HEADS[row["metric"]],
            share(row["spread_ratio"]),
            _smallest(row["smallest_difference"]),
            _needed(row["repeats_for_difference"]),
        ]
        for row in rows
    ]
    return Table("What the launches can show", heads, cells, texts=heads[:1])


POWERED = (
    "How much launches vary is a standard deviation. Detectable is the smallest true difference"
    f" that gets a verdict in {share(POWER)} of cases; the last column is how many launches of each"
    f" variant a true difference of {share(DIFFERENCE)} takes."
)
"""What the columns of the table mean."""


def unseen(verdicts: pd.DataFrame) -> str:
    """Say what launches that look alike leave possible."""
    is_compared = ~verdicts["verdict"].isin(["none", LOCKSTEP])
    launches = verdicts.loc[is_compared, ["launches", "baseline_launches"]]
    if launches.empty:
        return ""
    count = int(launches.to_numpy().min())
    return (
        f"If one launch in ten is slow, {count} launches all miss it in {percent(0.9**count)} of"
        f" cases. If {count} launches agree, up to {percent(unseen_share(count))} of all launches"
        f" may still differ (95{NBSP}% confidence)."
    )


def _needed(launches: float) -> str:
    return f"more than {MOST_TOLD:,}" if np.isinf(launches) else f"{launches:,.0f}"


def _smallest(difference: float) -> str:
    # Beyond a doubling a percentage is hard to picture.
    return "none" if np.isinf(difference) else change(1 + difference).lstrip("+")


def without(judgement: Judgement) -> list[str]:
    """Say why comparisons are undecided for want of launches, each reason once with its places."""
    rows = records_of(judgement.verdicts)
    every = {where_of(row) for row in rows}

    def places(absent: list[dict[str, Any]]) -> str:
        where = dict.fromkeys(where_of(row) for row in absent)
        if len(every) > 1 and where.keys() == every:
            return "every load point"
        return few(where)

    reasons = grouped(
        (row for row in rows if row["verdict"] == "none"),
        lambda row: row["reason"].replace(f" of {row['metric']}", ""),
    )
    return [
        f"Undecided: {few(variant for variant, _ in of)} at {at}, as {why}."
        for why, absent in reasons.items()
        for at, of in grouped(
            grouped(absent, lambda row: row["variant"]).items(), lambda pair: places(pair[1])
        ).items()
    ]


def few(names: Iterable[str], most: int = 6) -> str:
    """List about so many names, each once, and how many more there are: never one alone."""
    different = list(dict.fromkeys(names))
    if len(different) <= most + 1:
        return listed(different)
    return listed([*different[:most], f"{len(different) - most} more"])


def verdict_cell(cells: Mapping[str, dict[str, Any]], metric: str) -> str:
    """Write one of a load point's verdicts as Markdown, with its ratio and what would decide it."""
    row = cells.get(metric)
    if row is None:
        return absent(cells)
    if row["verdict"] == LOCKSTEP:
        return word_of(row)
    word = word_of(row) if row["verdict"] == "none" else f"**{word_of(row)}**"
    more = f"; {told}" if (told := wanting(row)) else ""
    return f"{word} {escaped(interval(row))}{more}"


def absent(cells: Mapping[str, dict[str, Any]]) -> str:
    """Write the verdict that a metric has not: a throughput has none where it is the pace."""
    return NONE if cells else "no ok measurement"
