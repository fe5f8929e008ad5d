"""Up to which load speculation pays: the verdicts of the study, by load."""

from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter
from typing import Any

import pandas as pd

from servetune.analysis.verdicts import compare
from servetune.numbers import known
from servetune.tables.design import Design, Place
from servetune.tables.frames import grouped, records_of

METRICS = ("tpot_p50_ms", "output_throughput_tok_s")
"""What a draft is for, and what the steps that verify it cost all requests together."""

Row = dict[str, Any]
Key = tuple[str, str, str, str]
"""Variant, workload, load point and metric."""


@dataclass(frozen=True)
class Payoff:
    """The verdicts on one metric over the closed loops of a workload, by concurrency.

    `points` hold rows of `servetune.analysis.verdicts.compare` against `plain`.
    """

    variant: str
    plain: str
    workload: str
    metric: str
    points: tuple[tuple[float, Row], ...]

    @property
    def pays_at(self) -> tuple[float, Row] | None:
        """The last load at which it is proven faster, as at all below; None if at none."""
        paying = list(takewhile(lambda point: point[1]["verdict"] == "faster", self.points))
        return paying[-1] if paying else None

    @property
    def stops_at(self) -> tuple[float, Row] | None:
        """The first load at which it is proven not to be faster; None where there is none."""
        of = (p for p in self.points if p[1]["verdict"] in ("slower", "indistinguishable"))
        return next(of, None)


def counterparts(design: Design) -> dict[str, str]:
    """Return of each variant that speculates the one that differs in that alone, if there is one.

    The baseline comes first where several do.
    """
    plain = [name for name, served in design.served.items() if served["speculative"] is None]
    plain.sort(key=lambda name: name != design.baseline)
    return {
        name: same[0]
        for name, served in design.served.items()
        if served["speculative"] is not None
        if (same := [one for one in plain if {**served, "speculative": None} == design.served[one]])
    }


def against_plain(design: Design, launches: pd.DataFrame, verdicts: pd.DataFrame) -> dict[Key, Row]:
    """Return the verdict of each variant that speculates against its counterpart.

    `verdicts` are those against the baseline: they hold where that is the counterpart. Against
    another variant they are made from the `launches` in the same way.
    """
    found: dict[Key, Row] = {}
    for plain, variants in grouped(counterparts(design).items(), lambda pair: pair[1]).items():
        names = [variant for variant, _ in variants]
        of = verdicts if plain == design.baseline else compare(launches, plain, design.equivalence)
        here = of["variant"].isin(names) & of["metric"].isin(METRICS)
        found |= {
            (row["variant"], row["workload"], row["load_point"], row["metric"]): row
            for row in records_of(of[here])
            if known(row["ratio"])
        }
    return found


def payoffs(design: Design, table: pd.DataFrame, judged: dict[Key, Row]) -> list[Payoff]:
    """Gather the verdicts of closed loops by variant, workload and metric."""
    plain = counterparts(design)
    points: dict[tuple[str, str, str], dict[float, Row]] = {}
    for row in records_of(table):
        place: Place = (row["variant"], row["workload"], row["load_point"])
        concurrency = known(row["concurrency"])
        if concurrency is None or known(row["rate_rps"]) is not None:
            continue
        for metric in METRICS:
            if verdict := judged.get((*place, metric)):
                points.setdefault((*place[:2], metric), {})[concurrency] = verdict
    return [
        Payoff(
            variant, plain[variant], workload, metric, tuple(sorted(at.items(), key=itemgetter(0)))
        )
        for (variant, workload, metric), at in points.items()
    ]
