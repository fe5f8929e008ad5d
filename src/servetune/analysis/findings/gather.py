"""Findings: what a load point's numbers say about why it is as fast as it is, and what to try.

A rule is a function marked with `@rule`, in any module of `servetune.analysis.findings.rules`: it
looks at one load point and returns a finding or None.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import pandas as pd

from servetune.analysis.findings import rules
from servetune.analysis.findings.choices import choices
from servetune.analysis.roofline.attained import Attained, Engine, Row, attain
from servetune.engines.registry import package_of
from servetune.errors import reason_of
from servetune.models.loaded import served
from servetune.models.shape import UncountedError
from servetune.models.work import kv_cache_bytes
from servetune.numbers import known
from servetune.records.sessions import Ceilings, Launch, SessionRecord
from servetune.study.engines import WITHOUT_MODEL
from servetune.study.families import VLLM
from servetune.tables.frames import PENDING, grouped, records_of

_OF_ONE_ENGINE = (
    *("max_num_seqs", "max_num_batched_tokens", "kv_cache_tokens", "kv_cache_max_concurrency"),
)

_ARGUMENT = re.compile(r"\w_\w")
"""An argument or a variable of a server, in what to try."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Case:
    """What a rule looks at: a row of the tidy table, and what is known of its server.

    `launch` is that of its server, and `engine` what the roofline knows of it; where that is
    nothing, `uncounted` may say why.
    `is_heaviest`: no other load point of the row's variant and workload has more in flight.
    `lighter` is the row of the next lighter closed loop of the same server and workload, `repeats`
    are the rows of other launches at this load point that are ok.
    """

    row: Row
    engine: Engine | None = None
    is_heaviest: bool = True
    lighter: Row | None = None
    repeats: tuple[Row, ...] = ()
    launch: Launch | None = None
    uncounted: str | None = None

    @cached_property
    def attained(self) -> Attained | None:
        """Its place on the roofline; None without ceilings or an architecture."""
        return attain(self.row, self.engine) if self.engine else None

    @property
    def engines(self) -> int:
        """How many engines serve side by side; what they run and wait for adds up."""
        return self.engine.copies if self.engine else 1

    def value(self, name: str) -> float | None:
        """Return a number of the row; None where it has none.

        So it is of what bounds one of several engines: it says nothing about the load of all.
        """
        return None if self.engines > 1 and name in _OF_ONE_ENGINE else known(self.row.get(name))

    def card(self, name: str) -> float | None:
        """Return a number of the row's validity card; None where it has none."""
        return known(self._card.get(name))

    def gain_without(self, spared_ms: float) -> float:
        """Return by how much requests get faster if they spare so much of their E2E latency."""
        e2e_ms = self.value("e2e_mean_ms")
        return e2e_ms / (e2e_ms - min(spared_ms, 0.9 * e2e_ms)) if e2e_ms else 1.1

    @cached_property
    def _card(self) -> Row:
        return self._json("card") or {}

    @cached_property
    def broken(self) -> set[str]:
        """The rules of validity that the measurement breaks."""
        return {check["rule"] for check in self._json("checks") or () if check["is_broken"]}

    @cached_property
    def arguments(self) -> list[str]:
        """The server's command line; empty where it is not known."""
        return self._json("server_command") or []

    def _json(self, name: str) -> Any:
        text = self.row.get(name)
        return json.loads(text) if isinstance(text, str) else None

    @property
    def has_numbers(self) -> bool:
        """False if the measurement failed or is pending."""
        return self.row["status"] not in ("failed", PENDING)


def cases(
    table: pd.DataFrame, sessions: dict[str, SessionRecord], declared: Ceilings | None
) -> list[Case]:
    """Return a case a row of the tidy table, in its order.

    The engine is not known of a session that is missing; `declared` are the ceilings of one
    device, where the study tells them.
    """
    rows = records_of(table)
    loads = grouped(rows, _load)
    heaviest = {load: max(map(_in_flight, others)) for load, others in loads.items()}
    repeats = grouped(rows, lambda row: (*_load(row), row["load_point"]))
    loops = grouped(filter(_is_closed, rows), lambda row: (*_load(row), row["repeat"]))
    made = []
    for row in rows:
        is_heaviest = _in_flight(row) >= heaviest[_load(row)]
        launch = _launch_of(row, sessions)
        engine, uncounted = _engine_of(row, launch, declared)
        alike = repeats[*_load(row), row["load_point"]]
        also = tuple(each for each in alike if each is not row and each["status"] == "ok")
        lighter = _lighter(row, loops.get((*_load(row), row["repeat"]), []))
        made.append(Case(row, engine, is_heaviest, lighter, also, launch, uncounted))
    return made


def _load(row: Row) -> tuple[str, str]:
    return row["variant"], row["workload"]


def _in_flight(row: Row) -> float:
    return known(row["concurrency"]) or 0.0


def _is_closed(row: Row) -> bool:
    """Tell a closed loop that is ok."""
    return row["status"] == "ok" and known(row["rate_rps"]) is None and _in_flight(row) > 0


