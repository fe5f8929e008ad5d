"""How often a cache of answers gave the answer to another question, and how sure that is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Share:
    """A share of requests with its score interval (Wilson 1927, eq. 4), in [0, 1]."""

    count: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.of


def share_of(count: int, of: int) -> Share | None:
    """Return a share with its interval; None of nothing."""
    if not of:
        return None
    found = stats.binomtest(count, of).proportion_ci(CONFIDENCE, method="wilson")
    return Share(count, of, float(found.low), float(found.high))


@dataclass(frozen=True)
class Cache:
    """What the launches of one variant did under one load, all together.

    `kinds` are the shares of the questions of each kind that got a wrong answer. `bound` is what
    the study allows of `wrong`, and `verdict` whether it keeps to that.
    """

    requests: int
    exact: Share
    semantic: Share
    wrong: Share
    unknown: int
    bypassed: int
    kinds: Mapping[str, Share]
    bound: float | None
    verdict: Literal["passes", "fails", "undecided"] | None
    examples: list[dict[str, Any]]


def caches(table: pd.DataFrame) -> dict[tuple[str, str, str], Cache]:
    """Return what each cache did, by workload, load point and variant."""
    if table.empty:
        return {}
    grouped = table.groupby(["workload", "load_point", "variant"], sort=False)
    return {tuple(map(str, key)): _cache(rows) for key, rows in grouped}  # type: ignore[misc]


def _cache(rows: pd.DataFrame) -> Cache:
    requests = int(rows["requests"].sum())

    def share(name: str) -> Share:
        found = share_of(int(rows[name].sum()), requests)
        assert found, "a record of a cache has requests"
        return found

    counts: dict[str, list[int]] = {}
    for kind in (kind for text in rows["kinds"] for kind in json.loads(text)):
        told = counts.setdefault(kind["name"], [0, 0])
        told[0] += kind["wrong"]
        told[1] += kind["requests"]
    kinds = {name: share_of(*told) for name, told in counts.items()}
    bounds = rows["max_wrong_answers"].dropna()
    bound = float(bounds.iloc[0]) if len(bounds) else None
    wrong = share("wrong")
    return Cache(
        requests=requests,
        exact=share("exact"),
        semantic=share("semantic"),
        wrong=wrong,
        unknown=int(rows["unknown"].sum()),
        bypassed=int(rows["bypassed"].sum()),
        kinds={name: found for name, found in kinds.items() if found},
        bound=bound,
        verdict=None if bound is None else _verdict(wrong, bound),
        examples=json.loads(rows["first_wrong"].iloc[0]),
    )


def _verdict(wrong: Share, bound: float) -> Literal["passes", "fails", "undecided"]:
    if wrong.high <= bound:
        return "passes"
    return "fails" if wrong.low > bound else "undecided"
