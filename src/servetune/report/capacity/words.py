"""The capacity within the SLO, in words and cells: what was found, and by which probes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.analysis.capacities import Gain, gains
from servetune.capacity.sequential import OVERLOAD
from servetune.plan.planned import Plan
from servetune.report.wording import NONE, listed, number, percent, plural, ratio, span
from servetune.study.capacity import Objective, Slo
from servetune.tables.frames import known, records_of

NBSP = "\N{NO-BREAK SPACE}"

UNITS = {"rate": "requests/s", "concurrency": "requests in flight"}

METHOD = (
    "The capacity is the highest load that meets the SLO, estimated from all probes together."
    " Gain is its ratio to the baseline's, with an interval from the two: on logarithms, equal"
    " tails, as if independent; where a capacity is only bounded, so is the gain. Probes, requests"
    " and seconds are those of the search, which its SLOs share."
)

ENDED = {
    "found": "found",
    "zero": "violated at the lowest load",
    "unbounded": "a lower bound",
    "budget": "probes used up",
    "failed": "failed",
}
"""How a search ended, for readers."""

STOPPED = {
    "decided": "decided",
    "requests": "requests used up",
    "seconds": "seconds used up",
}
"""Why a probe stopped, for readers."""


@dataclass(frozen=True)
class Searched:
    """What searches for the capacity left, as `servetune.tables.capacity` makes it."""

    capacities: pd.DataFrame
    probes: pd.DataFrame


def read_searched(results: Path) -> Searched:
    """Read the tables of searches from the results of a study."""
    return Searched(
        capacities=pd.read_parquet(results / "capacities.parquet"),
        probes=pd.read_parquet(results / "probes.parquet"),
    )


@dataclass(frozen=True)
class Found:
    """One search's result for one tier: a row of the capacities, and its cells."""

    row: dict[str, Any]
    gain: Gain | None
    place: str
    within: str
    price_usd_per_hour: float | None = None

    @property
    def unit(self) -> str:
        """What its numbers are of."""
        return UNITS[self.row["over"]]

    @property
    def is_lower_bound(self) -> bool:
        """Whether the capacity is only known to be so high at least."""
        return bool(self.row["ended"] == "unbounded")

    @property
    def capacity(self) -> str:
        """The estimate, or what bounds it."""
        if self.row["ended"] == "failed":
            return NONE
        told = number(self.row["capacity"])
        return f"at least {told}" if self.is_lower_bound else told

    @property
    def interval(self) -> str:
        """The interval at the confidence of the search."""
        if self.row["ended"] == "failed":
            return NONE
        upper = known(self.row["upper"])
        if upper is None:
            return f"{number(self.row['lower'])} or more"
        return f"{number(self.row['lower'])} to {number(upper)}"

    @property
    def ended(self) -> str:
        """How the search ended, with its reason where that says more."""
        told = ENDED[self.row["ended"]]
        says_more = self.is_lower_bound or self.row["ended"] == "failed"
        return f"{told}: {self.row['reason']}" if says_more else told

    @property
    def binding(self) -> str:
        """The objective that limits; none of a lower bound."""
        is_limited = self.row["binding"] and not self.is_lower_bound
        return objective(self.row["binding"]) if is_limited else NONE

    @property
    def cost(self) -> str:
        """What a thousand requests cost at the capacity, in USD, with its interval.

        It needs a price and a capacity in requests a second.
        """
        price, row = self.price_usd_per_hour, self.row
        if price is None or row["over"] != "rate" or row["ended"] not in ("found", "unbounded"):
            return NONE
        told, *ends = (
            number(1e3 * price / 3600 / rate) if (rate := known(row[name])) else None
            for name in ("capacity", "upper", "lower")
        )
        if self.is_lower_bound or None in ends:
            return f"at most {told}"
        return f"{told} [{ends[0]}, {ends[1]}]"

    @property
    def gained(self) -> str:
        """The gain over the baseline with its interval."""
        if self.gain is None:
            return NONE
        ends = self.gain.low, self.gain.high
        if self.gain.ratio is not None:
            return f"{ratio(self.gain.ratio)} [{ends[0]:.2f}, {ends[1]:.2f}]"
        bounds = zip(("at least", "at most"), ends, strict=True)
        return ", ".join(f"{words} {ratio(end)}" for words, end in bounds if end is not None)


@dataclass(frozen=True)
class Sentence:
    """A tier of a workload: what it asks, and what each variant takes within it."""

    place: str
    within: str
    said: str


def found(plan: Plan, searched: Searched) -> list[Found]:
    """Return a row a (workload, tier, variant, repeat), the baseline first in each tier."""
    rows = records_of(searched.capacities)
    tiers = list(dict.fromkeys((row["workload"], row["tier"]) for row in rows))
    results = [
        Found(
            row,
            gain,
            f"{row['workload']} · {row['tier']}",
            within(_slo(row)),
            plan.price_usd_per_hour,
        )
        for row, gain in zip(rows, gains(searched.capacities, plan.baseline), strict=True)
    ]

    def order(each: Found) -> tuple[Any, ...]:
        tier = tiers.index((each.row["workload"], each.row["tier"]))
        variant = each.row["variant"]
        return tier, variant != plan.baseline, plan.variants.index(variant), each.row["repeat"]

    return sorted(results, key=order)


