"""Verdicts as a reader sees them, in words and cells."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.judgement import Judgement
from servetune.analysis.planning import DIFFERENCE, MOST, MOST_TOLD, POWER, unseen_share
from servetune.analysis.spread import FEWEST
from servetune.analysis.wording import NBSP, listed, number, percent, plural, ratio, share, where_of
from servetune.metrics import JUDGED, METRIC
from servetune.plan.planned import Plan
from servetune.report.gfm import escaped
from servetune.tables.frames import grouped, known, records_of

HEADS = {name: METRIC[name].title for name in JUDGED}


def rows(judgement: Judgement) -> list[dict[str, Any]]:
    """Return a row a (workload, load point, variant), with a verdict by metric in `cells`."""
    names = ("workload", "load_point", "variant")
    every = grouped(records_of(judgement.verdicts), lambda row: tuple(row[name] for name in names))
    return [
        {**dict(zip(names, key, strict=True)), "cells": {row["metric"]: row for row in same}}
        for key, same in every.items()
    ]


def interval(row: dict[str, Any]) -> str:
    """Write a ratio with its interval: 0.84 times [0.81, 0.88]."""
    low, high = known(row["ratio_low"]), known(row["ratio_high"])
    if low is None or high is None:
        return ratio(row["ratio"])
    return f"{ratio(row['ratio'])} [{low:.2f}, {high:.2f}]"


def wanting(row: dict[str, Any]) -> str:
    """Say what would decide an undecided comparison; nothing of the others."""
    if row["verdict"] != "undecided":
        return ""
    more = row["further_repeats"]
    if np.isinf(more):
        return f"more than {MOST} repeats would be needed"
    return f"{plural(int(more), 'more repeat')} would decide"


def method(plan: Plan, judgement: Judgement) -> str:
    """Say what a verdict here can carry, in a few sentences."""
    if plan.repeats == 1:
        return (
            "One repeat gives no verdict: a launch does not tell how much launches vary, so that a"
            " difference of a few percent may be noise. Set repeats to 3 or more."
        )
    count = int(judgement.verdicts["p_value"].count())
    few = (
        f" With fewer than {FEWEST} repeats there is one only where the other variants tell well"
        " how much launches vary."
        if plan.repeats < FEWEST
        else ""
    )
    return (
        f"A verdict is proven at the 95{NBSP}% level, over {plural(count, 'comparison')} together,"
        f" against a smallest difference of interest of {share(plan.equivalence)}: faster and"
        " slower are beyond it, indistinguishable is within it. Ratios are of geometric means,"
        f" each with its own 95{NBSP}% interval, which spans launches and their requests. How much"
        f" launches vary is told by all variants, unless one varies more.{few}{_blocks(judgement)}"
    )


def _blocks(judgement: Judgement) -> str:
    devices = judgement.launches["device"].nunique()
    if devices < 2:
        return ""
    return (
        f" Launches ran on {plural(devices, 'slot')} of GPUs, which are blocks in the comparison."
    )


def cautions(plan: Plan, judgement: Judgement) -> list[str]:
    """Say what a reader has to know of the order of runs before trusting a verdict."""
    if plan.repeats == 1:
        return []
    notes = [
        f"The machine changed under the experiment: {HEADS[row['metric']]} is"
        f" {ratio(row['change_ratio'])} what it was from {row['changed_at']} on, over all"
        f" variants. {_under_drift(judgement, row['metric'])}"
        for row in records_of(judgement.drift)
        if row["has_drifted"]
    ]
    if not judgement.order_was_kept:
        notes.append(
            "Sessions were not measured in the interleaved order of the plan, so a drift of the"
            " machine can look like a difference between variants."
        )
    notes += [
        f"All launches of {variant} ran on one GPU ({device}), so that a difference from variants"
        " on others may be that of the GPUs."
        for variant, device in judgement.on_one_device.items()
    ]
    return notes


def _under_drift(judgement: Judgement, metric: str) -> str:
    verdicts = judgement.verdicts
    if verdicts.loc[verdicts["metric"] == metric, "is_blocked"].any():
        return "Its verdicts compare launches of the same round."
    return "Its verdicts are of both conditions together."


def checked(judgement: Judgement) -> str:
    """Say what the check for drift saw, where it had enough sessions and saw nothing."""
    tested = [HEADS[r["metric"]] for r in records_of(judgement.drift) if known(r["p_value"])]
    if not tested or judgement.drift["has_drifted"].any():
        return ""
    return f"No drift over the order of sessions in {listed(tested)}."


def resolved(resolution: pd.DataFrame) -> str:
    """Say how much launches vary, and what difference that lets so many repeats call."""
    rows = records_of(resolution)
    if not rows:
        return ""
    vary = listed(f"{share(row['spread_ratio'])} in {HEADS[row['metric']]}" for row in rows)
    smallest = listed(_smallest(row["smallest_difference"]) for row in rows)
    needed = [row["repeats_for_difference"] for row in rows]
    wanted = listed(f"more than {MOST_TOLD:,}" if np.isinf(n) else f"{n:,.0f}" for n in needed)
    return (
        f"Launches of one variant vary by {vary} (standard deviation). With"
        f" {plural(rows[0]['repeats'], 'repeat')} what truly differs by {smallest} would be called"
        f" with a probability of {share(POWER)}; what differs by {share(DIFFERENCE)} takes {wanted}"
        " repeats."
    )


def unseen(verdicts: pd.DataFrame) -> str:
    """Say what launches that look alike leave possible."""
    launches = verdicts.loc[verdicts["verdict"] != "none", ["launches", "baseline_launches"]]
    if launches.empty:
        return ""
    count = int(launches.to_numpy().min())
    return (
        f"A launch that is slow now and then can go unseen: {count} launches miss one in"
        f" ten with a probability of {percent(0.9**count)}, and, if all are alike, leave possible"
        f" that up to {percent(unseen_share(count))} of launches differ (95{NBSP}% confidence)."
    )


def _smallest(difference: float) -> str:
    if np.isinf(difference):
        return "no size"
    # Beyond a doubling a percentage is hard to picture.
    return share(difference) if difference < 1 else f"a factor of {number(1 + difference)}"


def without(judgement: Judgement) -> list[str]:
    """Say why comparisons have no verdict, each reason once."""
    rows = records_of(judgement.verdicts)
    every = {where_of(row) for row in rows}

    def places(absent: list[dict[str, Any]]) -> str:
        where = [where_of(row) for row in absent]
        if len(every) > 1 and set(where) == every:
            return "every load point"
        return _few(where)

    reasons = grouped(
        (row for row in rows if row["verdict"] == "none"),
        lambda row: row["reason"].replace(f" of {row['metric']}", ""),
    )
    return [
        f"No verdict on {_few(f'{variant} at {places(same)}' for variant, same in of.items())}:"
        f" {why}."
        for why, absent in reasons.items()
        for of in [grouped(absent, lambda row: row["variant"])]
    ]


def _few(names: Iterable[str]) -> str:
    """List at most six names, each once."""
    different = list(dict.fromkeys(names))
    more = [f"{len(different) - 6} more"] if len(different) > 6 else []
    return listed([*different[:6], *more])


def verdict_cell(row: dict[str, Any] | None) -> str:
    """Write a verdict as Markdown, with its ratio and interval, and what would decide it."""
    if row is None:
        return "no ok measurement"
    word = "no verdict" if row["verdict"] == "none" else f"**{row['verdict']}**"
    more = f"; {told}" if (told := wanting(row)) else ""
    return f"{word} {escaped(interval(row))}{more}"
