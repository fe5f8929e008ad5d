"""Do load generators that sent the same load to the same variant measure the same?"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from servetune.records.loads import Load
from servetune.study.generators import GENERATORS
from servetune.tables.design import Design
from servetune.tables.frames import known

WITHIN = {"output_throughput_tok_s": 0.03, "ttft_p50_ms": 0.05, "tpot_p50_ms": 0.05}
"""Generators agree on a load where no ratio of these is farther from 1: the bars that
`benchmarks/client_agreement.py` holds them against."""


@dataclass(frozen=True)
class SameLoad:
    """One load of a variant as several generators measured it; the first is compared with.

    `rows` are those of a comparison, by the name of the generator.
    """

    variant: str
    rows: dict[str, dict[str, Any]]

    def ratios(self, generator: str) -> dict[str, float]:
        """Return the metrics of WITHIN over those of the first generator, where both are known."""
        first = next(iter(self.rows.values()))
        pairs = {name: (known(self.rows[generator][name]), known(first[name])) for name in WITHIN}
        return {name: value / of for name, (value, of) in pairs.items() if value and of}

    @property
    def apart(self) -> dict[str, list[tuple[str, float]]]:
        """By generator, the metrics and ratios that are farther from 1 than agreement allows."""
        far = {
            generator: [
                (name, ratio)
                for name, ratio in self.ratios(generator).items()
                if abs(ratio - 1) > WITHIN[name]
            ]
            for generator in self.rows
        }
        return {generator: apart for generator, apart in far.items() if apart}


def same_loads(design: Design, compared: Iterable[dict[str, Any]]) -> list[SameLoad]:
    """Return the loads that several generators sent and measured, by the rows of a comparison."""
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
    return [SameLoad(variant, rows) for (variant, _), rows in found.items() if len(rows) > 1]


def _is_sent_as_scheduled(load: Load) -> bool:
    """Tell whether a load is the same by every generator: other arrivals make it another one."""
    is_random = load.rate_rps is not None and load.arrivals != "constant" and not load.is_at_once
    return not (is_random and GENERATORS[load.generator].draws_arrivals)
