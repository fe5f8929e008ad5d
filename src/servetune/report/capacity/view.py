"""The capacity within the SLO, in words and cells: what was found, and by which probes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.analysis.capacities import Gain, gains
from servetune.analysis.wording import listed, plural, ratio, span
from servetune.numbers import NONE, known, number
from servetune.plan.planned import Plan
from servetune.records.sessions import SEVERAL
from servetune.study.capacity import OVERLOAD, Objective, Slo
from servetune.tables.capacity import NO_ANSWER
from servetune.tables.frames import PENDING, grouped, records_of

UNITS = {"rate": "requests/s", "concurrency": "requests in flight"}

METHOD = (
    "The capacity is the highest load that meets the SLO, estimated from all probes together. Gain"
    " is its ratio to the baseline's; its interval takes both capacities as independent. Over"
    " launches both are of geometric means, with Student's interval, no narrower than what the"
    " searches' own say. Where a capacity is only bounded, so is its gain. The SLOs of a workload"
    " share one search: its probes, requests and seconds. A change slower than those seconds is not"
    " seen; one that is seen is told with its time since the search began."
)

ENDED = {
    "found": "found",
    "beaten": "below what another was proven to reach",
    "zero": "violated at the lowest load",
    "unbounded": "a lower bound",
    "budget": "probes used up",
    "unsteady": "not steady",
    "failed": "failed",
    PENDING: PENDING,
}
"""How a search ended, for readers."""

ACROSS = ", not on the same GPU"
"""What is said of a gain over searches that no GPU has in common."""

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


@dataclass(frozen=True)
class Found:
    """One search's result for one tier: a row of the capacities, and its cells.

    `over` is what all launches of its variant say together, where there are several.
    """

    row: dict[str, Any]
    gain: Gain | None
    place: str
    within: str
    price_usd_per_hour: float | None = None
    devices: int = 1
    over: "Found | None" = None

    @property
    def unit(self) -> str:
        """What its numbers are of."""
        return UNITS[self.row["over"]]

    @property
    def has_no_answer(self) -> bool:
        """Whether the search failed or is pending, or its server was not steady: no capacity."""
        return self.row["ended"] in NO_ANSWER

    @property
    def is_pending(self) -> bool:
        """Whether the search has not ended yet."""
        return bool(self.row["ended"] == PENDING)

    @property
    def is_lower_bound(self) -> bool:
        """Whether the capacity is only known to be so high at least."""
        return bool(self.row["ended"] == "unbounded")

    @property
    def capacity(self) -> str:
        """The estimate, or what bounds it."""
        if self.has_no_answer:
            return NONE
        value = number(self.row["capacity"])
        return f"at least {value}" if self.is_lower_bound else value

    @property
    def interval(self) -> str:
        """The interval at the confidence of the search."""
        if self.has_no_answer:
            return NONE
        lower, upper = number(self.row["lower"]), known(self.row["upper"])
        return f"{lower} or more" if upper is None else f"{lower} to {number(upper)}"

    @property
    def ended(self) -> str:
        """How the search ended, with its reason where that says more, and what it leaves open."""
        ended, row = ENDED[self.row["ended"]], self.row
        if self.is_lower_bound or self.has_no_answer:
            ended = f"{ended}: {row['reason']}"
        notes = [] if self.has_no_answer else [*self._notes]
        return "; ".join([ended, *notes])

    @property
    def _notes(self) -> Iterator[str]:
        if known(self.row.get("is_steady")) == 0:
            yield "the server was not steady"
        if self.launches:
            yield self.launches
        if preemptions := known(self.row.get("preemptions")):
            count = plural(int(preemptions), "preemption")
            yield f"{count}: the interval is not calibrated, and the capacity may be lower"

    @property
    def launches(self) -> str:
        """On how many launches its probes ran, if on several: each is another server."""
        count = known(self.row.get("launches")) or 1
        gpus = {*str(self.row.get("device") or "").split(SEVERAL)}
        on = " on different GPUs" if len(gpus) > self.devices else ""
        return f"over {count:.0f} launches{on}" if count > 1 else ""

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
        cost, *ends = (
            number(1e3 * price * self.devices / 3600 / rate) if (rate := known(row[name])) else None
            for name in ("capacity", "upper", "lower")
        )
        if self.is_lower_bound or None in ends:
            return f"at most {cost}"
        return f"{cost} [{ends[0]}, {ends[1]}]"

    @property
    def per_gpu(self) -> str:
        """The capacity by the devices of its server."""
        if self.has_no_answer:
            return NONE
        value = number(self.row["capacity"] / self.devices)
        return f"at least {value}" if self.is_lower_bound else value

    @property
    def gained(self) -> str:
        """The gain over the baseline with its interval."""
        return written(self.gain) if self.gain else NONE


def written(gain: Gain) -> str:
    """Write a gain with its interval, or what bounds it."""
    across = ACROSS if gain.is_across else ""
    if gain.ratio is not None:
        return f"{ratio(gain.ratio)} [{gain.low:.2f}, {gain.high:.2f}]{across}"
    bounds = zip(("at least", "at most"), (gain.low, gain.high), strict=True)
    said = ", ".join(f"{words} {ratio(end)}" for words, end in bounds if end is not None)
    return f"{said}{across}"


def found(plan: Plan, searched: Searched) -> list[Found]:
    """Return a row a (workload, tier, variant, repeat), the baseline first in each tier."""
    rows, devices = records_of(searched.capacities), plan.devices
    # What an endpoint takes depends on the hour: it is told alone, and its gain over none.
    endpoints = {session.variant for session in plan.sessions if session.endpoint}
    results = [
        Found(
            row,
            None if endpoints & {row["variant"], plan.baseline} else gain,
            f"{row['workload']} · {row['tier']}",
            " and ".join(map(_asked, _objectives(row))),
            plan.price_usd_per_hour,
            devices[row["variant"]],
        )
        for row, gain in zip(rows, gains(searched.capacities, plan.baseline), strict=True)
    ]
    tiers = list(dict.fromkeys(each.place for each in results))
    variants = sorted(plan.variants, key=lambda variant: variant != plan.baseline)

    def order(each: Found) -> tuple[int, int, int]:
        variant = variants.index(each.row["variant"])
        return tiers.index(each.place), variant, each.row["repeat"]

    return sorted(results, key=order)


def failures(results: list[Found]) -> list[str]:
    """Say why searches gave no capacity, each reason of a variant once."""
    failed = [each.row for each in results if each.has_no_answer and not each.is_pending]
    reasons = dict.fromkeys((row["variant"], row["reason"]) for row in failed)
    return [f"{variant} has no capacity: {reason}" for variant, reason in reasons]


def _objectives(row: dict[str, Any]) -> tuple[Objective, ...]:
    return Slo(**json.loads(row["slo"])).objectives


def _asked(asked: Objective) -> str:
    """Write an objective with its limits: TPOT p99 ≤ 12 ms, or TTFT ≤ 500 ms for 95 %."""
    if asked.is_percentile:
        (limit,) = asked.limits_ms.values()
        return f"{objective(asked.name)} ≤ {limit:,g} ms"
    limits = [f"{name.upper()} ≤ {limit:,g} ms" for name, limit in asked.limits_ms.items()]
    kept = round(100 * (1 - asked.allowed_ratio), 6)
    return f"{listed(limits)} for {kept:g}\N{NO-BREAK SPACE}% of requests"


def objective(name: str) -> str:
    """Name an objective: TTFT p99, goodput, or overload."""
    if name == OVERLOAD:
        return name
    if name == "goodput_ratio":
        return "goodput"
    latency, percentile, _ = name.rsplit("_", 2)
    return f"{latency.upper()} {percentile}"


def sentences(results: list[Found]) -> list[tuple[str, str, str]]:
    """Say for each tier its place, what it asks, what each variant takes, and what limits it."""
    said = []
    for here in grouped(results, lambda each: each.place).values():
        repeats = grouped(here, lambda each: each.row["variant"])
        taken = "; ".join(f"{variant} {_taken(of)}" for variant, of in repeats.items())
        row = here[0].row
        it = " ".join([f"{taken}.", *_limits(here)])
        said.append((f"{row['workload']}, {row['tier']}", here[0].within, it))
    return said


def _limits(here: list[Found]) -> Iterator[str]:
    """Say which objective limits which variants; a single one would only repeat the SLO."""
    ended = ("failed", "unsteady", "zero", PENDING)
    limited = [each for each in here if each.binding != NONE and each.row["ended"] not in ended]
    names = {each.row["variant"] for each in here}
    for binding, of in grouped(limited, lambda each: each.binding).items():
        variants = dict.fromkeys(each.row["variant"] for each in of)
        if len(_objectives(of[0].row)) > 1 or binding == OVERLOAD:
            whom = "all" if len(variants) == len(names) > 1 else listed(variants)
            yield f"{binding[0].upper()}{binding[1:]} limits {whom}."


def not_told(results: list[Found]) -> str:
    """Say of which searches it is not known whether the server was steady; empty if of none."""
    answered = {each.row["variant"]: each for each in results if not each.has_no_answer}
    unknown = [v for v, each in answered.items() if known(each.row.get("is_steady")) is None]
    if not unknown:
        return ""
    of = "any variant" if len(unknown) == len(answered) > 1 else listed(unknown)
    return f"Whether the server was steady is not known of {of}."


def _taken(repeats: list[Found]) -> str:
    """Say what one variant takes, over its repeats."""
    if len(repeats) == 1:
        return _taken_once(repeats[0])
    values = [value for each in repeats if (value := known(each.row["capacity"])) is not None]
    if all(each.is_pending for each in repeats):
        return f"is {repeats[0].row['reason']}"
    if not values:
        return "has no answer in any repeat"
    least = "at least " if any(each.is_lower_bound for each in repeats) else ""
    over = f"{len(values)} of " if len(values) < len(repeats) else ""
    of = plural(len(repeats), "repeat")
    answered = [each.row["seconds"] for each in repeats if not each.has_no_answer]
    loaded = span(answered, "{:,.0f}".format)
    taken = f"{least}{span(values, number)} {repeats[0].unit}"
    if all_of := repeats[0].over:
        taken = f"{all_of.capacity} {all_of.unit} [{all_of.interval.replace(' to ', ', ')}]"
    return f"takes {taken} over {over}{of} of {loaded} s of load{_in_brackets(gained(repeats))}"


def gained(repeats: list[Found]) -> str:
    """Say what a variant gains: over launches, or else as its repeats have it; empty if nothing."""
    if (over := repeats[0].over) and over.gain:
        return over.gained
    gains = [each.gain for each in repeats if each.gain]
    # Those on the baseline's GPU say more: the others may be differences of GPUs.
    gains = [gain for gain in gains if not gain.is_across] or gains
    if len(gains) == 1 and gains[0].ratio is None:
        return written(gains[0])
    ratios = [gain.ratio for gain in gains if gain.ratio is not None]
    if not ratios or len(ratios) < len(gains):
        return ""
    return f"{span(ratios)}{ACROSS if gains[0].is_across else ''}"


def _in_brackets(said: str) -> str:
    return f" ({said})" if said else ""


def _taken_once(each: Found) -> str:
    row, unit = each.row, each.unit
    if each.has_no_answer:
        if each.is_pending:
            return f"is {row['reason']}"
        why = "it was not steady" if row["ended"] == "unsteady" else "its search failed"
        return f"has no answer, as {why} ({row['reason']})"
    if row["ended"] == "zero":
        return f"does not meet it at the lowest load, {number(row['upper'])} {unit}"
    on = each.launches or "on one server"
    gain = _in_brackets(gained([each]))
    return f"takes {each.capacity} {unit}{gain}, by {row['seconds']:,.0f} s of load {on}"
