"""The validity card of every measurement, and each rule over all of them."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from servetune.analysis.wording import plural, ratio
from servetune.numbers import NONE, number, share, whole
from servetune.records.measurements import Card, Check
from servetune.records.rule import Rule
from servetune.records.rules import RULES
from servetune.tables.frames import records_of, with_numbers

Row = dict[str, Any]
Verdict = Literal["pass", "broken", "not judged"]

NO_LIMIT = "no limit"


@dataclass(frozen=True)
class Line:
    """One rule on the card of one measurement."""

    rule: Rule
    observed: str
    limit: str
    verdict: Verdict
    value: float | None
    reason: str


@dataclass(frozen=True)
class CardOf:
    """The card of one measurement; `told` is what no rule judges: a name and what was seen."""

    row: Row
    lines: list[Line]
    told: list[tuple[str, str]]

    @property
    def broken(self) -> list[Line]:
        """The rules that it breaks."""
        return [line for line in self.lines if line.verdict == "broken"]

    def count(self, verdict: Verdict) -> int:
        """Count the rules of a verdict."""
        return sum(line.verdict == verdict for line in self.lines)


@dataclass(frozen=True)
class Tally:
    """One rule over all measurements, with the highest value seen."""

    rule: Rule
    limit: str
    highest: str
    counts: Counter[Verdict]


def cards(table: pd.DataFrame) -> list[CardOf]:
    """Make the card of every row of the table that has numbers to judge, in its order."""
    return [_card_of(row) for row in records_of(with_numbers(table))]


def warnings(table: pd.DataFrame) -> list[str]:
    """Say of how many measurements that are ok the output tokens are the server's word alone."""
    alone = int(table.loc[table["status"] == "ok", "tokens_confirmed_by"].isna().sum())
    if not alone:
        return []
    return [
        f"The output tokens of {plural(alone, 'measurement')} are as the server counted them: the"
        " client could not confirm them."
    ]


def tallies(shown: list[CardOf]) -> list[Tally]:
    """Count over all cards how each rule was kept."""
    return [_tally(lines) for lines in zip(*(card.lines for card in shown), strict=True)]


def _card_of(row: Row) -> CardOf:
    checks = {made["rule"]: Check(**made) for made in json.loads(row["checks"])}
    card = Card.model_validate_json(row["card"])
    unjudged: tuple[tuple[str, float | None, Callable[[float], str]], ...] = (
        ("Client memory", card.client_memory_bytes, lambda value: f"{number(value / 2**20)} MiB"),
        ("Front end, of one core", card.front_end_cpu_ratio, share),
        ("Sends close together", card.send_crowding, lambda value: f"{ratio(value)} chance"),
        ("Requests left out as too long", card.rejected_requests, whole),
        ("Requests cut to fit", card.truncated_requests, whole),
        ("Preemptions in the server's log", card.log_preemptions, whole),
        ("Prompt tokens from KV tiers", card.tier_hit_ratio, share),
    )
    tiers = ", ".join(card.kept_tiers)
    cores = ", ".join(map(share, card.client_process_cpu_ratios or ()))
    return CardOf(
        row,
        lines=[_line(rule, checks[rule.name]) for rule in RULES],
        told=[
            *((name, write(value)) for name, value, write in unjudged if value is not None),
            *([("First errors", card.first_error)] if card.first_error else []),
            *(("Warning in the server's log", line) for line in card.log_warnings or []),
            *([("KV tiers that cannot be emptied", tiers)] if tiers else []),
            *([("Client processes, of a core each", cores)] if cores else []),
        ],
    )


def _line(rule: Rule, check: Check) -> Line:
    observed = check.observed
    if observed is None and rule.limit and check.value is not None:
        observed = rule.write(check.value)
    return Line(
        rule=rule,
        observed=observed or "not known",
        limit=_at_most(rule, check) if rule.limit else rule.asks,
        verdict=_verdict(rule, check),
        value=check.value,
        reason=check.reason or "",
    )


def _at_most(rule: Rule, check: Check) -> str:
    return NO_LIMIT if check.limit is None else f"at most {rule.write(check.limit)}"


def _verdict(rule: Rule, check: Check) -> Verdict:
    if check.is_broken:
        return "broken"
    if rule.asks:
        return "pass" if check.observed else "not judged"
    return "not judged" if None in (check.value, check.limit) else "pass"


def _tally(lines: tuple[Line, ...]) -> Tally:
    rule = lines[0].rule
    values = [line.value for line in lines if line.value is not None]
    return Tally(
        rule=rule,
        limit=next((line.limit for line in lines if line.limit != NO_LIMIT), NO_LIMIT),
        highest=rule.write(max(values)) if values and rule.limit else NONE,
        counts=Counter(line.verdict for line in lines),
    )