def failures(results: list[Found]) -> list[str]:
    """Say why searches failed, each reason of a variant once."""
    failed = [each.row for each in results if each.row["ended"] == "failed"]
    reasons = dict.fromkeys((row["variant"], row["reason"]) for row in failed)
    return [f"{variant} has no capacity: {reason}" for variant, reason in reasons]


def _slo(row: dict[str, Any]) -> Slo:
    return Slo(**json.loads(row["slo"]))


def within(slo: Slo) -> str:
    """Say what a tier asks: TTFT at most 100 ms and TPOT at most 12 ms for 90 % of requests."""
    return " and ".join(_asked(each) for each in slo.objectives)


def _asked(asked: Objective) -> str:
    limits = {_latency(name): limit for name, limit in asked.limits_ms.items()}
    if asked.is_percentile:
        return f"{objective(asked.name)} ≤ {next(iter(limits.values())):,g} ms"
    told = listed([f"{name} ≤ {limit:,g} ms" for name, limit in limits.items()])
    kept = round(100 * (1 - asked.allowed_ratio), 6)
    return f"{told} for {kept:g}{NBSP}% of requests"


def objective(name: str) -> str:
    """Name an objective: TTFT p99, goodput, or overload."""
    if name == OVERLOAD:
        return name
    if name == "goodput_ratio":
        return "goodput"
    latency, percentile, _ = name.rsplit("_", 2)
    return f"{_latency(latency)} {percentile}"


def _latency(name: str) -> str:
    return name.upper()


def sentences(plan: Plan, results: list[Found]) -> list[Sentence]:
    """Say the answer: for each tier of a workload, the load that each variant takes."""
    said = []
    for place in dict.fromkeys(each.place for each in results):
        here = [each for each in results if each.place == place]
        names = dict.fromkeys(each.row["variant"] for each in here)
        parts = [
            f"{name} {_taken([each for each in here if each.row['variant'] == name])}"
            for name in names
        ]
        first = here[0]
        told = f"{first.row['workload']}, {first.row['tier']}"
        said.append(Sentence(told, first.within, f"{'; '.join(parts)}."))
    return said


def _taken(here: list[Found]) -> str:
    """What one variant takes, over its repeats."""
    if len(here) == 1:
        return _told(here[0])
    values = [value for each in here if (value := known(each.row["capacity"])) is not None]
    if not values:
        return "failed in all repeats"
    least = "at least " if any(each.is_lower_bound for each in here) else ""
    of = plural(len(values), "repeat")
    over = of if len(values) == len(here) else f"{len(values)} of {plural(len(here), 'repeat')}"
    ratios = [each.gain.ratio for each in here if each.gain and each.gain.ratio is not None]
    gained = f" ({span(ratios)})" if ratios else ""
    return f"takes {least}{span(values, number)} {here[0].unit} over {over}{gained}"


def _told(each: Found) -> str:
    row, unit = each.row, each.unit
    if row["ended"] == "failed":
        return f"has no answer, as its search failed ({row['reason']})"
    if row["ended"] == "zero":
        return f"does not meet it at the lowest load, {number(row['upper'])} {unit}"
    notes = [] if each.gain is None else [each.gained]
    if each.is_lower_bound:
        limited = ""
    else:
        notes.append(f"{percent(row['confidence'])} interval {each.interval}")
        limited = f", limited by {each.binding}" if _is_told(each) else ""
    aside = f" ({'; '.join(notes)})" if notes else ""
    return f"takes {each.capacity} {unit}{aside}{limited}"


def _is_told(each: Found) -> bool:
    """Whether what limits says more than the SLO: there are several objectives, or overload."""
    several = len(_slo(each.row).objectives) > 1
    return bool(each.row["binding"]) and (several or each.row["binding"] == OVERLOAD)


@dataclass(frozen=True)
class Sent:
    """One probe: its row of the table, the tier that it was sent for, and what each says of it."""

    row: dict[str, Any]
    load: float | None
    unit: str
    sent_for: str
    stopped: str
    verdicts: list[tuple[str, str, str]]


def sent(table: pd.DataFrame, searched: Searched) -> list[Sent]:
    """Return the probes in their order, failed ones and closed loops before the first included.

    `verdicts` holds tier, verdict and the objective that binds.
    """
    judged: dict[str, list[dict[str, Any]]] = {}
    for row in records_of(searched.probes):
        judged.setdefault(row["measurement"], []).append(row)
    result = []
    for row in records_of(table[table["probe"].notna()]):
        tiers = {each["tier"]: each for each in judged.get(row["measurement"], [])}
        first = next(iter(tiers.values()), None)
        is_rate = known(row["rate_rps"]) is not None
        result.append(
            Sent(
                row=row,
                load=known(row["rate_rps"] if is_rate else row["concurrency"]),
                unit=UNITS["rate" if is_rate else "concurrency"],
                sent_for=first["sent_for"] if first else NONE,
                stopped=STOPPED.get(first["stopped"], NONE) if first else NONE,
                verdicts=[
                    (tier, each["verdict"], objective(each["binding"]) if each["binding"] else "")
                    for tier, each in tiers.items()
                ],
            )
        )
    return result
