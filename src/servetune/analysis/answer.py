"""The answer of a study: the loads that decide it, by which metric, and what is proven there.

A closed loop is decided by throughput at its heaviest load, as more load shows more of what a
variant can do. Where a rate or a trace sets the pace, throughput is the pace: latency decides, at
the fastest pace, and with a declared SLO the share of requests within it. A load that the client or
the front end bounds compares those, not the engines, so the heaviest load below it decides instead.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.analysis.differences import CONFIDENCE
from servetune.analysis.judgement import Judgement
from servetune.analysis.verdicts import compare
from servetune.analysis.wording import (
    inside,
    is_batch,
    is_paced,
    listed,
    load_of,
    place_of,
    where_of,
)
from servetune.metrics import JUDGED, METRIC, METRICS, Metric
from servetune.numbers import known
from servetune.tables.design import Design
from servetune.tables.frames import grouped, records_of

UNDECIDED = "undecided"
"""Nothing is proven, for too few launches or for too small a difference."""

Row = dict[str, Any]
Place = tuple[str, str]
"""Workload and load point."""


@dataclass(frozen=True)
class Outcome:
    """A variant at a load that decides, beside the baseline.

    `verdict` is `faster`, `slower`, `indistinguishable` or UNDECIDED; None of the baseline itself,
    and where either has no ok measurement. `launches` are the fewer of the two, and
    `further_launches` of each would show a difference; infinite where no reasonable number does.
    """

    value: float | None
    verdict: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    launches: int = 0
    further_launches: float = math.nan


@dataclass(frozen=True)
class Shown:
    """What is shown at a load, by one metric.

    `row` is of the comparison at that load. `outcomes` are of the variants that were to be measured
    there, the baseline first.
    """

    row: Row
    metric: Metric
    baseline: str
    outcomes: dict[str, Outcome]

    @property
    def place(self) -> str:
        """Its workload and load in words."""
        return f"{self.row['workload']}, {load_of(self.row)}"

    def having(self, verdict: str | None) -> dict[str, Outcome]:
        """Return the outcomes with a verdict, the baseline left out."""
        return {
            variant: outcome
            for variant, outcome in self.outcomes.items()
            if outcome.verdict == verdict and variant != self.baseline
        }


@dataclass(frozen=True)
class Decision(Shown):
    """What is shown at a load that decides a workload, by one metric, and why that load does.

    `fastest` is the variant that is proven to be, if one is. `beside` is what is shown by the other
    judged metrics there, and by all of them at the lightest load of its kind.
    """

    reason: str
    fastest: str | None
    beside: tuple[Shown, ...]

    @property
    def is_by_throughput(self) -> bool:
        """Whether clients or a batch set the pace, and not a rate or a trace."""
        return self.metric.better == "higher" and not self.metric.needs_slo


def decisions(
    design: Design, comparison: pd.DataFrame, judgement: Judgement, limits: Mapping[Place, str]
) -> list[Decision]:
    """Return the decisions of a study, by workload and kind of load; none where nothing is ok.

    Args:
        design: of the study.
        comparison: as `servetune.analysis.comparison.compare` makes it.
        judgement: all that the repeats prove.
        limits: what bounds a load point before the engine, where something does.
    """
    kinds = grouped(records_of(comparison), lambda row: (row["workload"], _kind(row)))
    asked = {(workload, variant) for variant, workload, _ in design.loads}
    compared = {name for name, count in Counter(name for name, _ in asked).items() if count > 1}
    # A workload of one variant alone compares nothing; the answer is of those that do.
    if compared:
        kinds = {key: rows for key, rows in kinds.items() if key[0] in compared}
    judged = {
        (row["variant"], *place_of(row), row["metric"]): row
        for row in records_of(judgement.verdicts)
    }
    made = []
    for (_, kind), rows in kinds.items():
        lightest, here, reason = _deciding(rows, design.baseline, limits)
        # One load of a kind is both.
        loads = (here, lightest) if lightest != here else (here,)
        beside = tuple(shown for load in loads for shown in _shown(design, load, judged))
        metrics = [
            metric
            for metric in METRICS
            if metric.judged
            and (metric.better == "lower" or metric.needs_slo) == (kind == "paced")
            and any(known(row[metric.name]) is not None for row in here)
        ]
        titles = (inside(m.title) if m.better == "higher" else "latency" for m in metrics)
        deciding = listed(dict.fromkeys(titles)) if metrics else ""
        for metric in metrics:
            outcomes = _outcomes(design, here, metric, judged)
            fastest = _fastest(design, judgement.one_look, here[0], metric, outcomes)
            why = f"{_WHY[kind].format(metric=deciding)}{reason}"
            made.append(Decision(here[0], metric, design.baseline, outcomes, why, fastest, beside))
    return made


MOST_COLUMNS = 6
"""Verdicts of a row, as a page of 1,400 pixels holds; with more the lightest loads are left out."""


def shown_in(decisions: list[Decision], most: int = MOST_COLUMNS) -> list[Shown]:
    """Return what is shown at the loads that decide and at the lightest; of too much, the former.

    It is what the answer's table and its chart show.
    """
    groups = {id(decision.beside): decision.beside for decision in decisions}
    shown = [each for group in groups.values() for each in group]
    decide = {place_of(decision.row) for decision in decisions}
    return shown if len(shown) <= most else [s for s in shown if place_of(s.row) in decide]


Verdicts = Mapping[tuple[Any, ...], Row]


def _shown(design: Design, here: list[Row], judged: Verdicts) -> list[Shown]:
    """Return what is shown at a load by each metric that is judged there, throughput first."""
    return [
        Shown(here[0], METRIC[name], design.baseline, _outcomes(design, here, METRIC[name], judged))
        for name in JUDGED
        if any((row["variant"], *place_of(row), name) in judged for row in here)
    ]


def _outcomes(
    design: Design, here: list[Row], metric: Metric, judged: Verdicts
) -> dict[str, Outcome]:
    measured = {row["variant"]: row for row in here}
    return {
        variant: _outcome(
            known(measured[variant][metric.name]),
            judged.get((variant, *place_of(here[0]), metric.name)),
        )
        for variant in sorted(design.variants, key=lambda variant: variant != design.baseline)
        if variant in measured
    }


_WHY = {
    "closed": "{metric} with the most clients",
    "batch": "{metric} of a batch",
    "paced": "{metric} at the fastest pace, where a rate or a trace sets the throughput",
}


def _kind(row: Row) -> str:
    return "batch" if is_batch(row) else "paced" if is_paced(row) else "closed"


def _pace(row: Row) -> float:
    """Order the loads of a kind: by clients, by rate, or by how fast a trace is sent."""
    scale = re.search(r"(?:^|-)t([\d.e+-]+)$", row["load_point"])
    rate = known(row["rate_rps"])
    if rate is not None:
        return rate
    return 1 / float(scale[1]) if scale else known(row["concurrency"]) or 0.0


def _deciding(
    rows: list[Row], baseline: str, limits: Mapping[Place, str]
) -> tuple[list[Row], list[Row], str]:
    """Return the rows of the lightest load and of the one that decides, and why no heavier does."""
    loads = sorted(grouped(rows, place_of).values(), key=lambda here: _pace(here[0]))
    measured = [here for here in loads if any(row["ok"] for row in here)]
    compared = [
        here for here in measured if any(row["ok"] for row in here if row["variant"] == baseline)
    ]
    candidates = compared or measured
    free = [here for here in candidates if place_of(here[0]) not in limits]
    if not candidates:
        return [], [], ""
    chosen = (free or candidates)[-1]
    passed = candidates[candidates.index(chosen) + 1 :]
    if not passed:
        return candidates[0], chosen, ""
    bounds = listed(dict.fromkeys(limits[place_of(here[0])] for here in passed))
    where = listed(where_of(here[0]) for here in passed)
    return candidates[0], chosen, f" that the engine limits (at {where} it is {bounds})"


def _outcome(value: float | None, row: Row | None) -> Outcome:
    if row is None or not row["baseline_launches"]:
        return Outcome(value)
    ratio, low, high = (known(row[name]) for name in ("ratio", "ratio_low", "ratio_high"))
    return Outcome(
        value,
        verdict=UNDECIDED if row["verdict"] in ("none", "undecided") else row["verdict"],
        ratio=ratio,
        low=low,
        high=high,
        launches=min(row["launches"], row["baseline_launches"]),
        further_launches=row["further_repeats"],
    )


def _fastest(
    design: Design, launches: pd.DataFrame, row: Row, metric: Metric, outcomes: dict[str, Outcome]
) -> str | None:
    """Return the variant that is proven faster than every other; None where none is.

    One that alone is faster than the baseline is faster than those that are not. Several are judged
    against the best of them; as that was chosen by its numbers, each of those comparisons is held
    to the level over the number of variants (Hsu, Multiple Comparisons, 1996, ch. 4).
    """
    others = {name: each for name, each in outcomes.items() if name != design.baseline}
    if not others or any(each.verdict in (None, UNDECIDED) for each in others.values()):
        return None
    faster = {name: each for name, each in others.items() if each.verdict == "faster"}
    if not faster:
        return design.baseline if all(o.verdict == "slower" for o in others.values()) else None
    sign = 1 if metric.better == "higher" else -1
    best = max(faster, key=lambda name: sign * (faster[name].ratio or 0.0))
    if len(faster) == 1:
        return best
    against = [
        each
        for each in records_of(compare(launches, best, design.equivalence))
        if (*place_of(each), each["metric"]) == (*place_of(row), metric.name)
        and each["variant"] in faster
    ]
    level = (1 - CONFIDENCE) / len(others)
    is_proven = all(each["verdict"] == "slower" and each["p_value"] <= level for each in against)
    return best if is_proven else None
