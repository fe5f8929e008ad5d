"""Findings: what a load point's numbers say about why it is as fast as it is, and what to try.

Each module of `servetune.insight.rules` is one rule: a file there is all that a new one takes. Its
function `find` looks at one load point and returns a finding or None.
"""

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from servetune.analysis.comparison import known
from servetune.insight import rules
from servetune.insight.attained import Attained, Engine, attain

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What a rule looks at: a row of the tidy table, and what is known of its server.

    `is_heaviest`: no other load point of the row's variant and workload has more in flight.
    """

    row: Row
    engine: Engine | None = None
    is_heaviest: bool = True

    @cached_property
    def attained(self) -> Attained | None:
        """Its place on the roofline; None without ceilings or an architecture."""
        return attain(self.row, self.engine) if self.engine else None

    def value(self, name: str) -> float | None:
        """Return a number of the row; None where it has none."""
        return known(self.row.get(name))

    def card(self, name: str) -> float | None:
        """Return a number of the row's validity card; None where it has none."""
        return known(self._card.get(name))

    @cached_property
    def _card(self) -> Row:
        told = self.row.get("card")
        return json.loads(told) if isinstance(told, str) else {}

    @property
    def has_numbers(self) -> bool:
        """False if the measurement failed."""
        return bool(self.row["status"] != "failed")


@dataclass(frozen=True)
class Finding:
    """A sentence of diagnosis.

    `evidence` is what was seen, a name and a value; `attempts` what to try; `gain` the factor by
    which the best attempt may make requests faster or more, by which findings are ranked; `chart`
    the section of the report that shows it.
    """

    title: str
    evidence: tuple[tuple[str, str], ...]
    attempts: tuple[str, ...]
    gain: float
    chart: str


@dataclass(frozen=True)
class Told:
    """A finding, the rule that found it, the variant, and all load points where it holds.

    The evidence is that of the load point with the highest gain, the first of `places`.
    """

    rule: str
    variant: str
    finding: Finding
    places: tuple[str, ...]


@cache
def all_rules() -> dict[str, Callable[[Case], Finding | None]]:
    """Return the rules by name: that of their module, with hyphens."""
    names = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    return {
        name.replace("_", "-"): importlib.import_module(f"{rules.__name__}.{name}").find
        for name in names
    }


def find(case: Case) -> dict[str, Finding]:
    """Return the findings of one load point by the rule that found them."""
    found = {name: rule(case) for name, rule in all_rules().items()}
    return {name: finding for name, finding in found.items() if finding is not None}


def findings(cases: Iterable[Case]) -> list[Told]:
    """Gather the findings of many load points by rule and variant, the highest gain first."""
    gathered: dict[tuple[str, str], list[tuple[Finding, str]]] = {}
    for case in cases:
        place = f"{case.row['workload']} · {case.row['load_point']}"
        for name, finding in find(case).items():
            gathered.setdefault((name, case.row["variant"]), []).append((finding, place))
    told = []
    for (name, variant), found in gathered.items():
        found.sort(key=lambda each: -each[0].gain)
        places = tuple(dict.fromkeys(place for _, place in found))
        told.append(Told(name, variant, found[0][0], places))
    return sorted(told, key=lambda each: -each.finding.gain)
