"""Do load generators that sent the same load to the same variant measure the same?"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.analysis.lockstep import LOCKSTEP
from servetune.analysis.verdicts import compare
from servetune.numbers import known
from servetune.records.loads import Load
from servetune.study.generators import GENERATORS
from servetune.tables.design import Design
from servetune.tables.frames import records_of

WITHIN = {"output_throughput_tok_s": 0.03, "ttft_p50_ms": 0.05, "tpot_p50_ms": 0.05}
"""Generators agree on a load where the ratios of these are proven to be no farther from 1: the bars
that `benchmarks/client_agreement.py` holds them against."""


@dataclass(frozen=True)
class SameLoad:
    """One load of a variant as several generators measured it; the first is compared with.

    `rows` are those of a comparison, by the name of the generator; `verdicts` those on the launches
    of each other generator, by metric: `indistinguishable` is agreement, and a TTFT in lockstep has
    none.
    """

    variant: str
    rows: dict[str, dict[str, Any]]
    verdicts: dict[str, dict[str, str]]

    def ratios(self, generator: str) -> dict[str, float]:
        """Return the metrics of WITHIN over those of the first generator, where both are known."""
        first = next(iter(self.rows.values()))
        pairs = {name: (known(self.rows[generator][name]), known(first[name])) for name in WITHIN}
        return {name: value / of for name, (value, of) in pairs.items() if value and of}

    @property
    def launches(self) -> int:
        """The launches of the generator that has fewest."""
        return min(int(row["ok"]) for row in self.rows.values())

    @property
    def apart(self) -> dict[str, list[tuple[str, float]]]:
        """By generator, the metrics that are proven to differ, with their ratios."""
        far = {
            generator: [
                (name, self.ratios(generator)[name])
                for name, verdict in of_metrics.items()
                if verdict in ("faster", "slower")
            ]
            for generator, of_metrics in self.verdicts.items()
        }
        return {generator: apart for generator, apart in far.items() if apart}

    @property
    def agreed(self) -> list[str]:
        """The metrics on which every generator is proven to agree."""
        return [
            name
            for name in WITHIN
            if {each.get(name) for each in self.verdicts.values()} == {"indistinguishable"}
        ]

    @property
    def is_decided(self) -> bool:
        """Whether they agree on something, and nothing is left to noise."""
        words = {word for each in self.verdicts.values() for word in each.values()}
        return bool(self.agreed) and words <= {"faster", "slower", "indistinguishable"}


def same_loads(
    design: Design, compared: Iterable[dict[str, Any]], launches: pd.DataFrame
) -> list[SameLoad]:
    """Return the loads that several generators sent and measured.

    Takes the rows of a comparison, and `launch_values`.
    """
    if len({load.generator for load in design.loads.values()}) < 2:
        return []
    measured = {
        (row["variant"], row["workload"], row["load_point"]): row for row in compared if row["ok"]
    }
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for place, load in design.loads.items():
        if place in measured and _is_sent_as_scheduled(load):
            sent = json.dumps(load.model_dump(mode="json", exclude={"generator"}))
            found.setdefault((place[0], sent), {})[load.generator] = measured[place]
    return [
        SameLoad(variant, rows, _verdicts(variant, rows, launches))
        for (variant, _), rows in found.items()
        if len(rows) > 1
    ]


def _verdicts(
    variant: str, rows: dict[str, dict[str, Any]], launches: pd.DataFrame
) -> dict[str, dict[str, str]]:
    """Compare the launches of generators as those of variants are."""
    first, *others = rows
    of_variant = launches[launches["variant"] == variant]
    values = pd.concat(
        of_variant[
            (of_variant["workload"] == row["workload"])
            & (of_variant["load_point"] == row["load_point"])
        ].assign(variant=generator, workload="", load_point="")
        for generator, row in rows.items()
    )
    verdicts: dict[str, dict[str, str]] = {generator: {} for generator in others}
    for margin in sorted(set(WITHIN.values())):
        held = values[values["metric"].map(WITHIN) == margin]
        for row in records_of(compare(held, first, margin)) if len(held) else []:
            if row["verdict"] != LOCKSTEP:
                verdicts[row["variant"]][row["metric"]] = row["verdict"]
    return verdicts


def _is_sent_as_scheduled(load: Load) -> bool:
    """Tell whether a load is the same by every generator: other arrivals make it another one."""
    is_random = load.rate_rps is not None and load.arrivals != "constant" and not load.is_at_once
    return not (is_random and GENERATORS[load.generator].draws_arrivals)
