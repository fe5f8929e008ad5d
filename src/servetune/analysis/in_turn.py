"""Endpoints that were measured in turn with what they are compared with, and those that were not.

A server of ours is the same one at any hour. An endpoint is not: others use it, and it drifts over
the day. A difference to it is one of the two only where they were measured side by side, one after
the other in each round (A B B A …), so that what drifts does so for both.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from servetune.study.base import DECIDING

ENDPOINT = "endpoint"
"""The column of a table that tells an endpoint: its fingerprint, empty where it tells none."""

MOST_IDLE_S = 1800.0
"""Between two launches of a round nothing is measured for so long at most: a server of ours starts
in minutes, and what others ask of an endpoint changes over hours."""

ACROSS_REVISIONS = (
    "an endpoint is compared only with what was measured in turn with it, and two revisions never"
    " are; its history shows it over time"
)


@dataclass(frozen=True)
class _Launch:
    variant: str
    repeat: int
    began: pd.Timestamp
    ended: pd.Timestamp


def endpoints_of(values: pd.DataFrame) -> set[str]:
    """Return the variants that are endpoints."""
    if ENDPOINT not in values:
        return set()
    return {str(name) for name in values.loc[values[ENDPOINT].notna(), "variant"].unique()}


def apart(values: pd.DataFrame, baseline: str) -> dict[str, str]:
    """Say of each variant why it may not be compared with the baseline, if it may not.

    Takes `launch_values`. Only endpoints, and what is compared with one, are judged.
    """
    endpoints = endpoints_of(values)
    if not endpoints:
        return {}
    launches = sorted(_launches(values), key=lambda launch: launch.began)
    others = [str(name) for name in values["variant"].unique() if name != baseline]
    reasons = {
        variant: _why(variant, baseline, launches)
        for variant in others
        if baseline in endpoints or variant in endpoints
    }
    return {variant: reason for variant, reason in reasons.items() if reason}


def _launches(values: pd.DataFrame) -> Iterator[_Launch]:
    began = pd.to_datetime(values["started_at"], utc=True)
    ended = pd.to_datetime(values["ended_at"], utc=True).fillna(began)
    timed = values.assign(began=began, ended=ended).dropna(subset=["began"])
    for _, rows in timed.groupby(["variant", "repeat"], sort=False):
        variant, repeat = str(rows["variant"].iloc[0]), int(rows["repeat"].iloc[0])
        yield _Launch(variant, repeat, rows["began"].min(), rows["ended"].max())


def _why(variant: str, baseline: str, launches: list[_Launch]) -> str | None:
    pair = [launch for launch in launches if launch.variant in (variant, baseline)]
    rounds: dict[int, list[_Launch]] = {}
    for launch in pair:
        rounds.setdefault(launch.repeat, []).append(launch)
    for repeat, both in sorted(rounds.items()):
        if len(both) < 2:
            continue
        first, second = both
        if second.began < first.ended:
            told = "both were measured at once"
        elif pair.index(second) != pair.index(first) + 1:
            told = "another one of theirs was measured between the two"
        elif (idle_s := _idle_s(first, second, launches)) > MOST_IDLE_S:
            told = f"{_span(idle_s)} without a measurement were between the two"
        else:
            continue
        return _refusal(variant, baseline, f"in round {repeat} {told}")
    of_each = Counter(launch.variant for launch in pair)
    common = sum(len(both) > 1 for both in rounds.values())
    if common < DECIDING <= min(of_each[variant], of_each[baseline]):
        return _refusal(variant, baseline, f"only {common} rounds hold both")
    return None


def _refusal(variant: str, baseline: str, told: str) -> str:
    return (
        f"{variant} and {baseline} were not measured in turn: {told}; an endpoint drifts meanwhile."
        " Name another block, and measure both in one run"
    )


def _idle_s(first: _Launch, second: _Launch, launches: list[_Launch]) -> float:
    """Return the seconds between two launches in which nothing else of the study was measured."""
    idle_s = (second.began - first.ended).total_seconds()
    for other in launches:
        if first.ended <= other.began and other.ended <= second.began:
            idle_s -= (other.ended - other.began).total_seconds()
    return idle_s


def _span(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.0f} hours" if hours >= 2 else f"{seconds / 60:.0f} minutes"