def _lighter(row: Row, loops: list[Row]) -> Row | None:
    """Return the next lighter one of the closed loops."""
    below = (loop for loop in loops if _in_flight(loop) < _in_flight(row))
    return max(below, key=_in_flight, default=None)


def _launch_of(row: Row, sessions: dict[str, SessionRecord]) -> Launch | None:
    session = sessions.get(row["session"])
    launches = session.launches if session else []
    return next((launch for launch in launches if launch.launch == row["launch"]), None)


def _engine_of(
    row: Row, launch: Launch | None, declared: Ceilings | None
) -> tuple[Engine | None, str | None]:
    """Return the engine that served a row, or None and why, where that is known."""
    ceilings = declared or (launch.ceilings if launch else None)
    if launch is None or ceilings is None:
        return None, None
    drafted = int(known(row.get("num_speculative_tokens")) or 0)
    try:
        own = served(launch)
        kv_cache_bytes(row.get("kv_cache_dtype"))
        _check_draft(launch, drafted)
    except UncountedError as error:
        return None, str(error)
    everywhere = ceilings.of(own.devices)
    return Engine(own.model, everywhere, own.draft, drafted, own.copies, own.devices), None


def _check_draft(launch: Launch, drafted: int) -> None:
    method = launch.config("speculative_config").get("method")
    if drafted and launch.draft is None and method not in (None, *WITHOUT_MODEL):
        why = f" ({launch.uncounted})" if launch.uncounted else ""
        raise UncountedError(f"what drafting by {method} costs is not known{why}")


Evidence = tuple[tuple[str, str], ...]


def facts(*told: tuple[str, float | None, Callable[[Any], str]]) -> Evidence:
    """Write what is known of some numbers: of each a name, the value, and how it is written."""
    return tuple((name, write(value)) for name, value, write in told if value is not None)


@dataclass(frozen=True)
class Finding:
    """A sentence of diagnosis.

    `evidence` is what was seen, a name and a value; `attempts` what to try; `gain` the factor by
    which the best attempt may make requests faster or more, by which findings are ranked; `chart`
    the section of the report that shows it. `is_lack`: the rule raised, and the title
    is the error.
    """

    title: str
    evidence: Evidence
    attempts: tuple[str, ...]
    gain: float
    chart: str
    is_lack: bool = False


@dataclass(frozen=True)
class GroupedFinding:
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


Rule = Callable[[Case], Finding | None]

_RULES: dict[str, Rule] = {}

_INVALID = ("measurement", "invalid")
"""Evidence that leads the others, where a broken rule of validity may have made them."""


def rule(function: Rule) -> Rule:
    """Make a function a rule, by its name with hyphens."""
    _RULES[function.__name__.replace("_", "-")] = function
    return function


@cache
def all_rules() -> dict[str, Rule]:
    """Return the rules of all modules by name, in alphabetical order."""
    for module in pkgutil.iter_modules(rules.__path__):
        importlib.import_module(f"{rules.__name__}.{module.name}")
    return dict(sorted(_RULES.items()))


def find(case: Case) -> dict[str, Finding]:
    """Return the findings of one load point by the rule that found them.

    A rule that raises gives a finding of its error. The arguments that rules name are vLLM's: to a
    server of another engine they are not told.
    """
    found = {name: told for name, rule in all_rules().items() if (told := _apply(rule, case))}
    if case.launch is None or package_of(case.launch.versions) == VLLM.package:
        return found
    return {name: replace(told, attempts=_in_words(told.attempts)) for name, told in found.items()}


def _in_words(attempts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(attempt for attempt in attempts if not _ARGUMENT.search(attempt))


def _apply(rule: Rule, case: Case) -> Finding | None:
    try:
        return rule(case)
    except Exception as error:
        return Finding(reason_of(error), evidence=(), attempts=(), gain=0.0, chart="", is_lack=True)


def findings(cases: Collection[Case]) -> list[GroupedFinding]:
    """Gather the findings of many load points, each said once, the highest gain first.

    None advises a choice in which the variants differ: another variant shows what it gives.
    """
    chosen = choices(case.arguments for case in cases)
    every = [
        (name, _without(finding, chosen), case.row)
        for case in cases
        for name, finding in find(case).items()
    ]
    gathered: list[GroupedFinding] = []
    for same in grouped(every, lambda of: (of[0], of[1].title)).values():
        same.sort(key=lambda of: -of[1].gain)
        name, finding, seen = same[0]
        if seen["status"] == "invalid":
            finding = replace(finding, evidence=(_INVALID, *finding.evidence))
        places: dict[str, dict[str, None]] = {}
        for _, _, row in same:
            of_variant = places.setdefault(row["variant"], {})
            if finding.chart != "startup":  # a start is one whatever is sent after it
                of_variant[f"{row['workload']} · {row['load_point']}"] = None
        gathered.append(
            GroupedFinding(name, finding, {who: tuple(at) for who, at in places.items()})
        )
    return sorted(gathered, key=lambda told: -told.finding.gain)


def _without(finding: Finding, chosen: set[str]) -> Finding:
    kept = (each for each in finding.attempts if chosen.isdisjoint(_WORD.findall(each)))
    return replace(finding, attempts=tuple(kept))
