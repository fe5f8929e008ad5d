"""What one workload costs beside another on the same launches: the requests that both have.

Both loads were sent to the same server, so each launch gives a ratio of its own, and what launches
differ by falls out of it: a paired comparison over launches (Student's t of the log ratios).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from servetune.analysis.differences import CONFIDENCE, Difference, Floats, holm, three_sided
from servetune.analysis.spread import can_decide
from servetune.analysis.verdicts import WORDS
from servetune.tables.frames import numbers

METRICS = ("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "e2e_p50_ms")
"""What is compared of the requests that both workloads have: all are better lower."""

HITS = "prefix_cache_hit_ratio"
"""Shown beside them, of all requests of a load, and not judged."""

Place = tuple[str, str]


@dataclass(frozen=True)
class Versus:
    """A metric of a variant's requests under two loads; values are means over the launches.

    `kind` is the class, empty for all requests. The ratio is that of `place` to `other`, with its
    interval at 95 %: NaN of a single launch. `verdict` is None of what is not judged.
    """

    variant: str
    place: Place
    other: Place
    kind: str
    metric: str
    value: float
    other_value: float
    launches: int
    ratio: float = np.nan
    low: float = np.nan
    high: float = np.nan
    verdict: str | None = None


def versus(
    named: dict[str, str], points: pd.DataFrame, by_class: pd.DataFrame, equivalence: float
) -> list[Versus]:
    """Compare workloads with those that they are named with; the tables have a row a launch.

    Only measurements that are ok count. Verdicts are beyond `equivalence`, the smallest relative
    difference of interest, and hold over all that is given here at once (Holm).
    """
    ok = points[points["status"] == "ok"]
    classes = by_class[by_class["class"].notna()]
    classes = classes[classes["measurement"].isin(ok["measurement"])]
    compared = [
        row
        for (place, other), variant in product(_places(named, points), points["variant"].unique())
        for row in _of_variant(str(variant), place, other, ok, classes)
    ]
    return _judged(compared, equivalence)


def _places(named: dict[str, str], points: pd.DataFrame) -> list[tuple[Place, Place]]:
    """Return the load points that are compared, the first with the first, and so on."""
    unique = points[["workload", "load_point"]].drop_duplicates()
    of = {name: list(rows["load_point"]) for name, rows in unique.groupby("workload", sort=False)}
    return [
        ((workload, here), (other, there))
        for workload, other in named.items()
        for here, there in zip(of.get(workload, ()), of.get(other, ()), strict=False)
    ]


def _of_variant(
    variant: str, place: Place, other: Place, ok: pd.DataFrame, classes: pd.DataFrame
) -> list[tuple[Versus, Floats]]:
    """Return each metric that both places have in a launch, with the log ratios of the launches."""
    here, there = (_at(ok, variant, each) for each in (place, other))
    if here.empty or there.empty:
        return []
    kinds = [_at(classes, variant, each) for each in (place, other)]
    common = [name for name in dict.fromkeys(kinds[0]["class"]) if name in {*kinds[1]["class"]}]
    parts = [(name, *(each[each["class"] == name] for each in kinds)) for name in common]
    parts = parts or [("", here, there)]
    found = []
    for name, left, right in parts:
        for metric in METRICS:
            pairs = _pairs(left, right, metric)
            if len(pairs):
                found.append(_row(variant, place, other, name, metric, pairs))
    if len(pairs := _pairs(here, there, HITS)):
        found.append(_row(variant, place, other, "", HITS, pairs))
    return found


def _at(rows: pd.DataFrame, variant: str, place: Place) -> pd.DataFrame:
    workload, point = place
    is_here = (rows["workload"] == workload) & (rows["load_point"] == point)
    return rows[is_here & (rows["variant"] == variant)]


def _pairs(left: pd.DataFrame, right: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the values of both sides by launch, where both have one."""
    sides = [
        side.assign(value=numbers(side[metric]))[["repeat", "value"]] for side in (left, right)
    ]
    return sides[0].merge(sides[1], on="repeat", suffixes=("", "_other")).dropna()


def _row(
    variant: str, place: Place, other: Place, kind: str, metric: str, pairs: pd.DataFrame
) -> tuple[Versus, Floats]:
    values, others = (pairs[name].to_numpy(dtype=float) for name in ("value", "value_other"))
    means = (float(values.mean()), float(others.mean()))
    row = Versus(variant, place, other, kind, metric, *means, launches=len(pairs))
    is_judged = metric != HITS and (values > 0).all() and (others > 0).all()
    return row, np.log(values / others) if is_judged else np.empty(0)


def _judged(rows: list[tuple[Versus, Floats]], equivalence: float) -> list[Versus]:
    counts = np.array([len(logs) for _, logs in rows], dtype=float)
    enough = counts > 1
    with np.errstate(invalid="ignore", divide="ignore"):
        measured = Difference(
            log_ratio=np.array([logs.mean() if len(logs) else np.nan for _, logs in rows], float),
            standard_error=np.array([_error(logs) for _, logs in rows], float),
            degrees=np.where(enough, counts - 1, np.nan),
        )
        low, high = measured.interval()
        claim, p_value = three_sided(measured, float(np.log1p(equivalence)))
    is_proven = (holm(p_value) <= 1 - CONFIDENCE) & can_decide(counts, measured.degrees)
    judged = []
    for place, (row, logs) in enumerate(rows):
        if not len(logs):
            judged.append(row)
            continue
        # A higher latency is slower.
        word = WORDS[1 - int(claim[place])] if is_proven[place] else "undecided"
        ends = (float(np.exp(each[place])) for each in (measured.log_ratio, low, high))
        told = dict(zip(("ratio", "low", "high"), ends, strict=True))
        judged.append(Versus(**{**vars(row), **told, "verdict": word}))
    return judged


def _error(logs: Floats) -> float:
    return float(logs.std(ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else np.nan
