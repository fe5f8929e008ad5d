"""Findings: what a load point's numbers say about why it is as fast as it is, and what to try.

Each module of `servetune.analysis.findings.rules` is one rule: a file there is all that a new one
takes. Its function `find` looks at one load point and returns a finding or None.
"""

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from servetune.analysis.findings import rules
from servetune.analysis.roofline.attained import Attained, Engine, attain
from servetune.tables.frames import grouped, known

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """What a rule looks at: a row of the tidy table, and what is known of its server.

    `is_heaviest`: no other load point of the row's variant and workload has more in flight.
    `lighter` is the row of the next lighter closed loop of the same server and workload.
    """

    row: Row
    engine: Engine | None = None
    is_heaviest: bool = True
    lighter: Row | None = None

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
        card = self.row.get("card")
        return json.loads(card) if isinstance(card, str) else {}

    @cached_property
    def broken(self) -> set[str]:
        """The rules of validity that the measurement breaks."""
        told = self.row.get("checks")
        checks = json.loads(told) if isinstance(told, str) else []
        return {check["rule"] for check in checks if check["is_broken"]}

    @cached_property
    def arguments(self) -> list[str]:
        """The server's command line; empty where it is not known."""
        command = self.row.get("server_command")
        return json.loads(command) if isinstance(command, str) else []

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
    """A finding, the rule that found it, and all variants and load points where it holds.

    The evidence is that of the load point with the highest gain: the first of the first variant.
    """

    rule: str
    finding: Finding
    places: dict[str, tuple[str, ...]]

    @property
    def seen_at(self) -> str:
        """The variant and the load point of the evidence."""
        variant, places = next(iter(self.places.items()))
        return ", ".join([variant, *places[:1]])


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
    return {name: finding for name, rule in all_rules().items() if (finding := rule(case))}


def findings(cases: Iterable[Case]) -> list[Told]:
    """Gather the findings of many load points, each said once, the highest gain first."""
    every = [(name, finding, case.row) for case in cases for name, finding in find(case).items()]
    gathered: list[Told] = []
    for same in grouped(every, lambda of: (of[0], of[1].title)).values():
        same.sort(key=lambda of: -of[1].gain)
        name, finding, _ = same[0]
        places: dict[str, dict[str, None]] = {}
        for _, _, row in same:
            of_variant = places.setdefault(row["variant"], {})
            if finding.chart != "startup":  # a start is one whatever is sent after it
                of_variant[f"{row['workload']} · {row['load_point']}"] = None
        gathered.append(Told(name, finding, {who: tuple(at) for who, at in places.items()}))
    return sorted(gathered, key=lambda told: -told.finding.gain)
